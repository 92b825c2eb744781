"""The base class of all optimisers: parameter groups, flat storage, and a state that can be saved."""

import copy
from numbers import Integral, Real

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, listed, shared
from ..ops import zeros_like
from .flat import FlatStorage, cache_blocks


class Optimizer:
    """The base of SGD, AdamW and Muon, with the groups and options of PyTorch's optimisers.

    Args:
        params: what ``model.parameters()`` or ``model.named_parameters()`` gives, or a list of groups: dicts with
            ``"params"`` and options that differ from the defaults, such as ``{"params": [...], "lr": 0.1}``. A
            parameter that comes twice in a group counts once.
        defaults: the options of groups that do not say otherwise.

    ``param_groups`` is a list of such dicts with all options filled in; set ``group["lr"]`` to follow a schedule, or
    ``optimizer.lr`` for all groups alike.

    The parameters become views of one buffer for each group (see ``flat.py``): make the optimiser after moving the
    model to its device and dtype. A parameter without gradient is not touched: no decay, no momentum, no step.

    Raises:
        ValueError: for no parameters at all, a parameter in two groups, a name that is given twice, or an option out
            of range.
        TypeError: for parameters that are not tensors, and for an unknown option or one that is no number.

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

    buffers = ()  # names of the flat arrays of the optimiser's state

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
                "the optimiser got no parameters: an empty list, or a generator already used up"
            )
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group):
        """Train further parameters: ``group`` is a dict with ``"params"`` and options."""
        if not isinstance(group, dict):
            raise TypeError(
                f"groups are dicts with params, got {type(group).__name__} among them: put it into a group of its own"
            )
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown or "params" not in group:
            raise TypeError(
                f"a group of {type(self).__name__} has params and the options {', '.join(self.defaults)}; "
                f"given {', '.join(map(str, group))}"
            )
        group = {**self.defaults, **group}
        self.check(group)
        members = group["params"]
        members = [members] if isinstance(members, Tensor) else listed(members, "params")
        names, parameters = [], []
        for member in members:
            name, parameter = member if isinstance(member, tuple) else (None, member)
            if not isinstance(parameter, Tensor):
                raise TypeError(f"an optimiser changes tensors, got {type(parameter).__name__}")
            if not parameter.is_leaf or parameter.dtype.kind != "f":
                raise ValueError(
                    f"cannot optimise a tensor of shape {parameter.shape} and dtype {parameter.dtype}: "
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
                    f"two parameters are called {name}: the saved state could not tell them apart. "
                    "Name them apart, as named_parameters() of a module that holds both does"
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
            self._storages.append(_GroupStorage(group, members, self.buffers))

    def __setattr__(self, name, value):
        """An option, such as ``optimizer.lr = 0.01``, is set in every group and for groups to come."""
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
                f'read group["{name}"] of the groups in param_groups'
            )
        return values[0]

    def check(self, group):
        """Raise ValueError for an option out of range, TypeError for one that is no number."""
        for name in self.defaults:
            if not isinstance(group[name], (Real, np.bool_, tuple, list)):
                raise TypeError(f"{name} must be a number, got {group[name]!r}")
        for name in ("lr", "weight_decay"):
            if not group[name] >= 0:
                raise ValueError(f"{name} must be at least 0, got {group[name]}")

    def check_parameters(self, parameters, group):
        """Raise ValueError for parameters that the update rule does not support."""

    def zero_grad(self, set_to_none=True):
        """Reset all gradients: every ``.grad`` becomes None, or with ``set_to_none=False`` zeros, which then count."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none or parameter.grad is None:
                    parameter.grad = None
                else:
                    parameter.grad = zeros_like(parameter.grad)

    def share_memory(self):
        """Move parameters, gradients and state to memory that processes forked later read and write too (CPU only)."""
        for member in self._storages:
            member.storage.allocate(shared.zeros)
            for name, held in member.buffers.items():
                member.buffers[name] = shared.zeros(held.shape, held.dtype)
                member.buffers[name][...] = held

    def gradient_arrays(self):
        """The arrays that the updates read gradients from, ``{parameter: array}``; one left there is not copied."""
        return {
            parameter: view
            for member in self._storages
            for parameter, view in zip(member.storage.parameters, member.storage.gradient_views)
            if parameter.dtype == view.dtype
        }

    def step(self, executor=None):
        """Update every parameter that has a gradient.

        Args:
            executor: shares the updates among its workers: anything with ``for_each(function, items)``, such as those
                of ``tinyattn.train.parallel``. By default they run one after the other; the results are the same to
                the last bit.
        """
        for_each = _one_by_one if executor is None else executor.for_each
        for member in self._storages:
            member.present = member.storage.gather_gradients()
            member.steps = [step + has for step, has in zip(member.steps, member.present)]
        for update, items in self.updates():
            for_each(update, items)
        for member in self._storages:
            member.storage.mark_changed(member.present)

    def updates(self):
        """Yield ``(update, items)``: ``update(item)`` of every item, in any order, applies the update rule.

        Here an item is a block of the flat buffers, in runs of neighbouring parameters that have a gradient and are
        equally old.
        """
        for member in self._storages:
            steps = [step if has else None for step, has in zip(member.steps, member.present)]
            for step, run in member.storage.runs(steps):
                yield self.block_update(member, step), cache_blocks(run, member.storage.backend)

    def block_update(self, member, step):
        """The update rule as a function of a slice of the flat buffers, for parameters at their ``step``-th step."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------- saving the state

    def state_dict(self):
        """The optimiser's state, for a later ``load_state_dict`` that continues exactly from it.

        Returns:
            A dict with ``"arrays"``, host arrays named such as ``weight.first_moment``, for a safetensors file, and
            ``"settings"``, numbers and strings that JSON can hold: the options of each group, and the steps taken. A
            parameter has the name it was given with (pass ``model.named_parameters()``), else its number.
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
        """Restore a state that ``state_dict`` returned; everything is checked before anything is changed.

        Raises:
            TypeError: for anything else, such as the state of a model.
            ValueError: if the groups, names or shapes differ from this optimiser's.
        """
        if not isinstance(state, dict) or not {"arrays", "settings"} <= set(state):
            given = (
                f"a dict of {', '.join(map(str, list(state)[:4]))}"
                if isinstance(state, dict)
                else type(state).__name__
            )
            raise TypeError(
                f"expected what state_dict() of a {type(self).__name__} returned, with arrays and settings; got {given}"
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
                "Make the optimiser over the parameters and groups that it was saved with; nothing was changed"
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
        """An optimiser over copies of the parameters: ``copy.deepcopy((model, optimizer))`` copies both as a pair."""
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
            f"{type(self).__name__} cannot be pickled, its parameters are views of one buffer: "
            "save state_dict(), make the optimiser anew and load that"
        )

    def __repr__(self):
        lines = []
        for group in self.param_groups:
            options = ", ".join(f"{name}={group[name]}" for name in self.defaults)
            count = sum(parameter.size for parameter in group["params"])
            lines.append(f"  {len(group['params'])} parameters, {count} numbers: {options}")
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


def _one_by_one(function, items):
    for item in items:
        function(item)


class _GroupStorage:
    """The parameters of one group that share device and dtype, and their state."""

    def __init__(self, group, members, buffers):
        self.group = group
        self.names = [name for name, _ in members]
        self.storage = FlatStorage([parameter for _, parameter in members])
        self.buffers = {name: self.storage.zeros() for name in buffers}
        self.steps = [0] * len(members)
        self.present = None  # during a step: which parameters have a gradient


def _as_json(value):
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, (tuple, list)):
        return [_as_json(item) for item in value]
    return int(value) if isinstance(value, Integral) else float(value)
