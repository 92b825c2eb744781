"""Between element types and between devices."""

from ..autograd import primitive
from ..backend import backend_of, get_backend


@primitive
def astype(x, /, dtype):
    """``x`` with another element type.

    Backward. The cotangent takes the input's element type; the engine does this for every operation.

    >>> import tinyattn as ta
    >>> ta.astype(ta.tensor([1.5]), "float64").dtype
    dtype('float64')
    """
    return x.astype(dtype)


@astype.vjp
def astype_vjp(g, _out, _x, *, dtype):
    return g


def at_least_float32(x):
    """``x`` itself, or as float32 where its numbers are shorter: sums need float32's range and digits.

    >>> import numpy as np
    >>> at_least_float32(np.ones(2, np.float16)).dtype
    dtype('float32')
    """
    return x.astype("float32") if x.dtype.itemsize < 4 and x.dtype.kind == "f" else x
