"""Wrong answers as people give them: (function of the course, answer, a word or two that its diagnosis must hold).

Those marked FREE make a mistake that is in no table: the diagnosis must be true and name a part of it.
"""

import math

import numpy as np

WRONG = []
FREE = []


def wrong(name, *words, free=False):
    """Decorator: an answer to the function ``name`` that is wrong, and what the diagnosis holds."""

    def add(function):
        WRONG.append((name, function, words))
        if free:
            FREE.append(function)
        return function

    return add


# ------------------------------------------------------------------------------------------------------- cotangent


@wrong("pull_back", "does not run", "order in which they ran")
def pull_back_forward(g, jacobians):
    for J in jacobians:
        g = g @ J
    return g


@wrong("pull_back", "J @ g")
def pull_back_pushes_forward(g, jacobians):
    for J in reversed(jacobians):
        g = J @ g
    return g


@wrong("pull_back", "lacks g")
def pull_back_without_g(g, jacobians):
    product = jacobians[-1]
    for J in jacobians[-2::-1]:
        product = product @ J
    return product.sum(axis=0)


@wrong("pull_back", "wrong in every case", free=True)
def pull_back_elementwise(g, jacobians):
    for J in reversed(jacobians):
        g = (g[:, None] * J).mean(axis=0)
    return g


@wrong("jacobian", "transpose")
def jacobian_columns(vjp, outputs, inputs):
    return np.stack([vjp(np.eye(outputs)[i]) for i in range(outputs)], axis=1)


@wrong("jacobian", "same row")
def jacobian_of_ones(vjp, outputs, inputs):
    J = np.zeros((outputs, inputs))
    J[:] = vjp(np.ones(outputs))
    return J


@wrong("jacobian", "right for: 4 outputs, 1 inputs", free=True)
def jacobian_scaled(vjp, outputs, inputs):
    return np.array([vjp(row) / inputs for row in np.eye(outputs)])


# ------------------------------------------------------------------------------------------------------------- add


@wrong("add_vjp", "shape", "copied")
def add_without_sums(g, out, x, y):
    return g, g


@wrong("add_vjp", "averages over the copies")
def add_averages(g, out, x, y):
    return tuple(_unbroadcast(g, a.shape, np.mean) for a in (x, y))


@wrong("add_vjp", "first copy")
def add_first(g, out, x, y):
    return tuple(
        _unbroadcast(g, a.shape, lambda v, axis, keepdims: v.take([0], axis)) for a in (x, y)
    )


@wrong("add_vjp", "dy", "wrong sign")
def add_as_difference(g, out, x, y):
    return _unbroadcast(g, x.shape), -_unbroadcast(g, y.shape)


@wrong("add_vjp", "cotangent")
def add_ones(g, out, x, y):
    return _unbroadcast(np.ones_like(g), x.shape), _unbroadcast(np.ones_like(g), y.shape)


@wrong("add_vjp", "shape", "axis is missing")
def add_sums_away_the_axis(g, out, x, y):
    def fit(a):
        d = g
        while d.ndim > a.ndim:
            d = d.sum(axis=0)
        for axis in range(a.ndim - 1, -1, -1):
            if a.shape[axis] == 1:
                d = d.sum(axis=axis)
        return d

    return fit(x), fit(y)


@wrong("add_vjp", "times", free=True)
def add_as_product(g, out, x, y):
    return _unbroadcast(g * y, x.shape), _unbroadcast(g * x, y.shape)


@wrong("add_vjp", "factor", free=True)
def add_halves(g, out, x, y):
    return _unbroadcast(g / 2, x.shape), _unbroadcast(g / 2, y.shape)


def _unbroadcast(g, shape, reduce=np.sum):
    while g.ndim > len(shape):
        g = reduce(g, axis=0, keepdims=True)[0]
    for axis, length in enumerate(shape):
        if length == 1:
            g = reduce(g, axis=axis, keepdims=True)
    return g


# ---------------------------------------------------------------------------------------------------------- matmul


@wrong("matmul_vjp", "does not run", "does not transpose b", "does not transpose a")
def matmul_untransposed(g, out, a, b):
    return g @ b, a @ g


@wrong("matmul_vjp", "wrong order")
def matmul_swapped(g, out, a, b):
    return np.swapaxes(a, -1, -2) @ g, g @ np.swapaxes(b, -1, -2)


@wrong("matmul_vjp", "does not run")
def matmul_all_axes_turned(g, out, a, b):
    return g @ b.T, a.T @ g


@wrong("matmul_vjp", "da", "cotangent")
def matmul_without_g(g, out, a, b):
    return np.ones_like(g) @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g


@wrong("matmul_vjp", "transpose")
def matmul_transposed_results(g, out, a, b):
    return b @ np.swapaxes(g, -1, -2), np.swapaxes(g, -1, -2) @ a


@wrong("matmul_vjp", "db", "wrong sign")
def matmul_sign(g, out, a, b):
    return g @ np.swapaxes(b, -1, -2), -np.swapaxes(a, -1, -2) @ g


@wrong("matmul_vjp", "db", "factor", free=True)
def matmul_mean_over_rows(g, out, a, b):
    return g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g / a.shape[-2]


@wrong("matmul_vjp", "da", "linear in g", free=True)
def matmul_with_out(g, out, a, b):
    return (g + out) @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g


# ---------------------------------------------------------------------------------------------------- sum and mean


def _restored(g, x, axis, keepdims):
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return g


def _count(x, axis):
    return x.size if axis is None else math.prod(np.array(x.shape)[np.atleast_1d(axis)])


@wrong("sum_vjp", "averages")
def sum_averages(g, out, x, axis=None, keepdims=False):
    return np.broadcast_to(_restored(g, x, axis, keepdims), x.shape) / _count(x, axis)


@wrong("sum_vjp", "does not run", "ignores which axis")
def sum_forgets_the_axis(g, out, x, axis=None, keepdims=False):
    return g * np.ones(x.shape)


@wrong("sum_vjp", "shape")
def sum_returns_g(g, out, x, axis=None, keepdims=False):
    return g


@wrong("sum_vjp", "cotangent")
def sum_ones(g, out, x, axis=None, keepdims=False):
    return np.ones_like(x)


@wrong("sum_vjp", "times the input x", free=True)
def sum_times_x(g, out, x, axis=None, keepdims=False):
    return x * _restored(g, x, axis, keepdims)


@wrong("sum_vjp", "is right for", free=True)
def sum_as_if_along_everything(g, out, x, axis=None, keepdims=False):
    return np.full(x.shape, np.sum(g))


@wrong("mean_vjp", "not divided by n")
def mean_as_sum(g, out, x, axis=None, keepdims=False):
    return np.broadcast_to(_restored(g, x, axis, keepdims), x.shape)


@wrong("mean_vjp", "number of all elements")
def mean_by_size(g, out, x, axis=None, keepdims=False):
    return np.broadcast_to(_restored(g, x, axis, keepdims), x.shape) / x.size


@wrong("mean_vjp", "last axis")
def mean_by_last(g, out, x, axis=None, keepdims=False):
    return np.broadcast_to(_restored(g, x, axis, keepdims), x.shape) / x.shape[-1]


@wrong("mean_vjp", "first axis")
def mean_by_len(g, out, x, axis=None, keepdims=False):
    return np.broadcast_to(_restored(g, x, axis, keepdims), x.shape) / len(x)


@wrong("mean_vjp", "factor", free=True)
def mean_by_degrees_of_freedom(g, out, x, axis=None, keepdims=False):
    return np.broadcast_to(_restored(g, x, axis, keepdims), x.shape) / (_count(x, axis) - 1)


@wrong("mean_vjp", "factor", free=True)
def mean_divides_twice(g, out, x, axis=None, keepdims=False):
    return np.broadcast_to(_restored(g, x, axis, keepdims), x.shape) / _count(x, axis) ** 2


# --------------------------------------------------------------------------------------------------------- sigmoid


@wrong("sigmoid_vjp", "lacks the factor 1 - y")
def sigmoid_one_factor(g, y, x):
    return g * y


@wrong("sigmoid_vjp", "uses x where y belongs")
def sigmoid_of_x(g, y, x):
    return g * x * (1 - x)


@wrong("sigmoid_vjp", "takes the sigmoid of y")
def sigmoid_twice(g, y, x):
    s = 1 / (1 + np.exp(-y))
    return g * s * (1 - s)


@wrong("sigmoid_vjp", "cotangent")
def sigmoid_slope_only(g, y, x):
    return y * (1 - y)


@wrong("sigmoid_vjp", "wrong sign")
def sigmoid_sign(g, y, x):
    return g * y * (y - 1)


@wrong("sigmoid_vjp", "1 - the output", free=True)
def sigmoid_as_tanh(g, y, x):
    return g * y * (1 - y) * (1 - y)


@wrong("sigmoid_vjp", "right sign everywhere", free=True)
def sigmoid_really_tanh(g, y, x):
    return g * (1 - y**2)


@wrong("sigmoid_vjp", "extreme", "x = -1000", free=True)
def sigmoid_overflows(g, y, x):
    return g * np.exp(-x) / (1 + np.exp(-x)) ** 2


# --------------------------------------------------------------------------------------------------------- softmax


@wrong("softmax_vjp", "lacks the subtracted mean", "off the diagonal")
def softmax_without_mean(g, y, x, axis=-1):
    return y * g


@wrong("softmax_vjp", "every element independently", "diagonal")
def softmax_diagonal(g, y, x, axis=-1):
    return g * y * (1 - y)


@wrong("softmax_vjp", "lacks the outer y")
def softmax_without_y(g, y, x, axis=-1):
    return g - (g * y).sum(axis=axis, keepdims=True)


@wrong("softmax_vjp", "sums over all elements")
def softmax_sums_everything(g, y, x, axis=-1):
    return y * (g - np.sum(g * y))


@wrong("softmax_vjp", "right for", "axis=1")
def softmax_last_axis_only(g, y, x, axis=-1):
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


@wrong("softmax_vjp", "averages instead of summing")
def softmax_mean(g, y, x, axis=-1):
    return y * (g - (g * y).mean(axis=axis, keepdims=True))


@wrong("softmax_vjp", "weights in the mean")
def softmax_plain_sum(g, y, x, axis=-1):
    return y * (g - g.sum(axis=axis, keepdims=True))


@wrong("softmax_vjp", "adds the mean")
def softmax_adds(g, y, x, axis=-1):
    return y * (g + (g * y).sum(axis=axis, keepdims=True))


@wrong("softmax_vjp", "wrong sign")
def softmax_minus(g, y, x, axis=-1):
    return y * ((g * y).sum(axis=axis, keepdims=True) - g)


@wrong("softmax_vjp", "does not run")
def softmax_without_keepdims(g, y, x, axis=-1):
    return y * (g - (g * y).sum(axis=axis))


@wrong("softmax_vjp", "multiple of the output", free=True)
def softmax_mean_of_g(g, y, x, axis=-1):
    return y * (g - g.mean(axis=axis, keepdims=True))


@wrong("softmax_vjp", "times the output", free=True)
def softmax_y_squared(g, y, x, axis=-1):
    return y * y * (g - (g * y).sum(axis=axis, keepdims=True))


@wrong("softmax_vjp", "linear in g", free=True)
def softmax_g_squared(g, y, x, axis=-1):
    return y * (g * g - (g * g * y).sum(axis=axis, keepdims=True))


# --------------------------------------------------------------------------------------------------- cross-entropy


@wrong("log_softmax_vjp", "takes the sum of g for 1")
def log_softmax_for_one_loss(g, y, x, axis=-1):
    return g - np.exp(y)


@wrong("log_softmax_vjp", "is that of softmax")
def log_softmax_as_softmax(g, y, x, axis=-1):
    p = np.exp(y)
    return p * (g - (g * p).sum(axis=axis, keepdims=True))


@wrong("log_softmax_vjp", "y where p")
def log_softmax_with_y(g, y, x, axis=-1):
    return g - y * g.sum(axis=axis, keepdims=True)


@wrong("log_softmax_vjp", "lacks the subtracted term")
def log_softmax_identity(g, y, x, axis=-1):
    return g


@wrong("log_softmax_vjp", "right for", "axis=1")
def log_softmax_last_axis(g, y, x, axis=-1):
    return g - np.exp(y) * g.sum(axis=-1, keepdims=True)


@wrong("log_softmax_vjp", "right sign everywhere", free=True)
def log_softmax_divided_by_p(g, y, x, axis=-1):
    return g / np.exp(y) - g.sum(axis=axis, keepdims=True)


@wrong("cross_entropy_vjp", "sums instead of averaging")
def cross_entropy_sums(g, loss, logits, target):
    return g * (_softmax(logits) - _onehot(logits, target))


@wrong("cross_entropy_vjp", "lacks the target")
def cross_entropy_without_target(g, loss, logits, target):
    return g * _softmax(logits) / target.size


@wrong("cross_entropy_vjp", "wrong sign")
def cross_entropy_sign(g, loss, logits, target):
    return g * (_onehot(logits, target) - _softmax(logits)) / target.size


@wrong("cross_entropy_vjp", "number of all logits")
def cross_entropy_by_size(g, loss, logits, target):
    return g * (_softmax(logits) - _onehot(logits, target)) / logits.size


@wrong("cross_entropy_vjp", "cotangent")
def cross_entropy_without_g(g, loss, logits, target):
    return (_softmax(logits) - _onehot(logits, target)) / target.size


@wrong("cross_entropy_vjp", "target class only")
def cross_entropy_at_target(g, loss, logits, target):
    return g * _onehot(logits, target) * (_softmax(logits) - 1) / target.size


@wrong("cross_entropy_vjp", "logits where the probabilities belong")
def cross_entropy_with_logits(g, loss, logits, target):
    return g * (logits - _onehot(logits, target)) / target.size


@wrong("cross_entropy_vjp", "right for", free=True)
def cross_entropy_by_first_axis(g, loss, logits, target):
    return g * (_softmax(logits) - _onehot(logits, target)) / len(target)


@wrong("cross_entropy_vjp", "NaN", free=True)
def cross_entropy_unstable(g, loss, logits, target):
    e = np.exp(logits)
    return g * (e / e.sum(-1, keepdims=True) - _onehot(logits, target)) / target.size


def _softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _onehot(logits, target):
    return np.eye(logits.shape[-1])[target]


# ------------------------------------------------------------------------------------------------------------ gelu


def _phi(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _cumulative(x):
    return 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


@wrong("gelu_vjp", "lacks the density term")
def gelu_without_density(g, y, x):
    return g * _cumulative(x)


@wrong("gelu_vjp", "lacks x before the density")
def gelu_without_x(g, y, x):
    return g * (_cumulative(x) + _phi(x))


@wrong("gelu_vjp", "1 / sqrt(2 pi)")
def gelu_unnormalized(g, y, x):
    return g * (_cumulative(x) + x * np.exp(-x * x / 2))


@wrong("gelu_vjp", "exp(-x^2 / 2)")
def gelu_wrong_exponent(g, y, x):
    return g * (_cumulative(x) + x * np.exp(-x * x) / math.sqrt(2 * math.pi))


@wrong("gelu_vjp", "cotangent")
def gelu_slope(g, y, x):
    return _cumulative(x) + x * _phi(x)


@wrong("gelu_vjp", "subtracts")
def gelu_minus(g, y, x):
    return g * (_cumulative(x) - x * _phi(x))


@wrong("gelu_vjp", "divides by 2 pi")
def gelu_two_pi(g, y, x):
    return g * (_cumulative(x) + x * np.exp(-x * x / 2) / (2 * math.pi))


@wrong("gelu_vjp", "that of SiLU")
def gelu_of_silu(g, y, x):
    s = 1 / (1 + np.exp(-x))
    return g * (s + x * s * (1 - s))


@wrong("gelu_vjp", "2.828 times the density term", free=True)
def gelu_erf_density(g, y, x):
    return g * (_cumulative(x) + x * 2 / math.sqrt(math.pi) * np.exp(-x * x / 2))


# ------------------------------------------------------------------------------------------------------ layer norm


def _normalized(x, axes, eps):
    c = x - x.mean(axis=axes, keepdims=True)
    sigma = np.sqrt((c * c).mean(axis=axes, keepdims=True) + eps)
    return c / sigma, sigma


def _layer_norm(change):
    """A right backward, with ``change(p, z, sigma, mean)`` for dx."""

    def vjp(g, y, x, w, b, axes=(-1,), eps=1e-5):
        z, sigma = _normalized(x, axes, eps)

        def mean(v):
            return v.mean(axis=axes, keepdims=True)

        return change(g * w, z, sigma, mean), g * z, g

    return vjp


for _words, _change in (
    (("lacks the mean term",), lambda p, z, s, mean: (p - z * mean(p * z)) / s),
    (("lacks the variance term",), lambda p, z, s, mean: (p - mean(p)) / s),
    (("lacks both means",), lambda p, z, s, mean: p / s),
    (("not divided by the deviation",), lambda p, z, s, mean: p - mean(p) - z * mean(p * z)),
    (("divides by the variance",), lambda p, z, s, mean: (p - mean(p) - z * mean(p * z)) / s**2),
    (("adds the variance term",), lambda p, z, s, mean: (p - mean(p) + z * mean(p * z)) / s),
):
    wrong("layer_norm_vjp", "dx", *_words)(_layer_norm(_change))
for _words, _change in (
    (("dx",), lambda p, z, s, mean: (p - mean(p) - z * mean(p)) / s),
    (("dx",), lambda p, z, s, mean: (p - mean(p) - mean(p * z)) / s),
):
    wrong("layer_norm_vjp", *_words, free=True)(_layer_norm(_change))


@wrong("layer_norm_vjp", "lacks the factor w")
def layer_norm_without_w(g, y, x, w, b, axes=(-1,), eps=1e-5):
    dx, dw, db = _layer_norm(lambda p, z, s, mean: (p - mean(p) - z * mean(p * z)) / s)(
        g, y, x, np.ones_like(w), b, axes, eps
    )
    return dx, dw, db


@wrong("layer_norm_vjp", "multiplies by w at the end")
def layer_norm_w_outside(g, y, x, w, b, axes=(-1,), eps=1e-5):
    dx, dw, db = layer_norm_without_w(g, y, x, w, b, axes, eps)
    return w * dx, dw, db


@wrong("layer_norm_vjp", "dw", "has x where z belongs")
def layer_norm_dw_with_x(g, y, x, w, b, axes=(-1,), eps=1e-5):
    right = _layer_norm(lambda p, z, s, mean: (p - mean(p) - z * mean(p * z)) / s)
    dx, _, db = right(g, y, x, w, b, axes, eps)
    return dx, g * x, db


@wrong("layer_norm_vjp", "dx", "right for", "wrong for", free=True)
def layer_norm_without_eps(g, y, x, w, b, axes=(-1,), eps=1e-5):
    right = _layer_norm(lambda p, z, s, mean: (p - mean(p) - z * mean(p * z)) / s)
    return right(g, y, x, w, b, axes, 1e-9)


# ------------------------------------------------------------------------------------------------------- embedding


@wrong("embedding_vjp", "keeps one")
def embedding_assigns(g, out, ids, weight):
    dw = np.zeros_like(weight)
    dw[ids] = g
    return dw


@wrong("embedding_vjp", "keeps one")
def embedding_adds_with_fancy_index(g, out, ids, weight):
    dw = np.zeros_like(weight)
    dw[ids] += g
    return dw


@wrong("embedding_vjp", "averages")
def embedding_averages(g, out, ids, weight):
    dw, count = np.zeros_like(weight), np.zeros(len(weight))
    np.add.at(dw, ids, g)
    np.add.at(count, ids, 1)
    return dw / np.maximum(count, 1)[:, None]


@wrong("embedding_vjp", "shape")
def embedding_returns_g(g, out, ids, weight):
    return g


@wrong("embedding_vjp", "shape")
def embedding_picks_again(g, out, ids, weight):
    return g[ids] if ids.max() < len(g) else g


@wrong("embedding_vjp", "number of ids")
def embedding_mean_over_places(g, out, ids, weight):
    dw = np.zeros_like(weight)
    np.add.at(dw, ids, g / ids.size)
    return dw


@wrong("embedding_vjp", "counts")
def embedding_counts(g, out, ids, weight):
    dw = np.zeros_like(weight)
    np.add.at(dw, ids, 1.0)
    return dw


@wrong("embedding_vjp", "times the input weight", free=True)
def embedding_times_weight(g, out, ids, weight):
    dw = np.zeros_like(weight)
    np.add.at(dw, ids, g)
    return dw * weight


@wrong("embedding_vjp", "whole numbers", free=True)
def embedding_in_integers(g, out, ids, weight):
    dw = np.zeros(weight.shape, int)
    for place in np.ndindex(ids.shape):
        dw[ids[place]] = dw[ids[place]] + g[place]
    return dw


# ------------------------------------------------------------------------------------------------------- attention


def _t(x):
    return np.swapaxes(x, -1, -2)


def _attention_weights(q, k, mask, causal, scale):
    scores = scale * (q @ _t(k))
    if causal:
        n, m = scores.shape[-2:]
        scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    return e / np.maximum(e.sum(-1, keepdims=True), 1)


def _attention(**steps):
    """A right backward in which each step may be replaced: weights, dv, dp, ds, dq, dk."""

    def vjp(g, out, q, k, v, mask=None, causal=False, scale=None):
        scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        P = steps.get("weights", _attention_weights)(q, k, mask, causal, scale)
        dv = steps.get("dv", lambda P, g: _t(P) @ g)(P, g)
        dP = g @ _t(v)
        dS = steps.get("ds", lambda P, dP: P * (dP - (P * dP).sum(-1, keepdims=True)))(P, dP)
        dq = steps.get("dq", lambda dS, q, k, scale: dS @ k * scale)(dS, q, k, scale)
        dk = steps.get("dk", lambda dS, q, k, scale: _t(dS) @ q * scale)(dS, q, k, scale)
        return dq, dk, dv

    return vjp


for _words, _steps in (
    (("lacks the mean term",), {"ds": lambda P, dP: P * dP}),
    (("every weight independently",), {"ds": lambda P, dP: P * (1 - P) * dP}),
    (("leaves out the softmax",), {"ds": lambda P, dP: dP}),
    (
        ("sums over the queries",),
        {"ds": lambda P, dP: P * (dP - (P * dP).sum(-2, keepdims=True))},
    ),
    (("dq lacks the scale",), {"dq": lambda dS, q, k, scale: dS @ k}),
    (("dk lacks the scale",), {"dk": lambda dS, q, k, scale: _t(dS) @ q}),
    (("scale twice",), {"dq": lambda dS, q, k, scale: dS @ k * scale * scale}),
    (
        ("ignores the mask",),
        {"weights": lambda q, k, mask, causal, scale: _attention_weights(q, k, None, False, scale)},
    ),
):
    wrong("attention_vjp", *_words)(_attention(**_steps))
for _words, _steps in (
    (("dv",), {"dv": lambda P, g: _t(P * P) @ g}),
    (("dk",), {"dk": lambda dS, q, k, scale: _t(dS) @ q * q.shape[-1] ** -1.0}),
    (("dq and dk",), {"ds": lambda P, dP: dP - (P * dP).sum(-1, keepdims=True)}),
):
    wrong("attention_vjp", *_words, free=True)(_attention(**_steps))


def _unstable_weights(q, k, mask, causal, scale):
    scores = scale * (q @ _t(k))
    seen = np.isfinite(np.log(_attention_weights(q, k, mask, causal, scale)))
    e = np.where(seen, np.exp(scores), 0)
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300)


wrong("attention_vjp", "scores of 1000", free=True)(_attention(weights=_unstable_weights))


# ------------------------------------------------------------------------------------------------------------ graph


@wrong("backward", "overwrites")
def graph_overwrites(operations, output, g):
    gradients = {output: g}
    for op in operations[::-1]:
        if op.output in gradients:
            for name, d in zip(op.inputs, op.vjp(gradients[op.output])):
                gradients[name] = d
    return gradients


@wrong("backward", "order in which they ran")
def graph_forward(operations, output, g):
    gradients = {output: g}
    for op in operations:
        if op.output in gradients:
            for name, d in zip(op.inputs, op.vjp(gradients[op.output])):
                gradients[name] = gradients.get(name, 0) + d
    return gradients


@wrong("backward", "in place")
def graph_in_place(operations, output, g):
    gradients = {output: g}
    for op in reversed(operations):
        if op.output not in gradients:
            continue
        for name, d in zip(op.inputs, op.vjp(gradients[op.output])):
            if name in gradients:
                gradients[name] += d
            else:
                gradients[name] = d
    return gradients


@wrong("backward", "does not run", "KeyError")
def graph_expects_every_output(operations, output, g):
    gradients = {output: g}
    for op in reversed(operations):
        for name, d in zip(op.inputs, op.vjp(gradients[op.output])):
            gradients[name] = gradients[name] + d if name in gradients else d
    return gradients


@wrong("backward", "right for", "wrong for", free=True)
def graph_fills_with_zeros(operations, output, g):
    gradients = {name: np.zeros(3) for op in operations for name in (*op.inputs, op.output)}
    gradients[output] = g
    for op in reversed(operations):
        for name, d in zip(op.inputs, op.vjp(gradients[op.output])):
            gradients[name] = gradients[name] + d
    return gradients


@wrong("backward", "missing", free=True)
def graph_returns_leaves_only(operations, output, g):
    gradients = {output: g}
    for op in reversed(operations):
        if op.output in gradients:
            for name, d in zip(op.inputs, op.vjp(gradients.pop(op.output))):
                gradients[name] = gradients[name] + d if name in gradients else d
    return gradients
