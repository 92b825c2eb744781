"""The call that reproduces a check, as text."""

import numpy as np

from ..autograd import Tensor
from .containers import flatten, rebuild

_LITERAL_ELEMENTS = 12


def function_name(fn):
    """A readable name of a function, a module, a partial or a primitive.

    >>> function_name(len)
    'len'
    """
    name = getattr(fn, "__name__", None) or getattr(getattr(fn, "func", None), "__name__", None)
    return name or type(fn).__name__


def call_text(fn, inputs, params, settings, upcast):
    """The call of ``gradcheck`` in Python, with the content of small inputs and the shapes of large ones."""
    literals = iter([_Literal(leaf) for _, leaf in flatten(inputs, "inputs")])
    arguments = [function_name(fn), repr(rebuild(inputs, literals))]
    if hasattr(params, "named_parameters"):
        arguments.append(f"params={type(params).__name__.lower()}")
    elif not (isinstance(params, (tuple, list)) and not params):
        arguments.append("params=...")
    for name, value in vars(settings).items():
        if value != type(settings).__dataclass_fields__[name].default:
            arguments.append(f"{name}={value!r}")
    if f"seed={settings.seed}" not in arguments:
        arguments.append(f"seed={settings.seed}")
    if upcast:
        arguments.append("upcast=True")
    return f"ta.gradcheck({', '.join(arguments)})"


class _Literal:
    """The text of one leaf of the inputs."""

    def __init__(self, leaf):
        self._leaf = leaf

    def __repr__(self):
        leaf = self._leaf
        if not isinstance(leaf, (Tensor, np.ndarray)):
            return getattr(leaf, "__name__", None) or repr(leaf)
        array = leaf.numpy() if isinstance(leaf, Tensor) else leaf
        if array.size <= _LITERAL_ELEMENTS:
            content = f"np.array({array.tolist()}, {str(array.dtype)!r})"
        else:
            content = f"<{array.dtype} of shape {array.shape}>"
        return f"ta.tensor({content})" if isinstance(leaf, Tensor) else content
