"""The call that reproduces a check, as text."""

import math

from .containers import flatten, rebuild

_LITERAL_ELEMENTS = 12


def function_name(fn):
    """A readable name of a function, a module, a partial, a primitive or a pair of functions.

    >>> function_name(len), function_name((len, dict.fromkeys))
    ('len', '(len, dict.fromkeys)')
    """
    if isinstance(fn, (tuple, list)):
        return f"({', '.join(map(function_name, fn))})"
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, type):  # a class method, such as the apply of torch.autograd.Function
        return f"{owner.__name__}.{fn.__name__}"
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
        if name != "curves" and value != type(settings).__dataclass_fields__[name].default:
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
        make = _MAKERS.get(type(leaf).__module__.partition(".")[0])
        if make is None or not hasattr(leaf, "tolist"):
            return getattr(leaf, "__name__", None) or repr(leaf)
        if math.prod(leaf.shape) > _LITERAL_ELEMENTS:
            dtype = str(leaf.dtype).removeprefix("torch.")
            return f"<{dtype} of shape {tuple(leaf.shape)}>"
        return make(leaf)


def _numpy(array):
    return f"np.array({array.tolist()}, {str(array.dtype)!r})"


# By the package of their types: how arrays and tensors are written.
_MAKERS = {
    "numpy": _numpy,
    "tinyattn": lambda tensor: f"ta.tensor({_numpy(tensor.numpy())})",
    "torch": lambda tensor: f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})",
    "jaxlib": lambda array: f"jnp.array({array.tolist()}, {str(array.dtype)!r})",
}
