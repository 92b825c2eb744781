"""Linear attention: a feature map replaces the softmax, so that the cost is O(n) instead of O(n^2).

Softmax attention weights key j for query i by exp(q_i . k_j). If the weight is a product phi(q_i) . phi(k_j) of
positive features instead, the sums over keys are computed first and shared by all queries:

    out_i = sum_j (phi(q_i) . phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j) = phi(q_i) S / (phi(q_i) . z),
    S = sum_j phi(k_j) v_j^T  (head_dim, value_dim),   z = sum_j phi(k_j)  (head_dim).

Under a causal mask S and z become running sums: the state of a recurrent network.

Source: A. Katharopoulos, A. Vyas, N. Pappas and F. Fleuret, "Transformers are RNNs" (2020), equations 4 to 12.
"""

from ..autograd import primitive
from ..backend import array_namespace
from ..ops import broadcast_to, concatenate, matmul, ones_like, swapaxes, where, zeros_like
from .blocks import join_blocks, split_into_blocks
from .kinds import AttentionKind, Option, register_kind


@primitive
def elu_plus_one(x, /):
    """The positive feature map elu(x) + 1: x + 1 for x > 0, exp(x) elsewhere.

    Backward. The derivative is 1 for x > 0 and exp(x), which is the output itself, elsewhere.

    Source: Katharopoulos et al. (2020), equation 7.

    >>> import tinyattn as ta
    >>> elu_plus_one(ta.tensor([0.0, 2.0]))
    Tensor([1., 3.])
    """
    xp = array_namespace(x)
    return xp.where(x > 0, x + 1, xp.exp(xp.minimum(x, 0)))


@elu_plus_one.vjp
def elu_plus_one_vjp(g, y, x):
    return g * array_namespace(g).where(x > 0, 1, y)


@primitive
def causal_product(f, h, u, /, chunk=64):
    """Each query's sum over the keys up to its own position: y_i = sum_{j <= i} (f_i . h_j) u_j.

    Within a chunk the products form a small masked matrix; earlier chunks contribute through the prefix sums of
    h_j u_j^T. The cost is O(n (chunk + head_dim) value_dim), without an n by n matrix.

    Backward. y is linear in each of its three inputs, and each cotangent is such a sum again:
        df_i = sum_{j <= i} (g_i . u_j) h_j,    which is causal_product(g, u, h);
        dh_j = sum_{i >= j} (u_j . g_i) f_i,    the same sum read from the end of the sequence;
        du_j = sum_{i >= j} (h_j . f_i) g_i,    likewise.

    Args:
        f: (..., length, head_dim), features of the queries.
        h: (..., length, head_dim), features of the keys.
        u: (..., length, value_dim).
        chunk: the length of a chunk; it affects the speed only.

    >>> import tinyattn as ta
    >>> one = ta.ones((3, 1))
    >>> causal_product(one, one, one).reshape(3)
    Tensor([1., 2., 3.])
    """
    xp = array_namespace(f)
    length = f.shape[-2]
    f, h, u = (split_into_blocks(x, chunk) for x in (f, h, u))  # (..., chunks, chunk, dim)
    h_transposed = xp.swapaxes(h, -1, -2)
    within = xp.matmul(xp.tril(xp.matmul(f, h_transposed)), u)
    sums = xp.cumsum(xp.matmul(h_transposed, u), axis=-3)  # (..., chunks, head_dim, value_dim)
    before = xp.concatenate([xp.zeros_like(sums[..., :1, :, :]), sums[..., :-1, :, :]], axis=-3)
    return join_blocks(within + xp.matmul(f, before), length)


@causal_product.vjp("f")
def causal_product_vjp_f(g, _y, _f, h, u, *, chunk=64):
    return causal_product.rule(g, u, h, chunk=chunk)


@causal_product.vjp("h")
def causal_product_vjp_h(g, _y, f, _h, u, *, chunk=64):
    return _reversed_causal_product(u, g, f, chunk)


@causal_product.vjp("u")
def causal_product_vjp_u(g, _y, f, h, _u, *, chunk=64):
    return _reversed_causal_product(h, f, g, chunk)


def _reversed_causal_product(f, h, u, chunk):
    """Each query's sum over the keys from its own position to the end."""
    xp = array_namespace(f, h, u)
    f, h, u = (xp.flip(x, axis=-2) for x in (f, h, u))
    return xp.flip(causal_product.rule(f, h, u, chunk=chunk), axis=-2)


def linear_attention(
    q, k, v, *, mask=None, causal=False, scale=None, feature_map=elu_plus_one, chunk=64
):
    """Attention with normalized weights phi(q_i) . phi(k_j), in time and memory linear in the length.

    Args:
        q: (..., queries, head_dim); k: (..., keys, head_dim); v: (..., keys, value_dim).
        mask: a padding mask, boolean (..., 1, keys), True = may attend, the same for all queries.
        causal: query i sees the keys up to i + keys - queries.
        scale: a factor on the queries before the feature map, by default 1.
        feature_map: a function from tensors to positive features.
        chunk: see ``causal_product``.

    Returns:
        (..., queries, value_dim); 0 for a query without visible keys.

    >>> import tinyattn as ta
    >>> x = ta.ones((1, 4, 2))
    >>> linear_attention(x, x, x, causal=True).tolist()[0][3]
    [1.0, 1.0]
    """
    f, h, u = _features(q, k, v, feature_map, scale)  # phi(q), phi(k), and v with a column of ones
    if mask is not None:
        h = where(mask.swapaxes(-1, -2), h, 0)
    if not causal:
        return _normalized(matmul(f, _key_sums(h, u)))
    before = None
    earlier = k.shape[-2] - q.shape[-2]  # keys before the first query
    if earlier > 0:
        before = _key_sums(h[..., :earlier, :], u[..., :earlier, :])
        h, u = h[..., earlier:, :], u[..., earlier:, :]
    y = _normalized(_causal_sums(f[..., max(-earlier, 0) :, :], h, u, before, chunk))
    if earlier < 0:  # the first queries see no key
        zeros = broadcast_to(zeros_like(y[..., :1, :]), (*y.shape[:-2], -earlier, y.shape[-1]))
        y = concatenate([zeros, y], axis=-2)
    return y


def _features(q, k, v, feature_map, scale):
    """The features of queries and keys, and the values with a column of ones, which sums the weights."""
    f = feature_map(q if scale is None else q * scale)
    return f, feature_map(k), concatenate([v, ones_like(v[..., :1])], axis=-1)


def _key_sums(h, u):
    """The sums over keys, (..., head_dim, value_dim + 1): S, and z as the last column."""
    return matmul(swapaxes(h, -1, -2), u)


def _causal_sums(f, h, u, before, chunk):
    """Each query's sums over the keys up to its own position, plus the sums ``before`` of earlier keys, if any."""
    y = causal_product(f, h, u, chunk=chunk)
    return y if before is None else y + matmul(f, before)


def _normalized(y):
    """Divide the weighted sums by the sums of weights in the last column of ``y``."""
    total = y[..., -1:]
    return y[..., :-1] / where(total == 0, 1, total)


class LinearState:
    """The prefix sums S and z over the keys so far: the decoding state of linear attention.

    Each new position takes constant memory and time, and the result equals that of the parallel form.

    >>> import tinyattn as ta
    >>> x = ta.ones((1, 1, 2))
    >>> state = LinearState()
    >>> [state.attend(x, x, x).tolist()[0][0] for _ in range(2)]
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, feature_map=elu_plus_one, chunk=64, scale=None):
        self._feature_map = feature_map
        self._chunk = chunk
        self._scale = scale
        self._sums = None  # (..., head_dim, value_dim + 1)

    def attend(self, q, k, v):
        """Add new keys and values, (..., new, dim), and return the output of the queries at the same positions."""
        f, h, u = _features(q, k, v, self._feature_map, self._scale)
        y = _causal_sums(f, h, u, self._sums, self._chunk)
        sums = _key_sums(h, u)
        self._sums = sums if self._sums is None else self._sums + sums
        return _normalized(y)


LINEAR = AttentionKind(
    "linear",
    linear_attention,
    options={
        "feature_map": Option(elu_plus_one, "Function from tensors to positive features."),
        "chunk": Option(64, "Positions per chunk; affects the speed only [tokens].", 1),
    },
    has_weights=False,
    prefix_state=LinearState,
    unsupported=frozenset({"query_mask", "dropout", "alibi"}),
)

register_kind(LINEAR)
