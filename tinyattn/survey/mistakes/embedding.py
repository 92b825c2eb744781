"""Mistakes in the backward pass of the embedding."""

from .reasons import MINUS_SIGN, NO_G

_EMBEDDING = "return sum_by_id.rule(g, ids, rows=_weight.shape[0], padding_idx=padding_idx)"

CHANGES = {
    "embedding": {
        "embedding_vjp_weight": {
            "keeps one of several places with the same id": (
                _EMBEDDING,
                "table = array_namespace(g).zeros(_weight.shape, dtype=g.dtype)\n    table[ids] = g\n    return "
                "table",
                "dW[ids] = g, and dW[ids] += g as well, write each row once: where an id is repeated, the last place "
                "wins; np.add.at adds them all",
            ),
            "averages over the places with the same id": (
                _EMBEDDING,
                "count = sum_by_id.rule(g**0, ids, rows=_weight.shape[0])\n    "
                "return sum_by_id.rule(g, ids, rows=_weight.shape[0]) / (count + (count == 0))",
                "a row is copied to every place that names it: its gradient is the sum over all of them",
            ),
            "counts the places": ("rule(g,", "rule(g**0,", NO_G),
            "divides by the number of ids": (
                "return sum",
                "return 1 / ids.size * sum",
                "each copy has the factor 1; the mean over the places is the loss's affair",
            ),
            "has the wrong sign": ("return sum", "return -sum", MINUS_SIGN),
            "is one row too low": (
                "(g, ids,",
                "(g, (ids + 1) % _weight.shape[0],",
                "ids count from 0",
            ),
        }
    },
}
