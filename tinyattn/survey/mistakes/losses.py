"""Mistakes in the backward pass of cross-entropy."""

from .reasons import NO_G

CHANGES = {
    "cross_entropy": {
        "cross_entropy_vjp_logits": {
            "lacks the cotangent": ("_row_cotangent(g,", "_row_cotangent(g**0,", NO_G),
            "lacks the target": (
                "summing_to_zero(p - q, p, -1)",
                "p",
                "the loss holds -z_t, the logit of the target class, as well",
            ),
            "lacks the probabilities": (
                "summing_to_zero(p - q, p, -1)",
                "-q",
                "the log-sum-exp depends on every logit, with the slope p_j",
            ),
            "looks at the target class only": (
                "summing_to_zero(p - q, p, -1)",
                "q * (p - q)",
                "every logit takes part in the log-sum-exp, so that the other classes have the gradient p_j",
            ),
            "has the logits where the probabilities belong": (
                "summing_to_zero(p - q, p, -1)",
                "(logits - q)",
                "d log sum_j exp(z_j) / dz_j = p_j, the softmax of the logits",
            ),
            "has the wrong sign": (
                "g[..., None] *",
                "-g[..., None] *",
                "the loss falls as the target's logit rises: p - onehot, not onehot - p",
            ),
            "counts ignored places": ("kept[..., None],", "kept[..., None] | True,"),
            "sums instead of averaging": (
                "kept, reduction)",
                'kept, "sum")',
                "the loss is the mean over the rows: each has the factor 1 / number of rows",
            ),
            "divides by the number of all logits": (
                "g = _row_cotangent(g, kept, reduction)",
                'g = _row_cotangent(g / logits.size, kept, "sum")',
                "the mean is taken over the rows, not over the classes",
            ),
        }
    },
}
