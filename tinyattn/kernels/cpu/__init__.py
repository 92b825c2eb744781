"""NumPy kernels that training runs: in place, in blocks that stay in cache, with residuals saved for the backward.

A kernel is a pair of functions, ``forward(*inputs, **parameters) -> (out, residuals)`` and
``backward(g, residuals) -> cotangents``, registered under the name of its primitive. A forward that meets something
it was not written for returns NotImplemented, and the rule runs instead.
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
