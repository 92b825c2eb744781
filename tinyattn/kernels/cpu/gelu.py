"""GELU, exact and tanh-approximated, in blocks; the derivative is computed while the block is in cache.

Trade-offs: the derivative, an array of the size of x, is saved, and backward is a single product; computing tanh a
second time would cost more than the memory. Memory that is not in cache costs as much as the arithmetic, so the output
serves as a buffer for intermediate results. With s = sigmoid(2 u) = (1 + tanh u) / 2 and u = c (x + a x^3),
    y = x s,    y' = s (1 + (1 - s) x (2c + 6ca x^2)).
If x^2 overflows, it is clipped, since infinity times an s or 1 - s of 0 would be NaN. NumPy detects the overflow by the
processor's status flags, at no cost; clipping every block would take a quarter more time.

The exact form needs the normal distribution function Phi(x), which NumPy does not provide. In float32 it is computed as
(1 + tanh(x p(x^2))) / 2 with a polynomial p of degree 6, fitted by weighted least squares to atanh(2 Phi(x) - 1) / x on
|x| <= 5.6: the error is below 1e-7, the precision of float32. In float64 the rule runs.
    y = x Phi(x),    y' = Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi).
"""

import math

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import is_floating

_C = math.sqrt(2.0 / math.pi)
_A = 0.044715
# Large: measured, the overhead of the calls for smaller blocks exceeds the gain from the L2 cache.
_BLOCK_ELEMENTS = 1 << 18
_SATURATED = 40.0**2  # of x^2; beyond it s is 0 or 1, also in float64
_NORMAL_CDF = (  # coefficients of p, from power 0 to 6
    7.978849414811807e-01,
    3.633308446715216e-02,
    -3.2594840635775826e-05,
    -5.5306257681517375e-05,
    3.964757483061117e-06,
    -1.3226448557271308e-07,
    1.7562055862248516e-09,
)
_FIT_END = 5.6**2  # of x^2; beyond it tanh is 1


def forward(x, *, approximate="none"):
    if not is_floating(x) or not x.flags.c_contiguous:
        return NotImplemented
    if approximate != "tanh" and (approximate != "none" or x.dtype != np.float32):
        return NotImplemented  # the rule raises the error for an unknown form
    write_block = gelu_block if approximate == "tanh" else exact_gelu_block
    out = empty(x.shape, x.dtype)
    slope = empty(x.shape, x.dtype)
    flat_x, flat_out, flat_slope = x.reshape(-1), out.reshape(-1), slope.reshape(-1)
    scratch = empty(min(_BLOCK_ELEMENTS, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK_ELEMENTS):
        block = slice(start, min(start + _BLOCK_ELEMENTS, x.size))
        sigma = scratch[: block.stop - start]
        write_block(flat_x[block], flat_out[block], flat_slope[block], sigma)
    return out, slope


def gelu_block(x, out, slope, sigma):
    """Write gelu(x) to ``out`` and its derivative to ``slope``; all (elements,), as is the buffer ``sigma``."""
    try:
        with np.errstate(over="raise"):
            np.multiply(x, x, out=slope)
    except FloatingPointError:
        np.minimum(np.multiply(x, x, out=slope), _SATURATED, out=slope)
    np.multiply(slope, _C * _A, out=sigma)
    sigma += _C
    sigma *= x
    np.tanh(sigma, out=sigma)
    sigma *= 0.5
    complement = np.subtract(0.5, sigma, out=out)
    sigma += 0.5
    slope *= 6.0 * _C * _A
    slope += 2.0 * _C
    slope *= complement
    np.multiply(x, sigma, out=out)
    slope *= out
    slope += sigma


def exact_gelu_block(x, out, slope, phi):
    """Like ``gelu_block``, for the exact form."""
    square = np.multiply(x, x, out=out)
    np.multiply(square, -0.5, out=slope)
    np.exp(slope, out=slope)
    slope *= 1 / math.sqrt(2 * math.pi)
    slope *= x
    np.minimum(square, _FIT_END, out=square)
    phi.fill(_NORMAL_CDF[-1])
    for coefficient in _NORMAL_CDF[-2::-1]:
        phi *= square
        phi += coefficient
    phi *= x
    np.tanh(phi, out=phi)
    phi *= 0.5
    phi += 0.5
    np.multiply(x, phi, out=out)
    slope += phi


def backward(g, slope):
    return np.multiply(g, slope, out=empty(slope.shape, slope.dtype))


register_kernel("gelu", "cpu", forward, backward)
