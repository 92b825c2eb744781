"""Mistakes in the backward pass of softmax and log-softmax."""

from .reasons import MINUS_SIGN, NO_G, OFF_DIAGONAL

_SOFTMAX = """\
g = relative_to_likeliest(g, y, axis)
    return y * (g - xp.sum(g * y, axis=axis, keepdims=True))"""
_LOG_SOFTMAX = "return summing_to_zero(g - p * xp.sum(g, axis=axis, keepdims=True), p, axis)"

CHANGES = {
    "softmax": {
        "softmax_vjp": {
            "returns zeros": (_SOFTMAX, "return 0 * g"),
            "is 7 times too large": ("return y *", "return 7 * y *"),
            "lacks the outer y": (
                "return y * (",
                "return (",
                "each row of the Jacobian has the factor y_j: an unlikely class hardly moves",
            ),
            "has the wrong sign": ("return y *", "return -y *", MINUS_SIGN),
            "lacks the subtracted mean": (_SOFTMAX, "return y * g", OFF_DIAGONAL),
            "treats every element independently": (
                _SOFTMAX,
                "return g * y * (1 - y)",
                "y (1 - y) is the diagonal of the Jacobian only: " + OFF_DIAGONAL,
            ),
            "lacks the weights in the mean": (
                _SOFTMAX,
                "return y * (g - xp.sum(g, axis=axis, keepdims=True))",
                "what is subtracted is the average g under the distribution, sum_i g_i y_i",
            ),
            "adds the mean": (
                _SOFTMAX,
                "return y * (g + xp.sum(g * y, axis=axis, keepdims=True))",
                "the entries off the diagonal are negative, -y_i y_j",
            ),
            "lacks the cotangent": (
                _SOFTMAX,
                "return y - xp.sum(y * y, axis=axis, keepdims=True)",
                NO_G,
            ),
            "sums along the wrong axis": (
                _SOFTMAX,
                "return y * (g - xp.sum(g * y, axis=0, keepdims=True))",
                "the sum runs along the axis along which the outputs add up to 1",
            ),
            "sums over all elements": (
                _SOFTMAX,
                "return y * (g - xp.sum(g * y))",
                "each row is a separate distribution and subtracts its own mean",
            ),
            "is that of log-softmax": (
                _SOFTMAX,
                "return g - y * xp.sum(g, axis=axis, keepdims=True)",
                "without the logarithm, y_j is a factor of both terms and the sum is weighted by y",
            ),
            "lacks y_j in the subtracted term": (
                _SOFTMAX,
                "return g * y - xp.sum(g * y, axis=axis, keepdims=True)",
                "the entries off the diagonal are -y_i y_j: the sum of g_i y_i has the factor y_j",
            ),
            "averages instead of summing": (
                _SOFTMAX,
                "return y * (g - xp.mean(g * y, axis=axis, keepdims=True))",
                "the y_i are the weights of the average already and add up to 1",
            ),
        }
    },
    "log_softmax": {
        "log_softmax_vjp": {
            "takes the sum of g for 1": (
                _LOG_SOFTMAX,
                "return g - p",
                "g - p holds where the g of a row add up to 1, as for one loss; in general p is times sum_i g_i",
            ),
            "lacks the subtracted term": (
                _LOG_SOFTMAX,
                "return g",
                "all outputs of a row contain the same log-sum-exp, which every score moves",
            ),
            "lacks the first g": (
                _LOG_SOFTMAX,
                "return -p * xp.sum(g, axis=axis, keepdims=True)",
                "x_i occurs in its own output with the factor 1",
            ),
            "has y where p = exp(y) belongs": (
                _LOG_SOFTMAX,
                "return g - y * xp.sum(g, axis=axis, keepdims=True)",
                "the output y is the logarithm of the probability",
            ),
            "weights the sum by the probabilities": (
                _LOG_SOFTMAX,
                "return g - p * xp.sum(g * p, axis=axis, keepdims=True)",
                "each output of a row contains the same log-sum-exp: the sum is that of the g_i alone",
            ),
            "is that of softmax": (
                _LOG_SOFTMAX,
                "return p * (g - xp.sum(g * p, axis=axis, keepdims=True))",
                "the logarithm cancels the factor p",
            ),
            "sums along the wrong axis": (
                _LOG_SOFTMAX,
                "return g - p * xp.sum(g, axis=0, keepdims=True)",
                "the sum runs along the axis along which the probabilities add up to 1",
            ),
            "has the wrong sign": (
                _LOG_SOFTMAX,
                "return -(g - p * xp.sum(g, axis=axis, keepdims=True))",
                MINUS_SIGN,
            ),
        }
    },
}
