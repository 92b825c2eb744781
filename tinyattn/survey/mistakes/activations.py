"""Mistakes in the backward pass of the sigmoid and GELU."""

from .reasons import MINUS_SIGN, NO_G

_SIGMOID = "return g * y * sigmoid.rule(-x)"

CHANGES = {
    "sigmoid": {
        "sigmoid_vjp": {
            "lacks the factor 1 - y": (
                " * sigmoid.rule(-x)",
                "",
                "y' = y (1 - y): the curve is flat where y nears 1, too",
            ),
            "lacks the factor y": (
                " * y",
                "",
                "y' = y (1 - y): the curve is flat where y nears 0, too",
            ),
            "lacks the cotangent": ("g * y", "y", NO_G),
            "has y where 1 - y belongs": ("rule(-x)", "rule(x)", "y' = y (1 - y)"),
            "has the wrong sign": ("return g", "return -g", "the sigmoid rises everywhere"),
            "uses x where y belongs": (
                _SIGMOID,
                "return g * x * (1 - x)",
                "y' = y (1 - y) is written with the output y, not with the input x",
            ),
            "takes the sigmoid of y": (
                _SIGMOID,
                "s = sigmoid.rule(y)\n    return g * s * (1 - s)",
                "y is the sigmoid of x already",
            ),
        }
    },
    "gelu": {
        "gelu_vjp": {
            "lacks the density term": (
                " + x * density",
                "",
                "the product rule has two terms: Phi(x) depends on x as well",
            ),
            "lacks the cumulative term": (
                "cumulative + ",
                "",
                "the product rule has two terms: x itself has the slope 1",
            ),
            "lacks x before the density": (
                "x * density",
                "density",
                "the product rule: (x Phi)' = Phi + x Phi'",
            ),
            "has a density twice too wide": (
                "-0.5 * x * x",
                "-0.25 * x * x",
                "the normal density is exp(-x^2 / 2) / sqrt(2 pi)",
            ),
            "has exp(-x^2) for exp(-x^2 / 2)": (
                "-0.5 * x * x",
                "-x * x",
                "the normal density is exp(-x^2 / 2) / sqrt(2 pi)",
            ),
            "lacks 1 / sqrt(2 pi)": (
                " / math.sqrt(2 * math.pi)\n    return",
                "\n    return",
                "without it the normal density does not integrate to 1",
            ),
            "divides by 2 pi and not by its root": (
                "math.sqrt(2 * math.pi)\n    return",
                "(2 * math.pi)\n    return",
                "the normal density is exp(-x^2 / 2) / sqrt(2 pi)",
            ),
            "subtracts the density term": ("+ x * density", "- x * density", MINUS_SIGN),
            "divides by sqrt(pi) and not by sqrt(2 pi)": (
                "math.sqrt(2 * math.pi)\n    return",
                "math.sqrt(math.pi)\n    return",
                "the chain rule for erf(x / sqrt(2)) gives the factor 1 / sqrt(2)",
            ),
            "has y where Phi belongs": (
                "(cumulative +",
                "(x * cumulative +",
                "the derivative of x Phi has the term Phi(x), which is y / x",
            ),
            "has erf where Phi belongs": (
                "(cumulative +",
                "(2 * cumulative - 1 +",
                "Phi(x) = (1 + erf(x / sqrt(2))) / 2",
            ),
            "has erf(x) for erf(x / sqrt(2))": (
                "cumulative = _normal_cumulative(x,",
                "cumulative = _normal_cumulative(math.sqrt(2) * x,",
                "Phi(x) = (1 + erf(x / sqrt(2))) / 2",
            ),
            "takes the slope at y": (
                "x = xp.minimum(xp.maximum(x, -40), 40)",
                "x = xp.minimum(xp.maximum(x, -40), 40)\n    x = x * _normal_cumulative(x, approximate)",
                "the derivative is evaluated at the input x",
            ),
            "is that of SiLU": (
                "(cumulative + x * density)",
                "(1 + x / (1 + xp.exp(x))) / (1 + xp.exp(-x))",
                "SiLU is x sigmoid(x); GELU has the normal distribution function instead of the sigmoid",
            ),
            "is that of x sigmoid(1.702 x)": (
                "(cumulative + x * density)",
                "(1 + 1.702 * x / (1 + xp.exp(1.702 * x))) / (1 + xp.exp(-1.702 * x))",
                "that is an approximation of GELU; here Phi is exact",
            ),
            "is that of the tanh approximation": (
                "xp = array_namespace(x)",
                "xp = array_namespace(x)\n    approximate = 'tanh'",
                "here Phi is exact: the approximation differs from it in the fourth digit",
            ),
            "is that of ReLU": (
                "(cumulative + x * density)",
                "(x > 0)",
                "GELU is smooth: its slope is 1/2 at 0, and below 0 for some negative x",
            ),
            "lacks the cotangent": ("return g * (", "return (g**0) * (", NO_G),
            "is a thousandth too large": ("return g *", "return 1.001 * g *"),
        }
    },
}
