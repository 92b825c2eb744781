"""Module: the base class of all layers and models."""

import copy
from collections.abc import Mapping

from ..autograd import Tensor
from ..autograd.tensor import HookHandle
from ..backend import get_backend, native_dtype
from ..ops import zeros_like
from .parameter import Parameter
from .placement import detach_results, dtype_or_none, move, overwrite, saved_array

CONTAINERS = (list, tuple, dict, set, frozenset)


class Module:
    """The base class of all layers and models: define ``forward``, and assign parameters and modules as attributes.

    Parameters and submodules are the attributes of these types, in the order of assignment. A plain Tensor attribute is
    a constant: it moves with ``to`` and is not part of ``state_dict``. Calling ``super().__init__()`` is optional.

    Raises:
        TypeError: for a list, tuple, dict or set of parameters or modules, which would not be registered. It is raised
            on assignment, or by ``named_parameters`` if they were added to the container later. Also for assigning
            anything but a parameter or None to a parameter, or anything but a module or None to a submodule.

    >>> import tinyattn as ta
    >>> class Scale(Module):
    ...     def __init__(self, factor):
    ...         self.factor = Parameter(factor)
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> model = Scale(2.0)
    >>> model(ta.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    >>> model.named_parameters()
    [('factor', Parameter(2.))]
    """

    training = True
    _forward_hooks = None

    def forward(self, *args, **kwargs):
        """Compute the output of the module; subclasses must override it."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *args, **kwargs):
        output = self.forward(*args, **kwargs)
        if self._forward_hooks:
            for hook in list(self._forward_hooks.values()):
                answer = hook(self, args, output)
                if answer is not None:
                    output = answer
        return output

    def __setattr__(self, name, value):
        self._check_container(name, value)
        current = vars(self).get(name)
        for kind, advice in (
            (Parameter, f"write {name}.data = ... to change its content"),
            (Module, "assign a module"),
        ):
            if isinstance(current, kind) and not isinstance(value, (kind, type(None))):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a {type(current).__name__}, which a {type(value).__name__} "
                    f"cannot replace: {advice}, or assign None to remove it"
                )
        object.__setattr__(self, name, value)

    def _check_container(self, name, value):
        """Raise TypeError for a plain container of parameters or modules."""
        item = _unregistered(value) if isinstance(value, CONTAINERS) else None
        if item is not None:
            raise TypeError(
                f"{type(self).__name__}.{name} is a {type(value).__name__} with a {type(item).__name__}, "
                "which would be neither trained nor saved: use nn.ModuleList, or a separate attribute for each"
            )

    # ------------------------------------------------------------------------------------ submodules and parameters

    def named_children(self):
        """The direct submodules, as a list of (name, module)."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Module)]

    def named_modules(self):
        """This module, named ``""``, and all submodules, each once, as a list of (dotted name, module)."""
        return list(self._iterate_modules())

    def modules(self):
        """This module and all submodules, each once, as a list."""
        return [module for _, module in self._iterate_modules()]

    def _iterate_modules(self):
        """Iterate over ``named_modules``."""
        seen = set()
        stack = [("", self)]
        while stack:
            name, module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module
                prefix = f"{name}." if name else ""
                children = reversed(module.named_children())
                stack += [(prefix + child_name, child) for child_name, child in children]

    def named_parameters(self):
        """All parameters, as a list of (dotted name, parameter); a shared one is listed once, by its first name."""
        found = {}
        for name, module in self._iterate_modules():
            prefix = f"{name}." if name else ""
            for attribute, value in vars(module).items():
                if isinstance(value, Parameter):
                    found.setdefault(id(value), (prefix + attribute, value))
                module._check_container(attribute, value)
        return list(found.values())

    def parameters(self):
        """All parameters, each once, as a list (not a generator)."""
        return [parameter for _, parameter in self.named_parameters()]

    def parameter_count(self):
        """The total number of elements of all parameters; a shared parameter counts once.

        >>> from tinyattn import nn
        >>> nn.Linear(2, 3).parameter_count()
        9
        """
        return sum(parameter.size for parameter in self.parameters())

    # ------------------------------------------------------------------------------------------------------ state

    def state_dict(self):
        """A copy of every parameter as a NumPy array on the host, by dotted name.

        A shared parameter is listed once, by its first name, so that the arrays share no memory.

        >>> from tinyattn import nn
        >>> {name: array.shape for name, array in nn.Linear(2, 3).state_dict().items()}
        {'weight': (2, 3), 'bias': (3,)}
        """
        return {name: parameter.numpy() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state, strict=True):
        """Copy the arrays of ``state``, a ``state_dict``, into the parameters.

        Everything is checked before anything is written: an error leaves the module unchanged. Arrays are cast to the
        parameters' dtype and moved to their device; nothing is broadcast.

        Args:
            state: a dict from dotted names to arrays or tensors.
            strict: whether the names must be the same; otherwise only the common ones are loaded.

        Returns:
            The names missing in ``state`` and the unexpected ones, two lists (both empty if strict).

        Raises:
            ValueError: if the names differ (and ``strict``) or a shape differs; the message lists every difference.
            TypeError: if ``state`` is not a dict, or a value is not an array of real numbers.
        """
        if not isinstance(state, Mapping):
            raise TypeError(
                f"state must be a dict of names to arrays, as state_dict() returns, got {type(state).__name__}"
            )
        own = dict(self.named_parameters())
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        differences = []
        if strict:
            differences += [f"{name} is missing" for name in missing]
            differences += [f"{name} is not a parameter of it" for name in unexpected]
        arrays = {name: saved_array(name, state[name]) for name in own if name in state}
        differences += [
            f"{name} has shape {array.shape}, the module's is {own[name].shape}"
            for name, array in arrays.items()
            if array.shape != own[name].shape
        ]
        if differences:
            raise ValueError(
                f"this state does not fit {type(self).__name__}: {'; '.join(differences)}. "
                "Build the module with the settings it was saved with; nothing was changed"
            )
        for name, array in arrays.items():
            overwrite(own[name], array)
        return missing, unexpected

    def train(self, mode=True):
        """Switch this module and all submodules to training mode, or with False to eval mode; returns the module."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self):
        """Switch this module and all submodules to eval mode (no dropout); returns the module."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Set ``requires_grad`` of all parameters; False freezes them. Returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none=True):
        """Reset all gradients: every ``.grad`` becomes None, or with ``set_to_none=False`` zeros."""
        for parameter in self.parameters():
            keep = parameter.grad is not None and not set_to_none
            parameter.grad = zeros_like(parameter.grad) if keep else None

    def to(self, target=None, *, device=None, dtype=None):
        """Move all parameters and constants to a device, or cast them to a floating-point dtype; returns the module.

        The parameters remain the same objects, so that weight tying persists. Construct optimizers afterwards: their
        state stays on the device where the parameters were.

        Args:
            target: the name of a device, or a dtype.

        Raises:
            ValueError: for an unknown device, or a dtype that is not floating point.

        >>> import tinyattn as ta
        >>> ta.nn.Linear(2, 3).to("float64").weight.dtype
        dtype('float64')
        """
        if target is not None:
            as_dtype = dtype_or_none(target)
            if as_dtype is None:
                device = target
            else:
                dtype = as_dtype
        dtype = native_dtype(dtype)
        if dtype is not None and dtype.kind != "f":
            raise ValueError(f"expected a floating-point dtype for a module, got {dtype}")
        backend = None if device is None else get_backend(device)
        seen = set()
        for module in self.modules():
            for value in vars(module).values():
                if isinstance(value, Tensor) and value.is_leaf and id(value) not in seen:
                    seen.add(id(value))
                    move(value, backend, dtype)
                    if value.grad is not None:
                        move(value.grad, backend, dtype)
        return self

    def cpu(self):
        """Move the module to the CPU; returns the module."""
        return self.to(device="cpu")

    def cuda(self):
        """Move the module to the GPU; returns the module."""
        return self.to(device="cuda")

    @property
    def device(self):
        """The device of the first parameter; None without parameters."""
        parameter = self._first_parameter()
        return None if parameter is None else parameter.device

    @property
    def dtype(self):
        """The dtype of the first parameter; None without parameters."""
        parameter = self._first_parameter()
        return None if parameter is None else parameter.dtype

    def _first_parameter(self):
        values = (value for _, module in self._iterate_modules() for value in vars(module).values())
        return next((value for value in values if isinstance(value, Parameter)), None)

    # ------------------------------------------------------------------------------------------------------- hooks

    def register_forward_hook(self, hook):
        """Call ``hook(module, args, output)`` after each forward pass of this module.

        A return value other than None replaces the output. Returns a handle with ``remove()``. ``deepcopy`` does not
        copy hooks.

        >>> import tinyattn as ta
        >>> model = ta.nn.Sequential(ta.nn.Linear(2, 3))
        >>> handle = model[0].register_forward_hook(lambda module, args, output: print(output.shape))
        >>> output = model(ta.tensor([[1.0, 2.0]]))
        (1, 3)
        >>> handle.remove()
        """
        if not callable(hook):
            raise TypeError(f"a hook must be a function of (module, args, output), got {hook!r}")
        if self._forward_hooks is None:
            self._forward_hooks = {}
        return HookHandle(self._forward_hooks, hook)

    def record(self, *patterns):
        """Record the outputs of submodules inside a ``with`` block, and their gradients after backward.

        Args:
            patterns: names of submodules, suffixes of names, or patterns with ``*``, such as ``"attention.scores"``
                or ``"blocks.*"``; by default all submodules. Attention whose ``scores`` or ``weights`` are recorded is
                computed densely.

        Returns:
            A ``Recording``: by name, ``value``, ``gradient``, ``shape`` and the ``tensor`` itself. Calling a module
            again replaces its record; a second backward pass replaces the gradients.

        Raises:
            ValueError: for a pattern that matches no submodule.

        >>> import tinyattn as ta
        >>> model = ta.nn.Sequential(ta.nn.Linear(2, 3), ta.nn.Linear(3, 1))
        >>> with model.record() as record:
        ...     model(ta.tensor([[1.0, 2.0]])).sum().backward()
        >>> record.shapes
        {'0': (1, 3), '1': (1, 1)}
        >>> record["1"].gradient
        array([[1.]], dtype=float32)
        """
        from .recording import Recording

        return Recording(self, patterns)

    @property
    def is_watched(self):
        """Whether this module itself (not a submodule) has a forward hook."""
        return bool(self._forward_hooks)

    def __deepcopy__(self, memo):
        """An independent copy: shared parameters stay shared, gradients are copied, hooks dropped, results detached."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        for name, value in vars(self).items():
            if name != "_forward_hooks":
                detach_results(value, memo)
                copied.__dict__[name] = copy.deepcopy(value, memo)
        return copied

    def extra_repr(self):
        """The settings that ``repr`` shows in parentheses."""
        return ""

    def _displayed_children(self):
        return self.named_children()

    def __repr__(self):
        lines = [
            f"  {name}: " + repr(child).replace("\n", "\n  ")
            for name, child in self._displayed_children()
        ]
        name = type(self).__name__
        settings = self.extra_repr()
        if not lines:
            return f"{name}({settings})"
        return "\n".join([f"{name}({settings}", *lines, ")"])

    def _repr_html_(self):
        from .html import module_html

        return module_html(self)


def _unregistered(value):
    """The first module or parameter in a plain container, nested containers included; None if there is none."""
    seen, stack = set(), [value]
    while stack:
        item = stack.pop()
        if isinstance(item, (Module, Parameter)):
            return item
        if isinstance(item, CONTAINERS) and id(item) not in seen:
            seen.add(id(item))
            stack.extend(item.values() if isinstance(item, dict) else item)
    return None
