"""Modules that hold modules in order."""

import itertools

from ..backend import listed
from .module import Module


class ModuleList(Module):
    """A list whose modules are found: their parameters are trained and saved, named by position.

    >>> from tinyattn import nn
    >>> layers = ModuleList([nn.Linear(2, 3), nn.Linear(3, 1)])
    >>> len(layers), [name for name, _ in layers.named_parameters()]
    (2, ['0.weight', '0.bias', '1.weight', '1.bias'])
    """

    def __init__(self, modules=()):
        if isinstance(modules, Module) and not isinstance(modules, ModuleList):
            raise TypeError(f"ModuleList takes a list of modules, got one {type(modules).__name__}")
        self.extend(modules)

    def append(self, module):
        """Add a module at the end; returns the list."""
        if not isinstance(module, Module):
            raise TypeError(f"a {type(self).__name__} holds modules, got {type(module).__name__}")
        setattr(self, str(len(self)), module)
        return self

    def extend(self, modules):
        """Add several modules at the end; returns the list."""
        for module in listed(modules, "modules"):
            self.append(module)
        return self

    def __setitem__(self, position, module):
        name, _ = self.named_children()[position]
        setattr(self, name, module)

    def __len__(self):
        return len(self.named_children())

    def __iter__(self):
        return iter([child for _, child in self.named_children()])

    def __getitem__(self, position):
        children = [child for _, child in self.named_children()]
        if isinstance(position, slice):
            return self._of(children[position])
        return children[position]

    @staticmethod
    def _of(modules):
        return ModuleList(modules)

    def __repr__(self):
        """Neighbours that read alike are shown once, with their number."""
        lines = []
        texts = [repr(child) for _, child in self.named_children()]
        for text, group in itertools.groupby(enumerate(texts), key=lambda pair: pair[1]):
            positions = [position for position, _ in group]
            many = len(positions) > 1
            label = f"{positions[0]} to {positions[-1]}" if many else f"{positions[0]}"
            lines.append(f"  {label}: " + text.replace("\n", "\n  "))
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


class Sequential(ModuleList):
    """Modules one after the other: each takes the output of the one before.

    >>> import tinyattn as ta
    >>> from tinyattn import nn
    >>> model = Sequential(nn.Linear(2, 8), nn.Activation("gelu"), nn.Linear(8, 1))
    >>> model(ta.tensor([[1.0, 2.0]])).shape
    (1, 1)
    """

    def __init__(self, *modules):
        super().__init__(modules)

    @staticmethod
    def _of(modules):
        return Sequential(*modules)

    def forward(self, x):
        for module in self:
            x = module(x)
        return x


class Identity(Module):
    """Returns its input: a named place where hooks can see, or replace, a value that no layer returns.

    >>> Identity()(3)
    3
    """

    def forward(self, x):
        return x
