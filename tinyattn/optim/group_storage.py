"""Flat storage of the parameters of one group, with the buffers of optimizer state."""

from ..backend import array_namespace
from .flat import FlatStorage


class GroupStorage:
    """The parameters of a group that share device and dtype, and their optimizer state."""

    def __init__(self, group, members, buffers):
        self.group = group
        self.names = [name for name, _ in members]
        self.storage = FlatStorage([parameter for _, parameter in members])
        self.buffers = {name: self.storage.zeros() for name in buffers}
        if self.storage.dtype != self.storage.state_dtype:
            self.buffers["master"] = self.storage.values.astype(self.storage.state_dtype)
        self.steps = [0] * len(members)
        self.present = None  # during a step: which parameters have a gradient

    @property
    def values(self):
        """The array that updates modify: the master weights of float16 parameters, else the parameters."""
        return self.buffers.get("master", self.storage.values)

    def arrays(self, names):
        """Values, gradients and the buffers of those names."""
        return (self.values, self.storage.gradients, *(self.buffers[name] for name in names))

    def refresh_master(self):
        """Take over parameters that were set since the last step: those that the master weights do not round to."""
        values, master = self.storage.values, self.values
        if master is not values:
            xp = array_namespace(values)
            same = values == master.astype(values.dtype)
            master[...] = xp.where(same, master, values.astype(master.dtype))
