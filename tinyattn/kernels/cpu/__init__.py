"""CPU kernels in NumPy: in-place, in blocks that fit the cache, with residuals saved for backward.

A kernel is a pair of functions, ``forward(*inputs, **parameters) -> (out, residuals)`` and
``backward(g, residuals) -> cotangents``, registered under the name of its primitive. For inputs that a kernel does not
support, forward returns NotImplemented, and the rule runs instead.
"""

from . import (
    add,
    attention,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    rms_norm,
    rotary,
    softmax,
)
