"""The namespace of the strict backend: CuPy's functions with CuPy's arguments.

A test compares these lists with the CuPy package, which can be imported without a GPU. Functions and arguments that are
not listed (``numpy.add.at``, ``max(..., initial=...)``) are errors on the strict backend, because CuPy lacks them or
gives them another meaning.
"""

import numpy as np

from .launches import note_launch
from .strict_array import StrictArray, operand
from .strict_semantics import cast

# Elementwise functions of arrays and scalars, with the keywords ``out``, ``dtype``, ``casting`` and ``where``.
UFUNCS = (
    "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not "
    "bitwise_or bitwise_xor cbrt ceil conjugate copysign cos cosh deg2rad divide equal exp exp2 "
    "expm1 fabs floor floor_divide fmax fmin fmod greater greater_equal hypot invert isfinite "
    "isinf isnan ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 "
    "logical_and logical_not logical_or logical_xor matmul maximum minimum mod multiply "
    "negative nextafter not_equal positive power rad2deg reciprocal remainder right_shift rint "
    "sign signbit sin sinh sqrt square subtract tan tanh true_divide trunc"
).split()
UFUNC_ALIASES = {
    "abs": "absolute",
    "conj": "conjugate",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "pow": "power",
}
UFUNC_KEYWORDS = ("out", "dtype", "casting", "where")

# Functions of a strict array, each with its further arguments, in CuPy's order.
ARRAY_FUNCTIONS = {
    "all": "axis out keepdims",
    "allclose": "b rtol atol equal_nan",
    "amax": "axis out keepdims",
    "amin": "axis out keepdims",
    "any": "axis out keepdims",
    "argmax": "axis dtype out keepdims",
    "argmin": "axis dtype out keepdims",
    "argsort": "axis",
    "argwhere": "",
    "around": "decimals out",
    "array_equal": "a2",
    "ascontiguousarray": "dtype",
    "bincount": "weights minlength",
    "broadcast_to": "shape",
    "clip": "a_min a_max out",
    "copy": "order",
    "count_nonzero": "axis",
    "cumprod": "axis dtype out",
    "cumsum": "axis dtype out",
    "diag": "k",
    "diagonal": "offset axis1 axis2",
    "diff": "n axis",
    "dot": "b out",
    "empty_like": "dtype order subok shape",
    "expand_dims": "axis",
    "flatnonzero": "",
    "flip": "axis",
    "full_like": "fill_value dtype order subok shape",
    "isclose": "b rtol atol equal_nan",
    "max": "axis out keepdims",
    "mean": "axis dtype out keepdims",
    "min": "axis out keepdims",
    "moveaxis": "source destination",
    "nan_to_num": "copy nan posinf neginf",
    "ndim": "",
    "nonzero": "",
    "ones_like": "dtype order subok shape",
    "outer": "b",
    "pad": "pad_width mode",
    "permute_dims": "axes",
    "prod": "axis dtype out keepdims",
    "ravel": "order",
    "repeat": "repeats axis",
    "reshape": "newshape order",
    "roll": "shift axis",
    "rollaxis": "axis start",
    "rot90": "k axes",
    "round": "decimals out",
    "searchsorted": "v side sorter",
    "shape": "",
    "size": "axis",
    "sort": "axis",
    "split": "indices_or_sections axis",
    "squeeze": "axis",
    "std": "axis dtype out ddof keepdims",
    "sum": "axis dtype out keepdims",
    "swapaxes": "axis1 axis2",
    "take": "indices axis out",
    "take_along_axis": "indices axis",
    "tensordot": "b axes",
    "tile": "reps",
    "trace": "offset axis1 axis2 dtype out",
    "transpose": "axes",
    "tril": "k",
    "triu": "k",
    "unique": "return_index return_inverse return_counts axis",
    "var": "axis dtype out ddof keepdims",
    "vdot": "b",
    "zeros_like": "dtype order subok shape",
}

# Functions of several arrays or none, with the keywords common to CuPy and NumPy.
OTHER_FUNCTIONS = {
    "arange": "dtype",
    "broadcast_arrays": "",
    "concat": "axis out dtype casting",
    "concatenate": "axis out dtype casting",
    "einsum": "dtype optimize",
    "empty": "shape dtype order",
    "eye": "N M k dtype order",
    "full": "shape fill_value dtype",
    "hstack": "dtype casting",
    "identity": "n dtype",
    "indices": "dimensions dtype",
    "linspace": "start stop num endpoint retstep dtype axis",
    "meshgrid": "indexing sparse copy",
    "ones": "shape dtype order",
    "stack": "axis out dtype casting",
    "tri": "N M k dtype",
    "tril_indices": "n k m",
    "triu_indices": "n k m",
    "vstack": "dtype casting",
    "zeros": "shape dtype order",
}

# Names that CuPy re-exports from NumPy.
CONSTANTS = (
    "bool_ broadcast_shapes can_cast dtype e finfo float16 float32 float64 floating generic "
    "iinfo inexact inf int16 int32 int64 int8 integer isdtype issubdtype nan newaxis number pi "
    "promote_types signedinteger uint16 uint32 uint64 uint8 unsignedinteger"
).split()

# Functions that return Python values in NumPy and arrays in CuPy.
_RETURN_ARRAYS = {"allclose", "array_equal", "count_nonzero"}
# Functions that launch no kernel, because they return a view.
_VIEWS = set(
    "broadcast_arrays broadcast_to diagonal empty empty_like expand_dims flip moveaxis ndim permute_dims ravel reshape "
    "rollaxis shape size split squeeze swapaxes transpose".split()
)


class StrictNamespace:
    """The namespace ``xp`` of the device ``"strict"``: the functions of CuPy in the lists above."""

    __name__ = "strict"
    ndarray = StrictArray

    def __init__(self):
        for name in UFUNCS:
            setattr(self, name, _ufunc(name))
        for alias, name in UFUNC_ALIASES.items():
            setattr(self, alias, getattr(self, name))
        for name, arguments in ARRAY_FUNCTIONS.items():
            setattr(self, name, _array_function(name, arguments.split()))
        for name, keywords in OTHER_FUNCTIONS.items():
            setattr(self, name, _other_function(name, keywords.split()))
        for name in CONSTANTS:
            setattr(self, name, getattr(np, name))
        self.bool = np.bool_
        self.clip = _clip

    def __repr__(self):
        return "<the functions of the strict backend>"

    def __getattr__(self, name):
        raise AttributeError(
            f"the strict backend has no function {name!r}: CuPy lacks it, or tinyattn's list of "
            "CuPy's functions does (tinyattn/backend/strict_namespace.py)"
        )

    def array(self, data, dtype=None, copy=True, ndmin=0):
        """Convert a host array or nested sequences to a strict array."""
        if isinstance(data, StrictArray):
            if not copy and (dtype is None or data.dtype == dtype):
                return data
            return StrictArray(cast(data._memory, data.dtype if dtype is None else dtype))
        # CuPy stacks a sequence of arrays of the same shape and raises for any other mixture.
        if isinstance(data, (list, tuple)) and data and isinstance(data[0], StrictArray):
            data = [operand(entry) for entry in data]
        return StrictArray(np.array(data, dtype=dtype, ndmin=ndmin))

    def asarray(self, data, dtype=None):
        return self.array(data, dtype, copy=False)

    def asnumpy(self, array):
        """Convert a strict array to a NumPy array."""
        return array.get() if isinstance(array, StrictArray) else np.asarray(array)

    def astype(self, array, dtype, /, *, copy=True):
        return array.astype(dtype, copy=copy)

    def where(self, condition, x=None, y=None):
        if not isinstance(condition, StrictArray):
            raise TypeError(
                f"the condition of where must be an array, got {type(condition).__name__}"
            )
        if x is None:
            return self.nonzero(condition)
        return _wrapped(np.where(condition._memory, operand(x), operand(y)))

    def result_type(self, *values):
        return np.result_type(*(_unwrapped(value) for value in values))

    def copyto(self, target, source, casting="same_kind", where=None):
        keywords = {} if where is None else {"where": operand(where)}
        note_launch("copyto")
        np.copyto(target._memory, operand(source), casting=casting, **keywords)
        target._report()

    def put_along_axis(self, target, indices, values, axis):
        size = target.shape[axis]
        np.put_along_axis(target._memory, operand(indices) % size, operand(values), axis)
        target._report()

    def may_share_memory(self, a, b):
        return np.may_share_memory(operand(a), operand(b))

    def shares_memory(self, a, b):
        return np.shares_memory(operand(a), operand(b))


def _unwrapped(value):
    """Convert strict arrays in an argument, at any depth of lists, to NumPy arrays; host arrays raise."""
    if isinstance(value, (list, tuple)):
        return type(value)(_unwrapped(entry) for entry in value)
    if isinstance(value, (StrictArray, np.ndarray)):
        return operand(value)
    return value


def _wrapped(result):
    if isinstance(result, (np.ndarray, np.generic)):
        return StrictArray(np.asarray(result))
    if isinstance(result, (list, tuple)) and not all(isinstance(entry, int) for entry in result):
        return type(result)(_wrapped(entry) for entry in result)
    return result


def _call(function, args, keywords):
    if function.__name__ not in _VIEWS:
        note_launch(function.__name__)
    out = keywords.get("out")
    if out is None:
        keywords.pop("out", None)
    elif not isinstance(out, StrictArray):
        raise TypeError(f"expected a strict array for out, got {type(out).__name__}")
    args = [_unwrapped(value) for value in args]
    keywords = {name: _unwrapped(value) for name, value in keywords.items()}
    with np.errstate(all="ignore"):
        result = function(*args, **keywords)
    if out is None:
        return result
    out._report()
    return out


def _ufunc(name):
    numpy_ufunc = getattr(np, name)

    def function(*args, **keywords):
        _expect_keywords(name, keywords, UFUNC_KEYWORDS)
        if len(args) > numpy_ufunc.nin:
            *args, keywords["out"] = args
        for value in args:
            operand(value)  # also raises for lists, which NumPy would convert
        return _wrapped(_call(numpy_ufunc, args, keywords))

    function.__name__ = name
    return function


def _array_function(name, names):
    numpy_function = getattr(np, name)

    def function(array, *args, **keywords):
        if not isinstance(array, StrictArray):
            raise TypeError(f"{name} expected a strict array, got {type(array).__name__}")
        if len(args) > len(names):
            raise TypeError(f"{name} takes {', '.join(names) or 'nothing'} after the array")
        _expect_keywords(name, keywords, names)
        keywords.update(zip(names, args))
        if name == "take":
            keywords["indices"] = _wrapped_indices(array, keywords["indices"], keywords.get("axis"))
        elif name == "take_along_axis":
            size = array.shape[keywords["axis"]]
            keywords["indices"] = StrictArray(operand(keywords["indices"]) % size)
        elif name == "reshape":
            # By position: the keyword is newshape in NumPy 2.0 and shape from 2.1 on.
            return _wrapped(_call(numpy_function, [array, keywords.pop("newshape")], keywords))
        elif name == "argmax" or name == "argmin":
            keywords.pop("dtype", None)
        elif name in ("repeat", "permute_dims", "transpose", "broadcast_to", "tile"):
            return _wrapped(_call(numpy_function, [array, *keywords.values()], {}))
        result = _call(numpy_function, [array], keywords)
        return StrictArray(np.asarray(result)) if name in _RETURN_ARRAYS else _wrapped(result)

    function.__name__ = name
    return function


def _other_function(name, names):
    numpy_function = getattr(np, name)

    def function(*args, **keywords):
        _expect_keywords(name, keywords, names)
        return _wrapped(_call(numpy_function, args, keywords))

    function.__name__ = name
    return function


def _clip(array, a_min=None, a_max=None, out=None):
    if not isinstance(array, StrictArray):
        raise TypeError(f"clip expected a strict array, got {type(array).__name__}")
    return _wrapped(_call(np.clip, [array, a_min, a_max], {"out": out}))


def _expect_keywords(name, given, known):
    for keyword in given:
        if keyword not in known:
            raise TypeError(
                f"{name} has no argument {keyword!r} in CuPy; it takes {', '.join(known)}"
            )


def _wrapped_indices(array, indices, axis):
    indices = np.asarray(_unwrapped(indices))
    size = array.size if axis is None else array.shape[axis]
    return StrictArray(indices % size if size else indices)


NAMESPACE = StrictArray._namespace = StrictNamespace()
