"""What all optimisers share: groups of parameters, flat storage, and a state that can be saved."""

import copy
from numbers import Integral, Real

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, listed
from ..ops import zeros_like
from .flat import FlatStorage


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

    Attributes:
        for_each: ``(function, items)``, calls the function on every item, in any order. A trainer puts in its place
            what shares the items among workers (``ParallelStep.work_for``); the results are the same to the last bit.

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

    buffers = ()  # names of the flat arrays that the update rule remembers

    def __init__(self, params, defaults):
        self.defaults = dict(defaults)
        self.for_each = one_after_the_other
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
        """Raise ValueError for parameters that the update rule is not made for."""

    def zero_grad(self, set_to_none=True):
        """Forget all gradients: every ``.grad`` becomes None, or with ``set_to_none=False`` zeros, which then count."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none or parameter.grad is None:
                    parameter.grad = None
                else:
                    parameter.grad = zeros_like(parameter.grad)

    def move(self, zeros):
        """Keep all that the updates read and write in arrays that ``zeros(shape, dtype)`` gives, as shared memory."""
        for member in self._storages:
            member.storage.move(zeros)
            for name, held in member.buffers.items():
                member.buffers[name] = zeros(held.shape, held.dtype)
                member.buffers[name][...] = held

    def gradient_arrays(self):
        """Where the updates read gradients from, ``{parameter: array}``: one that is left there need not be copied."""
        return {
            parameter: view
            for member in self._storages
            for parameter, view in zip(member.storage.parameters, member.storage.gradient_views)
            if parameter.dtype == view.dtype
        }

    def step(self):
        """Update every parameter that has a gradient."""
        for member in self._storages:
            storage = member.storage
            present = storage.gather_gradients()
            for position, has_gradient in enumerate(present):
                member.steps[position] += has_gradient
            self.update(member, present)
            storage.mark_changed(present)

    def update(self, member, present):
        """Apply the update rule to runs of neighbouring parameters that have a gradient and are equally old."""
        steps = [step if has else None for step, has in zip(member.steps, present)]
        for step, piece in member.storage.runs(steps):
            self.update_run(member, piece, step)

    def update_run(self, member, piece, step):
        """The update rule on one slice of the flat buffers, whose parameters now take their ``step``-th step."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------- saving the state

    def state_dict(self):
        """What the optimiser remembers, for a later ``load_state_dict`` that goes on as if nothing had happened.

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
        """Go on from what ``state_dict`` returned; everything is checked before anything is changed.

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
            if name not in ("_seen", "for_each"):
                setattr(copied, name, copy.deepcopy(value, memo))
        copied.for_each = one_after_the_other
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


def one_after_the_other(function, items):
    """Call ``function`` on each of ``items``."""
    for item in items:
        function(item)


class _GroupStorage:
    """The parameters of one group that share device and dtype, with what is remembered of each."""

    def __init__(self, group, members, buffers):
        self.group = group
        self.names = [name for name, _ in members]
        self.storage = FlatStorage([parameter for _, parameter in members])
        self.buffers = {name: self.storage.zeros() for name in buffers}
        self.steps = [0] * len(members)


def _as_json(value):
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, (tuple, list)):
        return [_as_json(item) for item in value]
    return int(value) if isinstance(value, Integral) else float(value)
