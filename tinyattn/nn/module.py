"""Module: a function with parameters, made of other such functions."""

import copy
from collections.abc import Mapping

from ..autograd import Tensor
from ..backend import get_backend, native_dtype
from ..ops import zeros_like
from .parameter import Parameter
from .placement import detach_results, dtype_or_none, move, overwrite, saved_array

CONTAINERS = (list, tuple, dict, set, frozenset)


class Module:
    """The base of every layer and model: write ``forward``, and assign parameters and modules as attributes.

    Parameters and modules are found by looking at the attributes, in the order of their assignment. A plain Tensor
    among them is a constant: it moves with ``to`` and is not part of ``state_dict``. Calling ``super().__init__()`` is
    allowed and not needed.

    Raises:
        TypeError: for a list, tuple, dict or set that holds parameters or modules, where they would be overlooked: on
            assigning it, and where they were put into it later, on looking for parameters. For anything but another
            one, or None, in the place of a parameter or module.

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
        """What calling the module computes."""
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
        self._refuse_overlooked(name, value)
        held = vars(self).get(name)
        for kind, advice in (
            (Parameter, f"{name}.data = ... writes into it"),
            (Module, "assign a module"),
        ):
            if isinstance(held, kind) and not isinstance(value, (kind, type(None))):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a {type(held).__name__}, which a {type(value).__name__} cannot "
                    f"replace: {advice}, and None takes it away"
                )
        object.__setattr__(self, name, value)

    def _refuse_overlooked(self, name, value):
        item = _overlooked(value) if isinstance(value, CONTAINERS) else None
        if item is not None:
            raise TypeError(
                f"{type(self).__name__}.{name} is a {type(value).__name__} that holds a "
                f"{type(item).__name__}, which would be neither trained nor saved: "
                "use nn.ModuleList, or give each an attribute of its own"
            )

    # ------------------------------------------------------------------------------------------------ what it holds

    def named_children(self):
        """The modules among the attributes, as a list of (name, module)."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Module)]

    def named_modules(self):
        """This module, named ``""``, and all below it, each once, as a list of (dotted name, module)."""
        found = []
        seen = set()
        stack = [("", self)]
        while stack:
            name, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            found.append((name, module))
            prefix = f"{name}." if name else ""
            stack.extend(
                (prefix + child_name, child)
                for child_name, child in reversed(module.named_children())
            )
        return found

    def modules(self):
        """This module and all below it, each once, as a list."""
        return list(self._walk())

    def _walk(self):
        """``modules`` one by one, in the order of ``named_modules``."""
        seen = set()
        stack = [self]
        while stack:
            module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield module
                children = [value for value in vars(module).values() if isinstance(value, Module)]
                stack += reversed(children)

    def named_parameters(self):
        """All parameters, as a list of (dotted name, parameter); one used twice comes once, by its first name."""
        found = {}
        for name, module in self.named_modules():
            prefix = f"{name}." if name else ""
            for attribute, value in vars(module).items():
                if isinstance(value, Parameter):
                    found.setdefault(id(value), (prefix + attribute, value))
                module._refuse_overlooked(attribute, value)
        return list(found.values())

    def parameters(self):
        """All parameters, each once, as a list: it can be gone through as often as wanted."""
        return [parameter for _, parameter in self.named_parameters()]

    def parameter_count(self):
        """The number of trained numbers; a parameter that is used twice counts once.

        >>> from tinyattn import nn
        >>> nn.Linear(2, 3).parameter_count()
        9
        """
        return sum(parameter.size for parameter in self.parameters())

    # ------------------------------------------------------------------------------------------------- its state

    def state_dict(self):
        """A copy of every parameter as a NumPy array on the host, by dotted name.

        A parameter that is used twice is there once, by its first name, so that the arrays share no memory.

        >>> from tinyattn import nn
        >>> {name: array.shape for name, array in nn.Linear(2, 3).state_dict().items()}
        {'weight': (2, 3), 'bias': (3,)}
        """
        return {name: parameter.numpy() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state, strict=True):
        """Write the arrays of ``state``, as ``state_dict`` gives them, into the parameters.

        Everything is checked before anything is written: after an error the module is as it was. Arrays are cast to
        the parameters' dtype and moved to their device; nothing is broadcast.

        Args:
            state: a dict of dotted names to arrays or tensors.
            strict: whether the names must be the same; otherwise those that both know are loaded.

        Returns:
            The names that ``state`` lacks and those it has too many, two lists (both empty if strict).

        Raises:
            ValueError: if names differ (and ``strict``), or a shape does; it lists every difference.
            TypeError: for what is no dict, and for a value that is no array of real numbers.
        """
        if not isinstance(state, Mapping):
            raise TypeError(
                f"state must be a dict of names to arrays, as state_dict() gives it, got {type(state).__name__}"
            )
        own = dict(self.named_parameters())
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        differences = []
        if strict:
            differences += [f"{name} is missing" for name in missing]
            differences += [f"{name} is not a parameter of it" for name in unexpected]
        arrays = {}
        for name, parameter in own.items():
            if name in missing:
                continue
            arrays[name] = array = saved_array(name, state[name])
            if array.shape != parameter.shape:
                differences.append(
                    f"{name} has shape {array.shape}, the module's is {parameter.shape}"
                )
        if differences:
            raise ValueError(
                f"this state does not fit {type(self).__name__}: {'; '.join(differences)}. "
                "Build the module with the settings that it was saved with; nothing was changed"
            )
        for name, array in arrays.items():
            overwrite(own[name], array)
        return missing, unexpected

    def train(self, mode=True):
        """Switch this module and all below it to training (or with False, to evaluation); returns the module."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self):
        """Switch this module and all below it to evaluation: no dropout; returns the module."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Train all parameters, or with False freeze them; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none=True):
        """Forget all gradients: every ``.grad`` becomes None, or with ``set_to_none=False`` zeros."""
        for parameter in self.parameters():
            keep = parameter.grad is not None and not set_to_none
            parameter.grad = zeros_like(parameter.grad) if keep else None

    def to(self, target=None, *, device=None, dtype=None):
        """Move everything to a device, or to another floating-point type; returns the module.

        The parameters stay the same objects, so that ties hold. Make optimisers afterwards: they keep their state
        where the parameters were.

        Args:
            target: a device's name or a dtype, whichever it is.

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
            raise ValueError(f"a module's numbers are floating point, {dtype} is not")
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
        """Move everything to the host's memory; returns the module."""
        return self.to(device="cpu")

    def cuda(self):
        """Move everything to the GPU; returns the module."""
        return self.to(device="cuda")

    @property
    def device(self):
        """The device of the first parameter, None without parameters."""
        parameter = self._first_parameter()
        return None if parameter is None else parameter.device

    @property
    def dtype(self):
        """The dtype of the first parameter, None without parameters."""
        parameter = self._first_parameter()
        return None if parameter is None else parameter.dtype

    def _first_parameter(self):
        for module in self._walk():
            for value in vars(module).values():
                if isinstance(value, Parameter):
                    return value
        return None

    # ---------------------------------------------------------------------------------------------------- watching

    def register_forward_hook(self, hook):
        """Call ``hook(module, args, output)`` after each forward pass of this module.

        What the hook returns, if not None, takes the output's place. Returns a handle with ``remove()``. Hooks are not
        copied by ``deepcopy``.

        >>> import tinyattn as ta
        >>> model = ta.nn.Sequential(ta.nn.Linear(2, 3))
        >>> handle = model[0].register_forward_hook(lambda module, args, output: print(output.shape))
        >>> output = model(ta.tensor([[1.0, 2.0]]))
        (1, 3)
        >>> handle.remove()
        """
        if not callable(hook):
            raise TypeError(f"a hook is a function of (module, args, output), got {hook!r}")
        if self._forward_hooks is None:
            self._forward_hooks = {}
        return _ForwardHookHandle(self._forward_hooks, hook)

    def record(self, *patterns):
        """Keep what modules compute inside a ``with`` block, and the gradients that backward sends into it.

        Args:
            patterns: the names of modules, their last parts, or patterns with ``*``, such as ``"attention.scores"``
                or ``"blocks.*"``; without any, all modules below this one are recorded. Where an attention's
                ``scores`` or ``weights`` are among them it is computed densely.

        Returns:
            A ``Recording``: by name, ``value``, ``gradient``, ``shape`` and the ``tensor`` itself. A module that is
            called again is recorded anew; a second backward pass replaces the gradients.

        Raises:
            ValueError: for a pattern that fits no module.

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
        """Whether a forward hook is registered on this very module."""
        return bool(self._forward_hooks)

    def __deepcopy__(self, memo):
        """An independent copy: ties are kept, gradients copied, hooks left behind, recorded results detached."""
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

    def __repr__(self):
        lines = [
            f"  {name}: " + repr(child).replace("\n", "\n  ")
            for name, child in self.named_children()
        ]
        name = type(self).__name__
        settings = self.extra_repr()
        if not lines:
            return f"{name}({settings})"
        return "\n".join([f"{name}({settings}", *lines, ")"])

    def _repr_html_(self):
        from .html import module_html

        return module_html(self)


class _ForwardHookHandle:
    def __init__(self, hooks, hook):
        self._hooks = hooks
        # Not the handle itself, which few callers keep: a hook outlives its handle.
        self._key = object()
        hooks[self._key] = hook

    def remove(self):
        """Take the hook away; doing it twice does no harm."""
        self._hooks.pop(self._key, None)


def _overlooked(value):
    """A module or parameter in a plain container, or in one within, where nothing would find it; None without."""
    seen, stack = set(), [value]
    while stack:
        item = stack.pop()
        if isinstance(item, (Module, Parameter)):
            return item
        if isinstance(item, CONTAINERS) and id(item) not in seen:
            seen.add(id(item))
            stack.extend(item.values() if isinstance(item, dict) else item)
    return None
