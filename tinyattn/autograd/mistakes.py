"""Error messages for common mistakes in calling an operation."""

import inspect

import numpy as np

from ..backend import backend_of, is_array
from .inputs import raw
from .pytorch_names import hint_for_argument
from .tensor import Tensor


def explain(primitive, error, inputs, parameters):
    """Raise a more specific exception if a common mistake caused ``error``."""
    if "could not be broadcast" in str(error):
        shapes = " and ".join(str(value.shape) for value in inputs if hasattr(value, "shape"))
        raise ValueError(
            f"{primitive.name}() got inputs of shapes {shapes}, which do not broadcast: aligned at "
            "the last axis, axes must have the same length, or length 1, or be missing"
        ) from error
    for name, value in zip(primitive.input_names, inputs, strict=False):
        if value is None and "NoneType" in str(error):
            raise TypeError(
                f"{primitive.name}() got None for {name}: expected a tensor, an array or a number"
            ) from error
    for name in parameters:
        if name in primitive.input_names:
            raise TypeError(f"{primitive.name}() got {name} twice, by position and by name")
        if name not in primitive.parameter_names:
            raise TypeError(
                f"{primitive.name}() has no argument {name}: "
                f"expected {primitive.name}{inspect.signature(primitive)}{hint_for_argument(name)}"
            )
    axis = parameters.get("axis")
    if axis is not None and not isinstance(axis, (int, np.integer, tuple)):
        of_two = primitive.name in ("max", "min")
        hint = f"; the {primitive.name}imum of two is {primitive.name}imum(x, y)" if of_two else ""
        raise TypeError(
            f"{primitive.name}() got a {type(axis).__name__} as axis: "
            f"expected a whole number, a tuple of them or None{hint}"
        ) from error


def mixed_devices(primitive, inputs):
    """The exception for inputs on different devices or of unknown array types."""
    for value in inputs:
        if not isinstance(value, Tensor) and hasattr(value, "dtype") and not is_array(value):
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            return TypeError(
                f"{primitive.name}() got a {kind}: convert it with tinyattn.tensor(...)"
            )
    devices = ", ".join(
        f"{name} on {backend_of(raw(value)).device}"
        for name, value in zip(
            primitive.input_names or map(str, range(len(inputs))), inputs, strict=False
        )
        if isinstance(value, Tensor) or is_array(value)
    )
    return TypeError(
        f"{primitive.name}() got inputs on different devices ({devices}): "
        "nothing is moved silently, move one with .to(device)"
    )
