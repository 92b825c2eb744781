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
