"""Containers of modules: ModuleList, Sequential and Identity."""

import itertools

from ..backend import listed
from .module import Module


class ModuleList(Module):
    """A list of submodules, named by position; their parameters are trained and saved.

    >>> from tinyattn import nn
    >>> layers = ModuleList([nn.Linear(2, 3), nn.Linear(3, 1)])
    >>> len(layers), [name for name, _ in layers.named_parameters()]
    (2, ['0.weight', '0.bias', '1.weight', '1.bias'])
    """

    def __init__(self, modules=()):
        if isinstance(modules, Module) and not isinstance(modules, ModuleList):
            raise TypeError(
                f"ModuleList takes a list of modules, got a {type(modules).__name__}: write [module]"
            )
        self.extend(modules)

    def append(self, module):
        """Append a module; returns the list."""
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__} expected a module, got {type(module).__name__}")
        setattr(self, str(len(self)), module)
        return self

    def extend(self, modules):
        """Append several modules; returns the list."""
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

    def _displayed_children(self):
        return list(grouped(self.named_children()))


def grouped(children):
    """Merge neighboring modules of the same ``repr``: yields (label, module), such as ``("0 to 3", block)``."""
    for _, group in itertools.groupby(children, key=lambda child: repr(child[1])):
        (first, module), *others = group
        yield (f"{first} to {others[-1][0]}" if others else first), module


class Sequential(ModuleList):
    """A chain of modules: each one is applied to the output of the previous one.

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
    """Return the input: a named place for hooks that observe or replace an intermediate value.

    >>> Identity()(3)
    3
    """

    def forward(self, x):
        return x
