"""Mistakes in the backward pass of attention."""

from .reasons import OFF_DIAGONAL

_SCORES = "softmax_vjp(dweights, weights, None)"
_WEIGHTS = "_weights(q, k, mask, causal, scale)"
_UNMASKED = "_weights(q, k, None, False, scale)"
_ONE_ROW = (
    "the scores of one query compete with each other: the sum runs over its keys, the last axis"
)
_MASK = "a masked score is -inf before the softmax, in the backward pass too"

CHANGES = {
    "attention": {
        "_score_cotangent": {
            "lacks the mean term of the softmax": (_SCORES, "weights * dweights", OFF_DIAGONAL),
            "treats every weight independently": (
                _SCORES,
                "dweights * weights * (1 - weights)",
                "P (1 - P) is the diagonal of the Jacobian only: " + OFF_DIAGONAL,
            ),
            "lacks the outer weights": (
                _SCORES,
                "dweights - (weights * dweights).sum(axis=-1, keepdims=True)",
                "dS = P (dP - sum P dP): each score's gradient has its own weight as a factor",
            ),
            "lacks the weights in the mean": (
                _SCORES,
                "weights * (dweights - dweights.sum(axis=-1, keepdims=True))",
                "what is subtracted is the average dP under the weights, sum P dP",
            ),
            "sums over the queries": (
                _SCORES,
                "weights * (dweights - (weights * dweights).sum(axis=-2, keepdims=True))",
                _ONE_ROW,
            ),
            "leaves out the softmax": (
                _SCORES,
                "dweights",
                "the weights are the softmax of the scores",
            ),
            "ignores the mask": (_WEIGHTS, _UNMASKED, _MASK),
            "applies the mask after the softmax": (
                _WEIGHTS,
                _UNMASKED + " * visible_keys(q, k, mask, causal)",
                _MASK + "; set to 0 after it, the weights of a row no longer add up to 1",
            ),
        },
        "attention_vjp_q": {
            "lacks the scale in dQ": (" * score_scale(q, scale)", "", "S = scale Q K^T"),
            "has the scale twice in dQ": (
                "* score_scale(q, scale)",
                "* score_scale(q, scale) ** 2",
                "S = scale Q K^T",
            ),
            "divides by head_dim and not by its root in dQ": (
                "score_scale(q, scale)",
                "(1 / q.shape[-1] if scale is None else scale)",
                "the scale is 1 / sqrt(head_dim)",
            ),
            "has Q where K belongs in dQ": (
                "ds @ k",
                "ds @ q",
                "dS/dQ is K: each score is a product of one of each",
            ),
        },
        "attention_vjp_v": {
            "does not transpose the weights in dV": (
                "weights.swapaxes(-1, -2) @ g",
                "weights @ g",
                "every query uses each value that it attends to: the sum runs over the queries, P^T g",
            ),
            "reverses the queries of the cotangent": ("@ g", "@ g[..., ::-1, :]"),
            "ignores the mask in dV": (_WEIGHTS, _UNMASKED, _MASK),
        },
        "attention_vjp_k": {
            "does not transpose dS in dK": (
                "ds.swapaxes(-1, -2)",
                "ds",
                "each key is compared with every query: the sum runs over the queries, dS^T Q",
            ),
            "lacks the scale in dK": (" * score_scale(q, scale)", "", "S = scale Q K^T"),
            "has the scale twice in dK": (
                "* score_scale(q, scale)",
                "* score_scale(q, scale) ** 2",
                "S = scale Q K^T",
            ),
            "has K where Q belongs in dK": (
                "(q * score_scale",
                "(k * score_scale",
                "dS/dK is Q: each score is a product of one of each",
            ),
        },
    },
}
