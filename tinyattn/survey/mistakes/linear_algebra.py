"""Mistakes in the backward pass of the matrix product."""

from .reasons import NO_G

CHANGES = {
    "matmul": {
        "matmul_vjp_a": {
            "does not transpose b": (
                "xp.swapaxes(b, -1, -2)",
                "b",
                "y_ij holds a_il with the factor b_lj: the sum runs over j, the columns of b",
            ),
            "reverses the rows of the cotangent": ("matmul(g,", "matmul(g[::-1],"),
            "transposes the cotangent": (
                "matmul(g,",
                "matmul(xp.swapaxes(g, -1, -2),",
                "row i of the gradient of a comes from row i of g",
            ),
            "is the transpose of the right one in a": (
                "return xp.matmul(g, xp.swapaxes(b, -1, -2))",
                "return xp.matmul(b, xp.swapaxes(g, -1, -2))",
                "(g b^T)^T = b g^T",
            ),
            "lacks the cotangent in a": ("matmul(g,", "matmul(g**0,", NO_G),
        },
        "matmul_vjp_b": {
            "does not transpose a": (
                "xp.swapaxes(a, -1, -2)",
                "a",
                "y_ij holds b_lj with the factor a_il: the sum runs over i, the rows of a",
            ),
            "lacks the cotangent": ("-2), g)", "-2), g**0)", NO_G),
            "multiplies in the wrong order in b": (
                "xp.matmul(xp.swapaxes(a, -1, -2), g)",
                "xp.matmul(g, xp.swapaxes(a, -1, -2))",
                "matrices do not commute: db = a^T g",
            ),
        },
    },
}
