"""Walkthroughs for ``explain``: the forward and backward pass of each operation in small steps, on float64 arrays.

Intermediate values have the same names as in the docstrings of ``tinyattn.ops``. A walkthrough does not call the rule
that it explains; its result is checked against the rule.
"""

import math

import numpy as np

from .numbers import parse_array


def explain_softmax(steps, x=None, cotangent=None):
    """y = softmax(x) of a row."""
    x = parse_array("1 2 3" if x is None else x, "--x")
    g = _cotangent(cotangent, x.shape)
    steps.title("softmax", "y_i = exp(x_i - m) / sum_j exp(x_j - m)")
    steps.forward("x", "", x)
    m = steps.forward("m", "max_j x_j", x.max())
    e = steps.forward("e", "exp(x - m)", np.exp(x - m))
    total = steps.forward("sum e", "", e.sum())
    y = steps.forward("y", "e / sum e", e / total, note=f"sums to {(e / total).sum():.6g}")
    steps.backward("g", "the cotangent of y", g)
    gy = steps.backward("g y", "", g * y)
    mean = steps.backward("sum_i g_i y_i", "the average g under y", gy.sum())
    centered = steps.backward("g - sum g y", "g, centered", g - mean)
    dx = steps.backward("dx", "y (g - sum g y)", y * centered)
    steps.note(f"dx sums to {dx.sum():.1e}: softmax is invariant to a shift of all scores")
    steps.jacobian("dy_i/dx_j = y_i (delta_ij - y_j)", np.diag(y) - np.outer(y, y), g, dx)
    steps.check(lambda ta, x: ta.softmax(x), [("x", x, dx)], g, y)


def explain_layer_norm(steps, x=None, cotangent=None, eps=1e-5):
    """y = layer_norm(x) of a row, without weight and bias."""
    x = parse_array("1 2 3 6" if x is None else x, "--x")
    g = _cotangent(cotangent, x.shape)
    n = x.size
    steps.title("layer_norm", "z_i = (x_i - mu) / sigma,  sigma = sqrt(mean((x - mu)^2) + eps)")
    steps.forward("x", "", x)
    mu = steps.forward("mu", "mean(x)", x.mean())
    c = steps.forward("c", "x - mu", x - mu)
    variance = steps.forward("variance", "mean(c^2), divided by n and not n - 1", (c * c).mean())
    sigma = steps.forward("sigma", f"sqrt(variance + {eps:g})", math.sqrt(variance + eps))
    z = steps.forward("z", "c / sigma", c / sigma, note="mean 0, mean square 1; y = w z + b")
    steps.backward("p", "the cotangent of z (g w; here w = 1)", g)
    mean_p = steps.backward("mean(p)", "gradient along a shift of the row", g.mean())
    mean_pz = steps.backward("mean(p z)", "gradient along a scaling", (g * z).mean())
    dx = steps.backward(
        "dx", "(p - mean(p) - z mean(p z)) / sigma", (g - mean_p - z * mean_pz) / sigma
    )
    steps.note(
        f"sum dx = {dx.sum():.1e}, sum dx z = {(dx * z).sum():.1e}, 0 up to eps: z is invariant to shift and scale"
    )
    J = (np.eye(n) - 1 / n - np.outer(z, z) / n) / sigma
    steps.jacobian("dz_i/dx_j = (delta_ij - 1/n - z_i z_j / n) / sigma", J, g, dx)
    steps.check(lambda ta, x: ta.layer_norm(x, n, eps=eps), [("x", x, dx)], g, z)


def explain_matmul(steps, x=None, cotangent=None, y=None):
    """The matrix product a b, with a given as ``x`` and b as ``y``."""
    a = parse_array("1 2; 3 4; 5 6" if x is None else x, "--x", axes=(2,))
    if y is None:
        y = np.arange(a.shape[1] * 2.0).reshape(a.shape[1], 2) - 1
    b = parse_array(y, "--y", axes=(2,))
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"--x has shape {a.shape} and --y {b.shape}: expected as many columns of x as rows of y"
        )
    g = _cotangent(cotangent, (a.shape[0], b.shape[1]))
    steps.title("matmul", "y_ij = sum_l a_il b_lj")
    steps.forward("a", "the first matrix (--x)", a)
    steps.forward("b", "the second (--y)", b)
    product = steps.forward("y", "a b: row i of a times column j of b", a @ b)
    steps.backward("g", "the cotangent of y", g)
    da = steps.backward("da", "g b^T, as dy_ij / da_il = b_lj", g @ b.T)
    db = steps.backward("db", "a^T g, as dy_ij / db_lj = a_il", a.T @ g)
    steps.check(lambda ta, a, b: ta.matmul(a, b), [("a", a, da), ("b", b, db)], g, product)


def explain_cross_entropy(steps, x=None, cotangent=None, target=0):
    """loss = cross_entropy(z, target) of one row of logits."""
    z = parse_array("2 1 0 -1" if x is None else x, "--x")
    g = parse_array("1" if cotangent is None else cotangent, "--cotangent", axes=(0,))
    target = _parse_class(target)
    if not 0 <= target < z.size:
        raise ValueError(
            f"--target {target}: expected a class from 0 to {z.size - 1}, an index into --x"
        )
    steps.title("cross_entropy", "loss = -log p_t  with  p = softmax(z)")
    steps.forward("z", "the logits", z)
    steps.forward("t", "the target class", target)
    m = steps.forward("m", "max_j z_j", z.max())
    logsumexp = steps.forward(
        "logsumexp", "m + log sum_j exp(z_j - m)", m + math.log(np.exp(z - m).sum())
    )
    log_p = steps.forward("log p", "z - logsumexp", z - logsumexp)
    loss = steps.forward("loss", "-log p_t", -log_p[target], note="nats")
    p = steps.backward("p", "exp(log p), the predicted distribution", np.exp(log_p))
    q = steps.backward("q", "onehot(t), the target distribution", np.eye(z.size)[target])
    dz = steps.backward("dz", f"g (p - q)  with the cotangent g = {g:g}", g * (p - q))
    steps.note(f"dz sums to {dz.sum():.1e}: cross-entropy is invariant to a shift of all logits")
    steps.check(lambda ta, z: ta.cross_entropy(z, np.array(target)), [("z", z, dz)], g, loss)


def explain_gelu(steps, x=None, cotangent=None):
    """y = gelu(x), elementwise, exact."""
    x = parse_array("-2 -0.5 0 1 3" if x is None else x, "--x")
    g = _cotangent(cotangent, x.shape)
    steps.title("gelu", "y = x Phi(x), Phi the CDF of the standard normal distribution")
    steps.forward("x", "", x)
    phi = np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x])
    steps.forward("Phi(x)", "(1 + erf(x / sqrt 2)) / 2", phi)
    y = steps.forward("y", "x Phi(x)", x * phi)
    steps.backward("g", "the cotangent of y", g)
    density = steps.backward(
        "Phi'(x)", "exp(-x^2/2) / sqrt(2 pi)", np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    )
    slope = steps.backward("y'", "Phi(x) + x Phi'(x), the product rule", phi + x * density)
    dx = steps.backward("dx", "g y'", g * slope)
    steps.jacobian(
        "dy_i/dx_j = delta_ij y'_i: diagonal, as gelu is elementwise", np.diag(slope), g, dx
    )
    steps.check(lambda ta, x: ta.gelu(x), [("x", x, dx)], g, y)


def explain_attention(steps, x=None, cotangent=None):
    """O = softmax(Q K^T / sqrt(d)) V with Q = K = V = X; by default the three tokens of the article."""
    article = x is None
    X = parse_array("1 0; 0 1; 1 1" if article else x, "--x", axes=(2,))
    length, d = X.shape
    default = np.zeros_like(X)
    default[-1, 0] = 1.0
    g = default if cotangent is None else _cotangent(cotangent, X.shape)
    steps.title("attention", "O = softmax(Q K^T / sqrt(d)) V, one head, Q = K = V = X")
    steps.forward("X", f"{length} tokens in {d} dimensions; W_Q = W_K = W_V = I", X)
    raw = steps.forward("Q K^T", "similarity of query i and key j", X @ X.T)
    S = steps.forward("S", f"Q K^T / sqrt({d})", raw / math.sqrt(d))
    e = np.exp(S - S.max(axis=1, keepdims=True))
    P = steps.forward("P", "softmax of each row of S", e / e.sum(axis=1, keepdims=True))
    O = steps.forward("O", "P V: weighted averages of the values", P @ X)  # noqa: E741
    if article:
        head = np.round(P[-1, :-1], 3)
        shares = " ".join(f"{value:.3f}" for value in [*head, 1 - head.sum()])
        steps.note(
            f"weights of the last token to three digits, rounded so that they sum to 1: {shares}; "
            f"output {' '.join(f'{value:.3f}' for value in O[-1])}"
        )
    steps.backward("g", "the cotangent of O", g)
    dV = steps.backward("dV", "P^T g: each value sums over the queries that attend to it", P.T @ g)
    dP = steps.backward("dP", "g V^T: effect of the weight on key j", g @ X.T)
    mean = steps.backward(
        "sum_j P dP", "the average under each row's weights", (P * dP).sum(axis=1, keepdims=True)
    )
    dS = steps.backward("dS", "P (dP - sum_j P dP): backward through softmax", P * (dP - mean))
    steps.note(f"each row of dS sums to 0 (here at most {np.abs(dS.sum(axis=1)).max():.1e})")
    dQ = steps.backward("dQ", f"dS K / sqrt({d})", dS @ X / math.sqrt(d))
    dK = steps.backward("dK", f"dS^T Q / sqrt({d})", dS.T @ X / math.sqrt(d))
    dX = steps.backward("dX", "dQ + dK + dV, as X is query, key and value", dQ + dK + dV)
    row = P[-1]
    steps.jacobian(
        "dP/dS of the last row",
        np.diag(row) - np.outer(row, row),
        dP[-1],
        dS[-1],
        names=("dP", "dS"),
    )
    inputs = [("q", X, dQ), ("k", X, dK), ("v", X, dV)]

    def attention(ta, q, k, v):
        return ta.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    steps.check(attention, inputs, g, O)
    steps.note(f"dX = dQ + dK + dV is correct if they are (largest element {np.abs(dX).max():.4g})")


def _parse_class(target):
    try:
        return int(target)
    except ValueError:
        raise ValueError(f"--target {target!r}: expected one class, a whole number") from None


WALKTHROUGHS = {
    "softmax": explain_softmax,
    "layer_norm": explain_layer_norm,
    "matmul": explain_matmul,
    "cross_entropy": explain_cross_entropy,
    "gelu": explain_gelu,
    "attention": explain_attention,
}


def _cotangent(cotangent, shape):
    """Parse the cotangent, of the output's ``shape``; by default 1 for the first element and 0 for the others."""
    if cotangent is None:
        g = np.zeros(shape)
        g.flat[0] = 1.0
        return g
    g = parse_array(cotangent, "--cotangent", axes=(1, 2))
    if g.shape != shape and g.size == math.prod(shape):
        g = g.reshape(shape)
    if g.shape != shape:
        raise ValueError(
            f"--cotangent has shape {g.shape}: expected {shape}, one number per element of the output"
        )
    return g
