"""A transformer block in a training step, forward and backward, in 22 launches where its operations take 35.

    forward    x1 = norm1(x)                              1
               q, k, v = x1 (W_Q, W_K, W_V)               1, one product of stacks (1 more for biases)
               q and k normalized and rotated             1, if the block has either
               a = attention(q, k, v)                     1
               r = x + D(a W_O + b_O),  x2 = norm2(r)     2
               h = x2 W_1,  y = activation(h + b_1)       2
               out = r + D(y W_2 + b_2)                   1, 2 with dropout

    backward   D g and db_2                               1, if there is dropout or a bias
               dy, dW_2, dh (and db_1), dx2, dW_1         5
               dr = g + dnorm2,  D dr (and db_O)          1
               da, dW_O                                   2
               dq, dk, dv                                 2
               dq and dk before both                      1, if the block has either
               dx1, three parts of a sum, and the dW      2, products of stacks (1 more for biases)
               dx = dr + dnorm1                           1
               sums over rows, for norms and biases       1

Trade-offs: a fused kernel reads and writes the residual stream once, where each of its operations would read and write
it. Only training steps run this kernel: second-order gradients, caches, masks and hooks need the separate operations.
It saves the same arrays for backward as they do.
"""

from typing import NamedTuple

from ...autograd.layers import register_layer
from ...backend import backend_of
from . import layer_norm, rms_norm
from .activations import KINDS, activate, activate_backward, activate_biased_backward
from .attention import LONGEST, AttentionCall
from .columns import PartialSums
from .elementwise import LARGEST
from .products import multiply, multiply_add, multiply_stacks, repeated, stack_in, stack_of
from .query_key import (
    LARGEST_HEAD_DIM,
    QueryKey,
    add_projection_biases,
    query_key_backward,
    query_key_forward,
)
from .residual import Branch, add_branch, add_branch_backward, dropout_mask
from .rows import contiguous, is_floating, row_layout

_NORMS = {"layer_norm": layer_norm, "rms_norm": rms_norm}


class Weights(NamedTuple):
    """The parameters of a block: matrices (in, out), and vectors or None."""

    norm1: object
    norm1_bias: object
    query: object
    key: object
    value: object
    query_bias: object
    key_bias: object
    value_bias: object
    project: object
    project_bias: object
    norm2: object
    norm2_bias: object
    expand: object
    expand_bias: object
    contract: object
    contract_bias: object


class _Saved(NamedTuple):
    """The residuals of forward; matrices have one row per token."""

    weights: Weights
    options: dict
    shape: tuple  # of x
    x: object
    statistics1: object
    x1: object
    stacked: object  # W_Q, W_K, W_V
    projections: object  # (3, rows, dim): q, k and v before they are normalized and rotated
    how: QueryKey
    attention: AttentionCall
    attended: object
    r: object
    statistics2: object
    x2: object
    h: object
    y: object


def forward(x, *weights, heads, norm, eps, activation, query_key, scale, p, attention_p, draw_key):
    """The output of the block; see ``nn/fused_block.py`` for the options.

    Args:
        x: (..., length, dim).
        weights: in the order of ``Weights``.
        norm: ``"layer_norm"`` or ``"rms_norm"``.
        eps: of the two norms.
        query_key: ``(eps, cosine, sine)`` as for ``QueryKey``.
        p: dropout of both branches; ``attention_p`` of the attention weights.
        draw_key: returns a random key; called for the dropout of the attention weights, of the attention branch and of
            the feed-forward branch, in this order, unless its probability is 0.
    """
    w = Weights(*weights)
    how = QueryKey(*query_key)
    if not _accepts(x, w, heads, activation, p, attention_p):
        return NotImplemented
    rows = contiguous(x).reshape((-1, x.shape[-1]))
    if row_layout(rows) is None:
        return NotImplemented
    attention_key, key1, key2 = (draw_key() if each else None for each in (attention_p, p, p))
    options = {"norm": _NORMS[norm], "heads": heads, "activation": activation}
    options.update(dropout1=dropout_mask(p, key1), dropout2=dropout_mask(p, key2))
    backend = backend_of(x)

    def product(left, right):
        return multiply(left, right, backend.empty((left.shape[0], right.shape[1]), left.dtype))

    x1, statistics1, _ = options["norm"].normalize(rows, w.norm1, w.norm1_bias, eps[0])
    stacked = stack_of([w.query, w.key, w.value])
    projections = backend.empty((3, *rows.shape), x.dtype)
    multiply_stacks(repeated(x1, 3), stacked, projections)
    if w.query_bias is not None:
        add_projection_biases(projections, (w.query_bias, w.key_bias, w.value_bias))
    q, k, v = split = _split(projections, x.shape, heads)
    if how:
        q, k = query_key_forward(split[:2], how)
    q, k, v = (array.swapaxes(1, 2) for array in (q, k, v))  # (batch, heads, length, head_dim)
    call = AttentionCall(q, k, v, None, True, scale, attention_p, attention_key)
    attended = call.forward().swapaxes(1, 2).reshape(rows.shape)
    branch = Branch(product(attended, w.project), w.project_bias, options["dropout1"])
    base = None if p else backend.empty(rows.shape, x.dtype)  # r + b_2
    x2, statistics2, r = options["norm"].normalize(
        rows, w.norm2, w.norm2_bias, eps[1], branch, base, w.contract_bias
    )
    h = product(x2, w.expand)
    y = activate(h, activation, w.expand_bias)
    if base is None:
        out = add_branch(r, Branch(product(y, w.contract), w.contract_bias, options["dropout2"]))
    else:
        out = multiply_add(y, w.contract, base)
    saved = _Saved(
        w, options, x.shape, rows, statistics1, x1, stacked, projections, how, call, attended, r,
        statistics2, x2, h, y,
    )  # fmt: skip
    return out.reshape(x.shape), saved


def backward(g, saved):
    w, options = saved.weights, saved.options
    normalize_backward = options["norm"].normalize_backward
    backend = backend_of(g)
    g = contiguous(g).reshape(saved.x.shape)
    sums = _partial_sums(saved)

    def product(left, right):
        return multiply(left, right, backend.empty((left.shape[0], right.shape[1]), left.dtype))

    def first(norm):
        return next((name for name in sums.widths if name.startswith(norm)), None)

    # Feed-forward branch.
    dproduct = add_branch_backward(g, sums, "contract_bias", options["dropout2"])
    dcontract = product(saved.y.T, dproduct)
    dy = product(dproduct, w.contract.T)
    if w.expand_bias is None:
        dh = activate_backward(dy, saved.h, options["activation"])
    else:
        bias = w.expand_bias, sums, "expand_bias"
        dh = activate_biased_backward(dy, saved.h, options["activation"], *bias)
    dexpand = product(saved.x2.T, dh)
    dr, dproduct = normalize_backward(
        product(dh, w.expand.T),
        saved.r,
        w.norm2,
        saved.statistics2,
        sums,
        first("norm2"),
        residual=g,
        dropout=options["dropout1"],
        branch_bias=w.project_bias is not None,
    )

    # Attention branch.
    dproject = product(saved.attended.T, dproduct)
    dattended = _split(product(dproduct, w.project.T), saved.shape, options["heads"])
    dprojections = backend.empty(saved.projections.shape, g.dtype)
    split = _split(dprojections, saved.shape, options["heads"])
    out = [split[i].swapaxes(1, 2) for i in range(3)]
    saved.attention.backward(dattended.swapaxes(1, 2), out)
    if saved.how:
        before = _split(saved.projections, saved.shape, options["heads"])
        query_key_backward(split[:2], before[:2], saved.how)
    if w.query_bias is not None:
        sums.add("projection_biases", dprojections)
    dweights = backend.empty((3, *w.query.shape), g.dtype)
    multiply_stacks(repeated(saved.x1.T, 3), stack_in(dprojections), dweights)
    dx1 = backend.empty(dprojections.shape, g.dtype)  # the sum of three parts
    multiply_stacks(stack_in(dprojections), saved.stacked.T, dx1)
    dx, _ = normalize_backward(
        dx1, saved.x, w.norm1, saved.statistics1, sums, first("norm1"), residual=dr
    )

    totals = sums.finish()
    dbiases = [None] * 3
    if w.query_bias is not None:
        dbiases = totals["projection_biases"].reshape((3, -1))
        dbiases = [dbiases[i] for i in range(3)]
    gradients = Weights(
        totals.get("norm1.weight") if w.norm1 is not None else None,
        totals.get("norm1.bias") if w.norm1_bias is not None else None,
        *(dweights[i] for i in range(3)),
        *dbiases,
        dproject,
        totals.get("norm2.branch_bias"),
        totals.get("norm2.weight") if w.norm2 is not None else None,
        totals.get("norm2.bias") if w.norm2_bias is not None else None,
        dexpand,
        totals.get("expand_bias"),
        dcontract,
        totals.get("contract_bias"),
    )
    return dx.reshape(saved.shape), *gradients


def _accepts(x, w, heads, activation, p, attention_p):
    arrays = [array for array in w if array is not None]
    if x.ndim < 2 or x.size == 0 or not is_floating(x, *arrays) or max(p, attention_p) >= 1:
        return False
    if activation not in KINDS or any(not array.flags.c_contiguous for array in arrays):
        return False
    length, dim = x.shape[-2:]
    hidden = w.expand.shape[1]
    if {w.query.shape, w.key.shape, w.value.shape, w.project.shape} != {(dim, dim)}:
        return False
    if w.expand.shape[0] != dim or w.contract.shape != (hidden, dim):
        return False
    if w.expand_bias is not None and w.expand_bias.shape != (hidden,):
        return False
    projection_biases = w.query_bias, w.key_bias, w.value_bias
    norms = w.norm1, w.norm1_bias, w.norm2, w.norm2_bias
    vectors = *projection_biases, *norms, w.project_bias, w.contract_bias
    if any(vector is not None and vector.shape != (dim,) for vector in vectors):
        return False
    if len({bias is None for bias in projection_biases}) > 1:
        return False
    if x.size // dim * max(3 * dim, hidden) > LARGEST or length > LONGEST:
        return False
    head_dim = dim // heads
    return head_dim % 2 == 0 and head_dim <= LARGEST_HEAD_DIM


def _split(projections, shape, heads):
    """(..., rows, dim) to (..., batch, length, heads, head_dim), for x of ``shape`` (..., length, dim)."""
    length, dim = shape[-2:]
    return projections.reshape((*projections.shape[:-2], -1, length, heads, dim // heads))


def _partial_sums(saved):
    """The sums over all tokens in backward: those of norms and biases."""
    w = saved.weights
    dim = saved.x.shape[1]
    widths = {}
    for name, weight, bias in (
        ("norm2", w.norm2, w.norm2_bias),
        ("norm1", w.norm1, w.norm1_bias),
    ):
        has_branch_bias = name == "norm2" and w.project_bias is not None
        if weight is not None or bias is not None or has_branch_bias:
            widths.update({f"{name}.{of}": dim for of in saved.options["norm"].SUMS})
        if has_branch_bias:
            widths["norm2.branch_bias"] = dim
    if w.contract_bias is not None:
        widths["contract_bias"] = dim
    if w.expand_bias is not None:
        widths["expand_bias"] = w.expand_bias.size
    if w.query_bias is not None:
        widths["projection_biases"] = 3 * dim
    return PartialSums(saved.x, saved.x.shape[0], widths)


register_layer("transformer_block", "cuda", forward, backward)
