"""Mistakes in the backward pass of sums and means."""

from .reasons import MINUS_SIGN, NO_G

CHANGES = {
    "sum": {
        "sum_vjp": {
            "averages": (
                "broadcast_to(g, _x.shape)",
                "broadcast_to(g / reduced_count(_x.shape, axis), _x.shape)",
                "each element enters the sum with the factor 1; 1/n belongs to the mean",
            ),
            "lacks the cotangent": ("broadcast_to(g,", "broadcast_to(g**0,", NO_G),
            "has the wrong sign": ("broadcast_to(g,", "broadcast_to(-g,", MINUS_SIGN),
            "returns zeros": (
                "broadcast_to(g,",
                "broadcast_to(0 * g,",
                "a sum depends on each element",
            ),
            "ignores which axis was reduced": (
                "with_reduced_axes(g, _x.shape, axis, keepdims)",
                "g",
                "the axis that the sum took away must come back, with length 1, before g is broadcast: NumPy "
                "otherwise lines g up with the last axes",
            ),
        }
    },
    "mean": {
        "mean_vjp": {
            "is not divided by n": (
                " / reduced_count(_x.shape, axis)",
                "",
                "each of the n elements enters the mean with the factor 1/n",
            ),
            "divides by the number of all elements": (
                "reduced_count(_x.shape, axis)",
                "reduced_count(_x.shape, None)",
                "n counts the elements that one mean takes together, those along axis",
            ),
            "divides by the length of the first axis": (
                "reduced_count(_x.shape, axis)",
                "_x.shape[0]",
                "n is the length of the axes that are reduced, whichever they are",
            ),
            "divides by the length of the last axis": (
                "reduced_count(_x.shape, axis)",
                "_x.shape[-1]",
                "n is the length of the axes that are reduced, whichever they are",
            ),
            "lacks the cotangent": ("broadcast_to(g,", "broadcast_to(g**0,", NO_G),
            "ignores which axis was reduced": (
                "with_reduced_axes(g, _x.shape, axis, keepdims)",
                "g",
                "the axis that the mean took away must come back, with length 1, before g is broadcast",
            ),
        }
    },
}
