"""FlashAttention: dense attention whose n by n matrix of scores never exists.

What it computes is ``attention`` (``dense.py``), exactly; how is the kernel's affair. Keys come in tiles. For the
tiles seen so far a query keeps its output o, as if they were all there are, and the log-sum-exp l of their scores.
A further tile with output o' and log-sum-exp l' changes them to

    l <- log(e^l + e^l'),        o <- e^(l_old - l) o + e^(l' - l) o'.

Forward saves o and l, a number for each row; backward computes a tile of weights again as P = exp(S - l), and from it
the tile's part of dQ, dK and dV. Memory grows with n, not n^2; dropout is computed again from a counter.

The kernels: ``kernels/cpu/attention.py``, and for other backends ``kernels/portable/attention.py``.

Source: T. Dao, D. Fu, S. Ermon, A. Rudra and C. Ré, "FlashAttention: Fast and Memory-Efficient Exact Attention with
IO-Awareness" (2022).
"""

import math

from ..backend import default_random
from .dense import attention


def flash_attention(q, k, v, *, mask=None, causal=False, dropout_p=0.0, scale=None):
    """What ``kind="flash"`` calls: the arguments and the result of ``scaled_dot_product_attention``.

    >>> import tinyattn as ta
    >>> x = ta.ones((1, 3, 2))
    >>> flash_attention(x, x, x, causal=True).shape
    (1, 3, 2)
    """
    key = default_random().key() if dropout_p else None
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return attention(q, k, v, mask, causal=causal, scale=scale, dropout_p=dropout_p, key=key)
