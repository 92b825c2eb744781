"""Mistakes in the backward pass of layer norm."""

from .reasons import MINUS_SIGN

_LAYER_NORM = "return (p - mean_p - z * mean_pz) / sigma"

CHANGES = {
    "layer_norm": {
        "layer_norm_vjp_x": {
            "returns zeros": (_LAYER_NORM, "return 0 * g"),
            "lacks the variance term": (
                " - z * mean_pz",
                "",
                "the deviation sigma is a function of x as well, and so depends on each element",
            ),
            "has the wrong sign": ("return (p", "return -(p", MINUS_SIGN),
            "lacks the mean term": (
                " - mean_p ",
                " ",
                "the mean mu is a function of x as well: a shift of the whole row changes nothing, so dx adds up "
                "to 0",
            ),
            "lacks both means": (
                _LAYER_NORM,
                "return p / sigma",
                "mu and sigma are functions of x as well, not constants",
            ),
            "is not divided by the deviation": (
                " / sigma",
                "",
                "the row was divided by sigma: a row twice as wide moves its z half as much",
            ),
            "divides by the variance": ("/ sigma", "/ sigma**2", "z = c / sigma has one sigma"),
            "adds the variance term": ("- z * mean", "+ z * mean", MINUS_SIGN),
            "lacks the factor w": (
                "p = g if weight is None else g * weight",
                "p = g",
                "y = w z + b: the cotangent of z is p = g w",
            ),
            "multiplies by w at the end": (
                """p = g if weight is None else g * weight
    mean_p = xp.mean(p, axis=axes, keepdims=True)
    mean_pz = xp.mean(p * z, axis=axes, keepdims=True)
    return (p - mean_p - z * mean_pz) / sigma""",
                """p = g
    mean_p = xp.mean(p, axis=axes, keepdims=True)
    mean_pz = xp.mean(p * z, axis=axes, keepdims=True)
    return (1 if weight is None else weight) * (p - mean_p - z * mean_pz) / sigma""",
                "w belongs inside the means: they are taken of p = g w",
            ),
            "sums instead of averaging": (
                "mean_p = xp.mean(p, axis=axes, keepdims=True)\n    mean_pz = xp.mean(",
                "mean_p = xp.sum(p, axis=axes, keepdims=True)\n    mean_pz = xp.sum(",
                "mu and sigma^2 are means: both terms have the factor 1/n",
            ),
        },
        "layer_norm_vjp_weight": {
            "has x where z belongs in dw": (
                "return g * z",
                "return g * x",
                "w multiplies the normalized row z, not x",
            ),
            "lacks z in dw": ("return g * z", "return g", "dy/dw = z"),
        },
    },
}
