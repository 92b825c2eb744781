"""FlashAttention: dense attention that never stores the n by n matrix of scores.

``flash_attention`` calls the primitive ``attention`` (``dense.py``), whose kernel is FlashAttention: it computes the
same result tile by tile over the keys. For the tiles processed so far, each query has an output o over their keys and
the log-sum-exp l of its scores. The next tile, with output o' and log-sum-exp l', updates them to

    l <- log(e^l + e^l'),        o <- e^(l_old - l) o + e^(l' - l) o'.

Forward saves o and l, one number per row. Backward recomputes each tile of weights as P = exp(S - l), and from it the
tile's contribution to dQ, dK and dV. Memory is O(n) instead of O(n^2); a counter-based random generator recomputes the
dropout mask.

Kernels: ``kernels/cpu/attention.py``, and for other backends ``kernels/portable/attention.py``.

Source: T. Dao, D. Fu, S. Ermon, A. Rudra and C. Ré, "FlashAttention: Fast and Memory-Efficient Exact Attention with
IO-Awareness" (2022).
"""

from ..backend import default_random
from .dense import attention, score_scale
from .kinds import AttentionKind, register_kind


def flash_attention(q, k, v, *, mask=None, causal=False, dropout_p=0.0, scale=None):
    """The function of ``kind="flash"``, with the arguments of ``scaled_dot_product_attention``.

    >>> import tinyattn as ta
    >>> x = ta.ones((1, 3, 2))
    >>> flash_attention(x, x, x, causal=True).shape
    (1, 3, 2)
    """
    dropout_key = default_random().key() if dropout_p else None
    scale = score_scale(q, scale)
    return attention(
        q, k, v, mask, causal=causal, scale=scale, dropout_p=dropout_p, dropout_key=dropout_key
    )


FLASH = AttentionKind("flash", flash_attention, is_exact=True, is_primitive=True)
# The default: the fastest exact kind.
AUTO = AttentionKind("auto", flash_attention, is_exact=True, is_primitive=True)

register_kind(AUTO)
register_kind(FLASH)
