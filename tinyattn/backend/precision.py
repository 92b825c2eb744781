"""TF32 products: a context variable that the matrix-product kernels of a GPU read, and rounding to TF32."""

import contextlib
import contextvars

import numpy as np

_tf32 = contextvars.ContextVar("tinyattn_tf32", default=False)


@contextlib.contextmanager
def tf32_products():
    """Let kernels of a GPU round the operands of float32 products to TF32 inside a ``with`` block.

    TF32 has the range of float32 and 10 bits after the leading one, as float16 has; sums are taken in float32.

    >>> with tf32_products():
    ...     tf32_allowed()
    True
    """
    token = _tf32.set(True)
    try:
        yield
    finally:
        _tf32.reset(token)


def tf32_allowed():
    """Whether products may round their operands to TF32 here."""
    return _tf32.get()


def rounded_to_tf32(array):
    """A float32 host array with each number rounded to the nearest TF32 number, ties away from zero.

    >>> rounded_to_tf32(np.float32([1 + 2**-10, 1 + 2**-12])).tolist() == [1 + 2**-10, 1.0]
    True
    """
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    finite = (bits & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
    return np.where(finite, rounded, bits).view(np.float32)
