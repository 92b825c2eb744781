"""The functions to mutate: registered vector-Jacobian products and kernels, and what they call."""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass, field

from tinyattn.autograd import PRIMITIVES
from tinyattn.autograd.primitive import registered_kernels

NOT_ARITHMETIC = {"is_floating", "accepts", "over_last_axis", "row_width", "explicit_subscripts"}
DEVICE_OF_KIND = {"cpu": "cpu", "strict": "strict"}  # kernels of a GPU are not mutated


@dataclass
class Target:
    """A function, and the primitives whose vector-Jacobian product or kernel runs it."""

    function: object
    # Pairs (name of the primitive, "rule" or kind of the kernel).
    used_by: list = field(default_factory=list)

    @property
    def name(self):
        module = self.function.__module__.removeprefix("tinyattn.")
        return f"{module}.{self.function.__qualname__}"


def find_targets():
    """All functions to mutate, in a fixed order."""
    import_all()
    found = {}
    for name, primitive in sorted(PRIMITIVES.items()):
        # The module is None if code run by exec() registered the primitive.
        if not str(primitive.forward.__module__).startswith("tinyattn."):
            continue
        for vjp in primitive.vjps.values():
            for function in _reached(vjp, vjp.__module__):
                _add(found, function, (name, "rule"))
    for (name, kind), pair in sorted(registered_kernels().items(), key=lambda item: item[0]):
        if kind in DEVICE_OF_KIND:
            for function in pair:
                for reached in _reached(function, "tinyattn.kernels."):
                    _add(found, reached, (name, kind))
    return sorted(found.values(), key=lambda target: target.name)


def import_all():
    """Import every module with primitives or kernels, so that all are registered."""
    for name in ("ops", "kernels", "attention", "nn", "models"):
        package = importlib.import_module(f"tinyattn.{name}")
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if ".cuda" not in module.name:
                importlib.import_module(module.name)


def _add(found, function, user):
    target = found.setdefault(function.__qualname__ + function.__module__, Target(function))
    if user not in target.used_by:
        target.used_by.append(user)


def _reached(function, prefix):
    """A function and what it calls, by name, in modules whose names begin with ``prefix``."""
    reached, stack = [], [function]
    while stack:
        function = inspect.unwrap(stack.pop())
        if function in reached or _is_only_a_check(function):
            continue
        if function.__code__.co_freevars:
            continue
        reached.append(function)
        for name in _names(function.__code__):
            value = function.__globals__.get(name)
            if not str(getattr(value, "__module__", "")).startswith(prefix):
                continue
            if inspect.isclass(value):
                stack += [m for m in vars(value).values() if inspect.isfunction(m)]
            elif inspect.isfunction(inspect.unwrap(value)) and not hasattr(value, "vjps"):
                stack.append(value)
    return reached


def _names(code):
    names = list(code.co_names)
    for constant in code.co_consts:
        if inspect.iscode(constant):
            names += _names(constant)
    return names


def _is_only_a_check(function):
    """Functions without arithmetic: they validate arguments, decline them, or parse a notation."""
    name = function.__name__.lstrip("_")
    return name.startswith("check_") or name in NOT_ARITHMETIC
