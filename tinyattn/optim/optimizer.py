"""The base class of all optimizers: parameter groups, flat storage, and saving and loading of the state."""

import copy
import functools
from numbers import Real

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, listed, shared
from ..kernels.updates import find_update
from ..ops import zeros_like
from .flat import cache_blocks
from .group_storage import GroupStorage


class Optimizer:
    """The base class of SGD, AdamW and Muon, with the parameter groups and options of PyTorch's optimizers.

    Args:
        params: ``model.parameters()``, ``model.named_parameters()``, or a list of groups: dicts with ``"params"`` and
            options that differ from the defaults, such as ``{"params": [...], "lr": 0.1}``. A parameter that is
            repeated in a group counts once.
        defaults: the default options of the groups.

    ``param_groups`` is a list of such dicts with all options. To follow a learning-rate schedule, set ``group["lr"]``,
    or ``optimizer.lr`` for all groups.

    The parameters become views of one buffer per group (see ``flat.py``): create the optimizer after moving the model
    to its device and dtype. A parameter without gradient is not updated: no decay, no momentum, no step.

    Raises:
        ValueError: for an empty list, a parameter in two groups, a duplicate name, or an option out of range.
        TypeError: for parameters that are not tensors, an unknown option, or an option that is not a number.

    >>> import tinyattn as ta
    >>> model = ta.nn.Linear(2, 3)
    >>> slow = {"params": [model.bias], "lr": 0.001}
    >>> optimizer = ta.optim.SGD([{"params": [model.weight]}, slow], lr=0.1)
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.1, 0.001]
    >>> optimizer.lr = 0.01
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.01, 0.01]
    """

    buffers = ()  # names of the flat arrays of optimizer state
    choices = {}  # the values of options that are not numbers

    def __init__(self, params, defaults):
        self.defaults = dict(defaults)
        self.param_groups = []
        self._storages = []
        self._seen = {}  # id of a parameter -> its name
        if isinstance(params, Tensor):
            raise TypeError(
                "params must be a list of parameters, got one tensor: write [parameter]"
            )
        if hasattr(params, "named_parameters"):
            raise TypeError(
                f"params must be a list of parameters, got a {type(params).__name__}: write model.parameters()"
            )
        if isinstance(params, dict):
            raise TypeError("params must be a list, got one dict: write [group] for a single group")
        params = listed(params, "params")
        if not params:
            raise ValueError(
                "the optimizer got no parameters: an empty list, or an exhausted generator"
            )
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group):
        """Add a parameter group, a dict with ``"params"`` and options."""
        if not isinstance(group, dict):
            raise TypeError(
                f"groups are dicts with params, got a {type(group).__name__} in the list: write "
                '{"params": [parameter]}'
            )
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown or "params" not in group:
            raise TypeError(
                f"got a group with {', '.join(map(str, group))}: a group of {type(self).__name__} has params and the "
                f"options {', '.join(self.defaults)}"
            )
        group = {**self.defaults, **group}
        self.check(group)
        members = group["params"]
        members = [members] if isinstance(members, Tensor) else listed(members, "params")
        names, parameters = [], []
        for member in members:
            name, parameter = member if isinstance(member, tuple) else (None, member)
            if not isinstance(parameter, Tensor):
                raise TypeError(f"expected tensors to optimize, got a {type(parameter).__name__}")
            if not parameter.is_leaf or parameter.dtype.kind != "f":
                raise ValueError(
                    f"cannot optimize a tensor of shape {parameter.shape} and dtype {parameter.dtype}: "
                    "expected a floating-point leaf, not the result of an operation"
                )
            if any(parameter is other for other in parameters):
                continue
            if id(parameter) in self._seen:
                raise ValueError(
                    f"parameter {name or self._seen[id(parameter)]} (shape {parameter.shape}) is in two groups: "
                    "it would be updated twice"
                )
            name = name or str(len(self._seen) + len(names))
            if name in names or name in self._seen.values():
                raise ValueError(
                    f"two parameters have the name {name}, so that a saved state would be ambiguous: use distinct "
                    "names, such as those of named_parameters() of a module with both"
                )
            names.append(name)
            parameters.append(parameter)
        self.check_parameters(parameters, group)
        self._seen.update((id(parameter), name) for parameter, name in zip(parameters, names))
        group["params"] = parameters
        self.param_groups.append(group)
        kinds = {}
        for name, parameter in zip(names, parameters):
            kind = (parameter.device, parameter.dtype)
            kinds.setdefault(kind, []).append((name, parameter))
        for members in kinds.values():
            self._storages.append(GroupStorage(group, members, self.buffers))

    def __setattr__(self, name, value):
        """Set an option, such as ``optimizer.lr = 0.01``, in every group and in the defaults."""
        if name not in vars(self).get("defaults", ()):
            object.__setattr__(self, name, value)
            return
        for group in self.param_groups:
            self.check({**group, name: value})
        for group in (self.defaults, *self.param_groups):
            group[name] = value

    def __getattr__(self, name):
        if name not in vars(self).get("defaults", ()):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        values = [group[name] for group in self.param_groups]
        if any(value != values[0] for value in values):
            raise AttributeError(
                f"the groups of this {type(self).__name__} differ in {name} ({', '.join(map(str, values))}): "
                f'read group["{name}"] for the groups in param_groups'
            )
        return values[0]

    def check(self, group):
        """Raise ValueError for an option out of range, TypeError for an option that is not a number."""
        for name in self.defaults:
            if name in self.choices:
                if group[name] not in self.choices[name]:
                    expected = " or ".join(map(repr, self.choices[name]))
                    raise ValueError(f"{name} must be {expected}, got {group[name]!r}")
            elif not isinstance(group[name], (Real, np.bool_, tuple, list)):
                raise TypeError(f"{name} must be a number, got {group[name]!r}")
        for name in ("lr", "weight_decay"):
            if not group[name] >= 0:
                raise ValueError(f"{name} must be at least 0, got {group[name]}")

    def check_parameters(self, parameters, group):
        """Raise ValueError for parameters that the update rule does not support."""

    def zero_grad(self, set_to_none=True):
        """Reset all gradients to None, or with ``set_to_none=False`` to zeros, with which ``step`` still updates."""
        for group in self.param_groups:
            for parameter in group["params"]:
                keep = parameter.grad is not None and not set_to_none
                parameter.grad = zeros_like(parameter.grad) if keep else None

    def share_memory(self):
        """Move parameters, gradients and state to memory shared with processes that are forked later (CPU only)."""
        for member in self._storages:
            member.storage.allocate(shared.zeros)
            for name, old in member.buffers.items():
                member.buffers[name] = shared.zeros(old.shape, old.dtype)
                member.buffers[name][...] = old

    def gradient_arrays(self):
        """The gradient buffers, ``{parameter: array}``: a gradient computed in its buffer is not copied by ``step``."""
        return {
            parameter: view
            for member in self._storages
            for parameter, view in zip(member.storage.parameters, member.storage.gradient_views)
            if parameter.dtype == view.dtype or backend_of(view).kind != "cpu"
        }

    def copy_gradients(self, gradients):
        """Copy gradients, ``{parameter: array}``, to the gradient buffers, with few launches on a GPU.

        Returns:
            The copied parameters: those of buffers of which all gradients are given.
        """
        copied = []
        for member in self._storages:
            parameters = member.storage.parameters
            if all(parameter in gradients for parameter in parameters):
                member.storage.copy_gradients(gradients)
                copied += parameters
        return copied

    def flat_gradients(self):
        """The gradient buffers if all gradients are in them, else None.

        The padding between the gradients is zero, so that the norm of the buffers is that of the gradients.
        """
        for member in self._storages:
            for parameter, view in zip(member.storage.parameters, member.storage.gradient_views):
                if parameter.grad is None or parameter.grad._data is not view:
                    return None
        return [member.storage.gradients for member in self._storages]

    @np.errstate(all="ignore")  # no floating-point warnings, as in operations
    def step(self, executor=None):
        """Update every parameter that has a gradient.

        Args:
            executor: distributes the updates among its workers: an object with ``for_each(function, items)``, such as
                those of ``tinyattn.train.parallel``. By default the updates run sequentially; the results are
                bit-identical.
        """
        for_each = _sequentially if executor is None else executor.for_each
        for member in self._storages:
            member.present = member.storage.gather_gradients()
            member.steps = [step + has for step, has in zip(member.steps, member.present)]
        for member in self._storages:
            member.refresh_master()
        for update, items in self.updates():
            for_each(functools.partial(_without_warnings, update), items)
        for member in self._storages:
            if member.values is not member.storage.values:
                member.storage.values[...] = member.values
            for parameter, has_gradient in zip(member.storage.parameters, member.present):
                if has_gradient:
                    parameter.bump_version()

    def updates(self):
        """Yield ``(update, items)``: calling ``update(item)`` for every item, in any order, applies the update rule.

        By default an item is a block of the flat buffers, within a run of neighboring parameters that have a gradient
        and the same step count.
        """
        for member in self._storages:
            steps = [step if has else None for step, has in zip(member.steps, member.present)]
            for step, run in member.storage.runs(steps):
                yield self.block_update(member, step), cache_blocks(run, member.storage.backend)

    def block_update(self, member, step):
        """The update rule as a function of a slice of the flat buffers, for parameters at their ``step``-th step."""
        raise NotImplementedError

    def bind_update(self, rule, member, step):
        """``rule(arrays, block, *, step, **options)`` with all arguments but the slice ``block``.

        Options are converted to Python floats, which do not change the dtype. A fast version registered for the device
        replaces the rule.
        """
        rule = find_update(rule.__name__, member.values) or rule
        arrays = member.arrays(self.buffers)
        options = {name: _as_floats(member.group[name]) for name in self.defaults}
        return functools.partial(rule, arrays, step=step, **options)

    # ---------------------------------------------------------------------------------------------- saving the state

    def state_dict(self):
        """The state of the optimizer, from which ``load_state_dict`` continues exactly.

        Returns:
            A dict with ``"arrays"``, host arrays with names such as ``weight.first_moment``, for a safetensors file,
            and ``"settings"``, JSON-compatible: the options of each group and the step counts. The name of a parameter
            is that of ``model.named_parameters()`` if these were passed, else its index.
        """
        arrays, steps = {}, {}
        for member in self._storages:
            for buffer, flat in member.buffers.items():
                for name, view in zip(member.names, member.storage.unflatten(flat)):
                    arrays[f"{name}.{buffer}"] = backend_of(view).to_host(view).copy()
            steps.update(zip(member.names, member.steps))
        groups = [
            {
                **{name: _as_json(value) for name, value in group.items() if name != "params"},
                "params": [self._seen[id(parameter)] for parameter in group["params"]],
            }
            for group in self.param_groups
        ]
        return {"arrays": arrays, "settings": {"groups": groups, "steps": steps}}

    def load_state_dict(self, state):
        """Restore a ``state_dict``; everything is checked before anything is changed.

        Raises:
            TypeError: for an object that is not a ``state_dict``, such as the state of a model.
            ValueError: if groups, names or shapes differ from those of this optimizer.
        """
        if not isinstance(state, dict) or not {"arrays", "settings"} <= set(state):
            given = (
                f"a dict of {', '.join(map(str, list(state)[:4]))}"
                if isinstance(state, dict)
                else type(state).__name__
            )
            raise TypeError(
                f"expected a state_dict() of a {type(self).__name__}, with arrays and settings; got {given}"
            )
        own = self.state_dict()
        arrays, settings = state["arrays"], state["settings"]
        differences = [f"{name} is missing" for name in own["arrays"] if name not in arrays]
        differences += [f"{name} is not known here" for name in arrays if name not in own["arrays"]]
        for name, array in own["arrays"].items():
            if name in arrays and arrays[name].shape != array.shape:
                differences.append(f"{name} has shape {arrays[name].shape}, expected {array.shape}")
        for position, (saved, group) in enumerate(
            zip(settings["groups"], own["settings"]["groups"])
        ):
            if list(saved["params"]) != group["params"]:
                differences.append(f"group {position} holds other parameters")
        if len(settings["groups"]) != len(own["settings"]["groups"]):
            differences.append(
                f"it has {len(settings['groups'])} groups, expected {len(own['settings']['groups'])}"
            )
        if set(settings["steps"]) != set(own["settings"]["steps"]):
            differences.append("the steps are those of other parameters")
        if differences:
            raise ValueError(
                f"this state does not fit the {type(self).__name__}: {'; '.join(differences)}. "
                "Create the optimizer with the same parameters and groups as the saved one; nothing was changed"
            )
        for member in self._storages:
            for buffer, flat in member.buffers.items():
                for name, view in zip(member.names, member.storage.unflatten(flat)):
                    view[...] = member.storage.backend.asarray(
                        arrays[f"{name}.{buffer}"], dtype=view.dtype
                    )
            member.steps = [int(settings["steps"][name]) for name in member.names]
        for saved, group in zip(settings["groups"], self.param_groups):
            for name in self.defaults:
                if name in saved:
                    value = saved[name]
                    group[name] = tuple(value) if isinstance(value, list) else value

    def __deepcopy__(self, memo):
        """Copy optimizer and parameters; ``copy.deepcopy((model, optimizer))`` keeps both connected."""
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        for name, value in vars(self).items():
            if name != "_seen":
                setattr(copied, name, copy.deepcopy(value, memo))
        copied._seen = {
            id(parameter): name
            for member in copied._storages
            for name, parameter in zip(member.names, member.storage.parameters)
        }
        return copied

    def __getstate__(self):
        raise TypeError(
            f"{type(self).__name__} cannot be pickled, because its parameters are views of one buffer: "
            "save state_dict() and load it into a new optimizer"
        )

    def __repr__(self):
        lines = []
        for group in self.param_groups:
            options = ", ".join(f"{name}={group[name]}" for name in self.defaults)
            count = sum(parameter.size for parameter in group["params"])
            lines.append(f"  {len(group['params'])} parameters, {count} numbers: {options}")
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


def _without_warnings(update, item):
    """``update(item)`` without floating-point warnings: that setting is per thread, and workers have their own."""
    with np.errstate(all="ignore"):
        update(item)


def _sequentially(function, items):
    for item in items:
        function(item)


def _as_floats(value):
    return tuple(map(float, value)) if isinstance(value, (tuple, list)) else float(value)


def _as_json(value):
    if isinstance(value, (tuple, list)):
        return [_as_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (int, str)) else float(value)
