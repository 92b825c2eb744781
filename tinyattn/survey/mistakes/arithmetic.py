"""Mistakes in the backward pass of addition."""

from .reasons import MINUS_SIGN, NO_G

_COPIES = "each copy of an element sends its cotangent back, and they add up"

CHANGES = {
    "add": {
        "add_vjp_x": {
            "has the wrong sign in x": ("return g", "return -g", MINUS_SIGN),
            "lacks the cotangent in x": ("return g", "return g**0", NO_G),
        },
        "add_vjp_y": {
            "has the wrong sign in y": ("return g", "return -g", "that would be a difference"),
        },
        "unbroadcast": {
            "averages over the copies instead of summing": (
                "xp.sum(cotangent, axis=",
                "xp.mean(cotangent, axis=",
                _COPIES,
            ),
            "takes the first copy only": (
                "xp.sum(cotangent, axis=stretched, keepdims=True)",
                "cotangent[tuple(slice(0, 1 if a in stretched else None) for a in range(len(cotangent.shape)))]",
                _COPIES,
            ),
        },
    },
}
