"""Parameter: a tensor that is trained."""

import contextlib
from contextvars import ContextVar

import numpy as np

from ..autograd import Tensor

_allocates = ContextVar("allocates", default=True)


@contextlib.contextmanager
def without_memory():
    """Inside, new parameters have a shape and no memory: all elements are one zero, until ``adopt`` sets an array.

    So a large model that is about to be loaded is built without drawing and storing initial values.

    >>> from tinyattn import nn
    >>> with without_memory():
    ...     layer = nn.Linear(1_000_000, 1_000_000)
    >>> layer.weight.shape
    (1000000, 1000000)
    """
    token = _allocates.set(False)
    try:
        yield
    finally:
        _allocates.reset(token)


def has_memory():
    """Whether new parameters get memory: see ``without_memory``."""
    return _allocates.get()


def shared_zero(shape):
    """A float32 host array of ``shape`` whose elements share the memory of one zero."""
    return np.broadcast_to(np.float32(0), shape)


class Parameter(Tensor):
    """A trainable tensor: a module registers it when it is assigned as an attribute, and optimizers update it.

    Args:
        data: the initial value, as for ``Tensor``; it is copied.
        requires_grad: False freezes the parameter: it gets no gradient and no update.
        dtype: a floating-point dtype.
        device: the device of the parameter; by default the default device.

    Raises:
        TypeError: for data that is not floating point.

    >>> Parameter([1.0, 2.0])
    Parameter([1., 2.])
    """

    __slots__ = ()

    def __init__(self, data, requires_grad=True, dtype=None, device=None):
        if has_memory():
            super().__init__(data, dtype=dtype, device=device)
        else:
            super().__init__(0.0, dtype=dtype, device="cpu")
            self._data = shared_zero(np.shape(data))
        if self.dtype.kind != "f":
            raise TypeError(
                f"a parameter must be floating point, got {self.dtype}: write 1.0 instead of 1, or pass dtype"
            )
        self.requires_grad = requires_grad

    def _origin(self):
        return "" if self.requires_grad else ", requires_grad=False"
