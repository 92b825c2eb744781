"""Matrix products: all of them pass through here, to cuBLAS.

On the strict device NumPy computes them as cuBLAS would: products of float16 are summed in float32.
"""

from ...backend import array_namespace, backend_of


def multiply(left, right, out):
    """``left @ right`` for matrices or stacks of them, into ``out``, which it returns."""
    xp = array_namespace(left)
    if backend_of(left).kind == "strict" and left.dtype.itemsize < 4:
        out[...] = xp.matmul(left.astype("float32"), right.astype("float32"))
        return out
    return xp.matmul(left, right, out=out)
