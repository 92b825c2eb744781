"""Answers of students who knew the texts of the exercises only, and none of the tables of mistakes.

``WRONG`` holds (function of the course, answer). Each docstring says what the student had in mind.
"""

import math

import numpy as np

WRONG = []


def student(name):
    def add(function):
        WRONG.append((name, function))
        return function

    return add


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def weights(q, k, mask, causal, scale):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * q @ np.swapaxes(k, -1, -2)
    if causal:
        scores = np.where(
            np.tri(*scores.shape[-2:], scores.shape[-1] - scores.shape[-2], dtype=bool),
            scores,
            -np.inf,
        )
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1), scale


def transpose(x):
    return np.swapaxes(x, -1, -2)


@student("pull_back")
def pull_back_from_the_first_function(g, jacobians):
    """Multiplies in the order of the forward pass, as far as the shapes allow."""
    for J in jacobians:
        g = g @ J if len(g) == J.shape[0] else np.resize(g, J.shape[0]) @ J
    return g


@student("pull_back")
def pull_back_with_the_transpose_twice(g, jacobians):
    """The cotangent times J^T, where the shapes allow it."""
    for J in reversed(jacobians):
        g = g @ J.T if J.shape[0] == J.shape[1] else g @ J
    return g


@student("pull_back")
def pull_back_without_the_cotangent(g, jacobians):
    """dL/dx as the product of the Jacobians, summed over the outputs: the cotangent is forgotten."""
    product = np.eye(len(g))
    for J in reversed(jacobians):
        product = product @ J
    return product.sum(axis=0)


@student("pull_back")
def pull_back_forgets_the_first(g, jacobians):
    """Stops one function early."""
    for J in jacobians[:0:-1]:
        g = g @ J
    return g


@student("jacobian")
def jacobian_transposed(vjp, outputs, inputs):
    """A column for each call."""
    return np.stack([vjp(row) for row in np.eye(outputs)], axis=1)


@student("jacobian")
def jacobian_from_one_call(vjp, outputs, inputs):
    """One call with ones, copied to all rows."""
    return np.tile(vjp(np.ones(outputs)), (outputs, 1))


@student("jacobian")
def jacobian_fills_the_diagonal(vjp, outputs, inputs):
    """Keeps of each call the element that belongs to it."""
    J = np.zeros((outputs, inputs))
    for i in range(min(outputs, inputs)):
        J[i, i] = vjp(np.eye(outputs)[i])[i]
    return J


@student("add_vjp")
def add_gives_g_to_both(g, out, x, y):
    """The derivative of a sum is 1."""
    return g, g


@student("add_vjp")
def add_sums_the_first_axis_only(g, out, x, y):
    """A bias sums over the batch, which is the first axis."""

    def fit(shape):
        r = g
        while r.ndim > len(shape):
            r = r.sum(axis=0)
        return r

    return fit(x.shape), fit(y.shape)


@student("add_vjp")
def add_takes_the_mean(g, out, x, y):
    """The average over the copies."""

    def fit(shape):
        padded = (1,) * (g.ndim - len(shape)) + tuple(shape)
        axes = tuple(i for i, (n, m) in enumerate(zip(padded, g.shape)) if n == 1 and m != 1)
        return g.mean(axis=axes, keepdims=True).reshape(shape)

    return fit(x.shape), fit(y.shape)


@student("add_vjp")
def add_takes_the_first_copy(g, out, x, y):
    """Cuts g to the shape of the input instead of summing."""

    def fit(shape):
        r = g
        while r.ndim > len(shape):
            r = r[0]
        for axis, n in enumerate(shape):
            if n == 1:
                r = np.take(r, [0], axis=axis)
        return r

    return fit(x.shape), fit(y.shape)


@student("add_vjp")
def add_multiplies_as_if_it_were_a_product(g, out, x, y):
    """The product rule."""

    def fit(r, shape):
        padded = (1,) * (r.ndim - len(shape)) + tuple(shape)
        axes = tuple(i for i, (n, m) in enumerate(zip(padded, r.shape)) if n == 1 and m != 1)
        return r.sum(axis=axes, keepdims=True).reshape(shape)

    return fit(g * y, x.shape), fit(g * x, y.shape)


@student("add_vjp")
def add_subtracts(g, out, x, y):
    """A sign for y."""

    def fit(shape):
        padded = (1,) * (g.ndim - len(shape)) + tuple(shape)
        axes = tuple(i for i, (n, m) in enumerate(zip(padded, g.shape)) if n == 1 and m != 1)
        return g.sum(axis=axes, keepdims=True).reshape(shape)

    return fit(x.shape), -fit(y.shape)


@student("add_vjp")
def add_sums_everything_for_y(g, out, x, y):
    """y is a bias: its gradient is the sum of g."""

    def fit(shape):
        padded = (1,) * (g.ndim - len(shape)) + tuple(shape)
        axes = tuple(i for i, (n, m) in enumerate(zip(padded, g.shape)) if n == 1 and m != 1)
        return g.sum(axis=axes, keepdims=True).reshape(shape)

    return fit(x.shape), np.full(y.shape, g.sum())


@student("matmul_vjp")
def matmul_swaps_the_results(g, out, a, b):
    """The two are returned in the wrong order."""
    return transpose(a) @ g, g @ transpose(b)


@student("matmul_vjp")
def matmul_without_transposes(g, out, a, b):
    """The product rule for numbers, shapes permitting."""
    return g @ b, a @ g


@student("matmul_vjp")
def matmul_transposes_all_axes(g, out, a, b):
    """`.T` reverses the batch axes too."""
    return g @ b.T, a.T @ g


@student("matmul_vjp")
def matmul_ignores_g(g, out, a, b):
    """The derivative without the cotangent."""
    one = np.ones_like(g)
    return one @ transpose(b), transpose(a) @ one


@student("matmul_vjp")
def matmul_uses_the_output(g, out, a, b):
    """Takes out where g belongs, for b."""
    return g @ transpose(b), transpose(a) @ out


@student("matmul_vjp")
def matmul_averages_over_rows(g, out, a, b):
    """Mean over the rows for the weights."""
    return g @ transpose(b), transpose(a) @ g / a.shape[-2]


@student("matmul_vjp")
def matmul_db_transposed_back(g, out, a, b):
    """(a^T g) as (g a^T) reshaped."""
    return g @ transpose(b), (transpose(g) @ a).reshape(a.shape[:-2] + (a.shape[-1], g.shape[-1]))


@student("sum_vjp")
def sum_broadcasts_without_the_axis(g, out, x, axis=None, keepdims=False):
    """Leaves it to broadcasting."""
    return np.broadcast_to(g, x.shape)


@student("sum_vjp")
def sum_times_x(g, out, x, axis=None, keepdims=False):
    """Multiplies by the input."""
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return g * x


@student("sum_vjp")
def sum_divides(g, out, x, axis=None, keepdims=False):
    """Shares the cotangent among the elements."""
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g * np.size(g) / x.size, x.shape)


@student("sum_vjp")
def sum_expands_at_the_end(g, out, x, axis=None, keepdims=False):
    """A last axis for any sum."""
    if axis is not None and not keepdims:
        for _ in range(x.ndim - g.ndim):
            g = g[..., None]
    return np.broadcast_to(g, x.shape)


@student("sum_vjp")
def sum_ones(g, out, x, axis=None, keepdims=False):
    """The derivative of a sum is one."""
    return np.ones_like(x)


@student("sum_vjp")
def sum_for_positive_axes(g, out, x, axis=None, keepdims=False):
    """Rebuilds the shape for positive axes only."""
    if axis is None:
        return np.full(x.shape, g.reshape(()) if np.size(g) == 1 else g)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    return np.broadcast_to(g.reshape(shape), x.shape)


@student("mean_vjp")
def mean_forgets_the_division(g, out, x, axis=None, keepdims=False):
    """As the sum."""
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g, x.shape)


@student("mean_vjp")
def mean_divides_by_all(g, out, x, axis=None, keepdims=False):
    """Divides by the size of x whatever the axis."""
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g / x.size, x.shape)


@student("mean_vjp")
def mean_divides_by_the_results(g, out, x, axis=None, keepdims=False):
    """Divides by the number of results."""
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g / np.size(out), x.shape)


@student("mean_vjp")
def mean_multiplies(g, out, x, axis=None, keepdims=False):
    """Multiplies by the number instead of dividing."""
    n = x.size // np.size(out)
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g * n, x.shape)


@student("mean_vjp")
def mean_divides_by_the_last_axis(g, out, x, axis=None, keepdims=False):
    """The length of the last axis, always."""
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g / x.shape[-1], x.shape)


@student("mean_vjp")
def mean_subtracts_the_mean(g, out, x, axis=None, keepdims=False):
    """Confuses the mean with centring."""
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
        out = np.expand_dims(out, axis)
    n = x.size // np.size(out)
    return g * (x - out) / n


@student("sigmoid_vjp")
def sigmoid_of_y(g, y, x):
    """Applies the sigmoid once more."""
    s = 1 / (1 + np.exp(-y))
    return g * s * (1 - s)


@student("sigmoid_vjp")
def sigmoid_with_x(g, y, x):
    """y (1 - y) with x in place of y."""
    return g * x * (1 - x)


@student("sigmoid_vjp")
def sigmoid_as_tanh(g, y, x):
    """The derivative of tanh."""
    return g * (1 - y * y)


@student("sigmoid_vjp")
def sigmoid_without_g(g, y, x):
    """The slope, without the cotangent."""
    return y * (1 - y)


@student("sigmoid_vjp")
def sigmoid_half(g, y, x):
    """Only one factor."""
    return g * y


@student("sigmoid_vjp")
def sigmoid_sign(g, y, x):
    """The inner derivative of exp(-x) has its sign left in."""
    return -g * y * (1 - y)


@student("sigmoid_vjp")
def sigmoid_quotient_rule_slips(g, y, x):
    """exp(-x) / (1 + exp(-x)): the square is forgotten."""
    e = np.exp(-x)
    return g * e / (1 + e)


@student("softmax_vjp")
def softmax_diagonal(g, y, x, axis=-1):
    """The derivative of each element by itself."""
    return g * y * (1 - y)


@student("softmax_vjp")
def softmax_sums_g(g, y, x, axis=-1):
    """Subtracts the sum of g without y."""
    return y * (g - g.sum(axis=axis, keepdims=True))


@student("softmax_vjp")
def softmax_mean_of_g(g, y, x, axis=-1):
    """Subtracts the plain mean of g."""
    return y * (g - g.mean(axis=axis, keepdims=True))


@student("softmax_vjp")
def softmax_last_axis(g, y, x, axis=-1):
    """The last axis, whatever axis is."""
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


@student("softmax_vjp")
def softmax_sums_all(g, y, x, axis=-1):
    """One sum over everything."""
    return y * (g - (g * y).sum())


@student("softmax_vjp")
def softmax_forgets_y_outside(g, y, x, axis=-1):
    """The factor y_j is lost."""
    return g - (g * y).sum(axis=axis, keepdims=True)


@student("softmax_vjp")
def softmax_off_diagonal(g, y, x, axis=-1):
    """Only the entries off the diagonal."""
    return -y * (g * y).sum(axis=axis, keepdims=True)


@student("softmax_vjp")
def softmax_uses_x(g, y, x, axis=-1):
    """x where y belongs, in the sum."""
    return y * (g - (g * x).sum(axis=axis, keepdims=True))


@student("softmax_vjp")
def softmax_adds(g, y, x, axis=-1):
    """The sign of the sum."""
    return y * (g + (g * y).sum(axis=axis, keepdims=True))


@student("log_softmax_vjp")
def log_softmax_as_softmax(g, y, x, axis=-1):
    """The rule of softmax, with exp(y)."""
    p = np.exp(y)
    return p * (g - (g * p).sum(axis=axis, keepdims=True))


@student("log_softmax_vjp")
def log_softmax_without_the_sum(g, y, x, axis=-1):
    """g minus p."""
    return g - np.exp(y)


@student("log_softmax_vjp")
def log_softmax_with_y(g, y, x, axis=-1):
    """y where the probabilities belong."""
    return g - y * g.sum(axis=axis, keepdims=True)


@student("log_softmax_vjp")
def log_softmax_sum_of_products(g, y, x, axis=-1):
    """p * g is summed, not g."""
    p = np.exp(y)
    return g - (g * p).sum(axis=axis, keepdims=True)


@student("log_softmax_vjp")
def log_softmax_last_axis(g, y, x, axis=-1):
    """The last axis, whatever axis is."""
    return g - np.exp(y) * g.sum(axis=-1, keepdims=True)


@student("log_softmax_vjp")
def log_softmax_each_alone(g, y, x, axis=-1):
    """1 - p on the diagonal, nothing off it."""
    return g * (1 - np.exp(y))


@student("cross_entropy_vjp")
def cross_entropy_without_the_mean(g, loss, logits, target):
    """p - onehot, for each row."""
    p = softmax(logits)
    onehot = np.eye(logits.shape[-1])[target]
    return g * (p - onehot)


@student("cross_entropy_vjp")
def cross_entropy_divides_by_classes(g, loss, logits, target):
    """The mean over all logits."""
    p = softmax(logits)
    onehot = np.eye(logits.shape[-1])[target]
    return g * (p - onehot) / logits.size


@student("cross_entropy_vjp")
def cross_entropy_sign(g, loss, logits, target):
    """onehot - p."""
    p = softmax(logits)
    onehot = np.eye(logits.shape[-1])[target]
    return g * (onehot - p) / target.size


@student("cross_entropy_vjp")
def cross_entropy_first_axis(g, loss, logits, target):
    """Divides by the length of the first axis."""
    p = softmax(logits)
    onehot = np.eye(logits.shape[-1])[target]
    return g * (p - onehot) / (len(target) if target.ndim else 1)


@student("cross_entropy_vjp")
def cross_entropy_forgets_the_target(g, loss, logits, target):
    """The probabilities only."""
    return g * softmax(logits) / target.size


@student("cross_entropy_vjp")
def cross_entropy_without_g(g, loss, logits, target):
    """The cotangent of the loss is 1, is it not?"""
    onehot = np.eye(logits.shape[-1])[target]
    return (softmax(logits) - onehot) / target.size


@student("cross_entropy_vjp")
def cross_entropy_only_the_target(g, loss, logits, target):
    """The gradient of picking, and no more."""
    onehot = np.eye(logits.shape[-1])[target]
    return -g * onehot / target.size


@student("cross_entropy_vjp")
def cross_entropy_of_logits(g, loss, logits, target):
    """logits - onehot."""
    onehot = np.eye(logits.shape[-1])[target]
    return g * (logits - onehot) / target.size


def phi(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def cumulative(x):
    return 0.5 * (1 + erf(x / math.sqrt(2)))


@student("gelu_vjp")
def gelu_first_term(g, y, x):
    """x held constant in the product rule."""
    return g * cumulative(x)


@student("gelu_vjp")
def gelu_second_term(g, y, x):
    """Phi held constant in the product rule."""
    return g * x * phi(x)


@student("gelu_vjp")
def gelu_density_without_x(g, y, x):
    """Phi + phi."""
    return g * (cumulative(x) + phi(x))


@student("gelu_vjp")
def gelu_density_without_the_half(g, y, x):
    """exp(-x^2) in the density."""
    return g * (cumulative(x) + x * np.exp(-x * x) / math.sqrt(2 * math.pi))


@student("gelu_vjp")
def gelu_density_unnormalized(g, y, x):
    """The factor 1 / sqrt(2 pi) is lost."""
    return g * (cumulative(x) + x * np.exp(-x * x / 2))


@student("gelu_vjp")
def gelu_density_of_erf(g, y, x):
    """The derivative of erf, 2 / sqrt(pi) exp(-x^2), without the inner derivative."""
    return g * (cumulative(x) + x * 0.5 * 2 / math.sqrt(math.pi) * np.exp(-x * x / 2))


@student("gelu_vjp")
def gelu_as_relu(g, y, x):
    """It is nearly a ReLU."""
    return g * (x > 0)


@student("gelu_vjp")
def gelu_minus(g, y, x):
    """The sign of the second term."""
    return g * (cumulative(x) - x * phi(x))


@student("gelu_vjp")
def gelu_as_silu(g, y, x):
    """The slope of the swish."""
    s = 1 / (1 + np.exp(-x))
    return g * (s + x * s * (1 - s))


def normalized(x, axes, eps):
    c = x - x.mean(axis=axes, keepdims=True)
    sigma = np.sqrt((c * c).mean(axis=axes, keepdims=True) + eps)
    return c / sigma, sigma


def mean(x, axes):
    return x.mean(axis=axes, keepdims=True)


@student("layer_norm_vjp")
def layer_norm_constant_statistics(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """mu and sigma as constants."""
    z, sigma = normalized(x, axes, eps)
    return g * w / sigma, g * z, g


@student("layer_norm_vjp")
def layer_norm_without_the_mean(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """The term through mu is lost."""
    z, sigma = normalized(x, axes, eps)
    h = g * w
    return (h - z * mean(h * z, axes)) / sigma, g * z, g


@student("layer_norm_vjp")
def layer_norm_without_the_variance(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """The term through sigma is lost."""
    z, sigma = normalized(x, axes, eps)
    h = g * w
    return (h - mean(h, axes)) / sigma, g * z, g


@student("layer_norm_vjp")
def layer_norm_forgets_w(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """g for the cotangent of z."""
    z, sigma = normalized(x, axes, eps)
    return (g - mean(g, axes) - z * mean(g * z, axes)) / sigma, g * z, g


@student("layer_norm_vjp")
def layer_norm_divides_by_the_variance(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """sigma squared."""
    z, sigma = normalized(x, axes, eps)
    h = g * w
    return (h - mean(h, axes) - z * mean(h * z, axes)) / sigma**2, g * z, g


@student("layer_norm_vjp")
def layer_norm_sums(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """Sums where means belong."""
    z, sigma = normalized(x, axes, eps)
    h = g * w
    total = h.sum(axis=axes, keepdims=True), (h * z).sum(axis=axes, keepdims=True)
    return (h - total[0] - z * total[1]) / sigma, g * z, g


@student("layer_norm_vjp")
def layer_norm_uses_x(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """x in place of z, for the weight."""
    z, sigma = normalized(x, axes, eps)
    h = g * w
    return (h - mean(h, axes) - z * mean(h * z, axes)) / sigma, g * x, g


@student("layer_norm_vjp")
def layer_norm_uses_y(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """y in place of z."""
    z, sigma = normalized(x, axes, eps)
    h = g * w
    return (h - mean(h, axes) - y * mean(h * y, axes)) / sigma, g * z, g


@student("layer_norm_vjp")
def layer_norm_unbiased(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """n - 1, as in statistics."""
    z, sigma = normalized(x, axes, eps)
    h = g * w
    n = math.prod(x.shape[axis] for axis in axes)
    return (
        (h - mean(h, axes) - z * (h * z).sum(axis=axes, keepdims=True) / max(n - 1, 1)) / sigma,
        g * z,
        g,
    )


@student("layer_norm_vjp")
def layer_norm_last_axis(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """The last axis, whatever the axes are."""
    z, sigma = normalized(x, axes, eps)
    h = g * w
    return (h - mean(h, -1) - z * mean(h * z, -1)) / sigma, g * z, g


@student("embedding_vjp")
def embedding_assigns(g, out, ids, weight):
    """The last occurrence wins."""
    d = np.zeros_like(weight)
    d[ids] = g
    return d


@student("embedding_vjp")
def embedding_adds_in_place(g, out, ids, weight):
    """`+=` with an array of indices adds once."""
    d = np.zeros_like(weight)
    d[ids] += g
    return d


@student("embedding_vjp")
def embedding_gathers(g, out, ids, weight):
    """Gathers from g as the forward pass did from the weight."""
    return g[ids] if g.ndim else g


@student("embedding_vjp")
def embedding_averages(g, out, ids, weight):
    """The mean over the occurrences."""
    d = np.zeros_like(weight)
    np.add.at(d, ids, g)
    count = np.bincount(ids.ravel(), minlength=len(weight))
    return d / np.maximum(count, 1)[:, None]


@student("embedding_vjp")
def embedding_counts(g, out, ids, weight):
    """How often each token occurs."""
    d = np.zeros_like(weight)
    np.add.at(d, ids, 1.0)
    return d


@student("embedding_vjp")
def embedding_starts_from_the_weight(g, out, ids, weight):
    """Adds to the weight itself."""
    d = weight.copy()
    np.add.at(d, ids, g)
    return d


@student("embedding_vjp")
def embedding_first_occurrence(g, out, ids, weight):
    """The first occurrence only."""
    d = np.zeros_like(weight)
    rows, first = np.unique(ids.ravel(), return_index=True)
    d[rows] = g.reshape(-1, weight.shape[-1])[first]
    return d


@student("embedding_vjp")
def embedding_skips_id_0(g, out, ids, weight):
    """0 is padding, by habit."""
    d = np.zeros_like(weight)
    np.add.at(d, ids, g)
    d[0] = 0
    return d


def attention_parts(g, q, k, v, mask, causal, scale):
    p, scale = weights(q, k, mask, causal, scale)
    dp = g @ transpose(v)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True))
    return p, dp, ds, scale


@student("attention_vjp")
def attention_without_scale(g, out, q, k, v, mask=None, causal=False, scale=None):
    """The scale is lost on the way back."""
    p, _, ds, scale = attention_parts(g, q, k, v, mask, causal, scale)
    return ds @ k, transpose(ds) @ q, transpose(p) @ g


@student("attention_vjp")
def attention_without_causal(g, out, q, k, v, mask=None, causal=False, scale=None):
    """Forgets to hand `causal` on."""
    p, _, ds, scale = attention_parts(g, q, k, v, mask, False, scale)
    return scale * ds @ k, scale * transpose(ds) @ q, transpose(p) @ g


@student("attention_vjp")
def attention_without_mask(g, out, q, k, v, mask=None, causal=False, scale=None):
    """Forgets to hand `mask` on."""
    p, _, ds, scale = attention_parts(g, q, k, v, None, causal, scale)
    return scale * ds @ k, scale * transpose(ds) @ q, transpose(p) @ g


@student("attention_vjp")
def attention_softmax_diagonal(g, out, q, k, v, mask=None, causal=False, scale=None):
    """The softmax without its sum."""
    p, dp, _, scale = attention_parts(g, q, k, v, mask, causal, scale)
    ds = p * dp
    return scale * ds @ k, scale * transpose(ds) @ q, transpose(p) @ g


@student("attention_vjp")
def attention_v_without_transpose(g, out, q, k, v, mask=None, causal=False, scale=None):
    """P g where P^T g belongs, if the shapes allow it."""
    p, _, ds, scale = attention_parts(g, q, k, v, mask, causal, scale)
    dv = p @ g if p.shape[-1] == p.shape[-2] else transpose(p) @ g
    return scale * ds @ k, scale * transpose(ds) @ q, dv


@student("attention_vjp")
def attention_swaps_q_and_k(g, out, q, k, v, mask=None, causal=False, scale=None):
    """dq and dk are exchanged."""
    p, _, ds, scale = attention_parts(g, q, k, v, mask, causal, scale)
    return transpose(ds) @ q * scale, ds @ k * scale, transpose(p) @ g


@student("attention_vjp")
def attention_softmax_over_queries(g, out, q, k, v, mask=None, causal=False, scale=None):
    """The sum of the softmax along the wrong axis."""
    p, dp, _, scale = attention_parts(g, q, k, v, mask, causal, scale)
    ds = p * (dp - (dp * p).sum(axis=-2, keepdims=True))
    return scale * ds @ k, scale * transpose(ds) @ q, transpose(p) @ g


@student("attention_vjp")
def attention_scales_twice(g, out, q, k, v, mask=None, causal=False, scale=None):
    """The scale, of the scores and of the gradient."""
    p, _, ds, scale = attention_parts(g, q, k, v, mask, causal, scale)
    return scale * scale * ds @ k, scale * scale * transpose(ds) @ q, transpose(p) @ g


@student("attention_vjp")
def attention_ignores_the_given_scale(g, out, q, k, v, mask=None, causal=False, scale=None):
    """1 / sqrt(d), whatever is given."""
    p, _, ds, _ = attention_parts(g, q, k, v, mask, causal, scale)
    scale = 1 / math.sqrt(q.shape[-1])
    return scale * ds @ k, scale * transpose(ds) @ q, transpose(p) @ g


@student("attention_vjp")
def attention_dk_from_k(g, out, q, k, v, mask=None, causal=False, scale=None):
    """k where q belongs, if the shapes allow it."""
    p, _, ds, scale = attention_parts(g, q, k, v, mask, causal, scale)
    dk = transpose(ds) @ k if q.shape == k.shape else transpose(ds) @ q
    return scale * ds @ k, scale * dk, transpose(p) @ g


@student("backward")
def graph_in_recorded_order(operations, output, g):
    """From the first operation to the last."""
    grads = {output: g}
    for op in operations:
        if op.output in grads:
            for name, d in zip(op.inputs, op.vjp(grads[op.output])):
                grads[name] = grads.get(name, 0) + d
    return grads


@student("backward")
def graph_overwrites(operations, output, g):
    """The last use wins."""
    grads = {output: g}
    for op in reversed(operations):
        if op.output in grads:
            grads.update(zip(op.inputs, op.vjp(grads[op.output])))
    return grads


@student("backward")
def graph_adds_in_place(operations, output, g):
    """`+=` into an array that others hold."""
    grads = {output: g}
    for op in reversed(operations):
        if op.output in grads:
            for name, d in zip(op.inputs, op.vjp(grads[op.output])):
                if name in grads:
                    grads[name] += d
                else:
                    grads[name] = d
    return grads


@student("backward")
def graph_depth_first(operations, output, g):
    """Recursion from the output, passing on the total each time."""
    made = {op.output: op for op in operations}
    grads = {}

    def visit(name, d):
        grads[name] = grads[name] + d if name in grads else d
        if name in made:
            op = made[name]
            for other, e in zip(op.inputs, op.vjp(grads[name])):
                visit(other, e)

    visit(output, g)
    return grads


@student("backward")
def graph_starts_with_ones(operations, output, g):
    """The loss has gradient one."""
    grads = {output: np.ones_like(g)}
    for op in reversed(operations):
        if op.output in grads:
            for name, d in zip(op.inputs, op.vjp(grads[op.output])):
                grads[name] = grads[name] + d if name in grads else d
    return grads


@student("backward")
def graph_drops_what_was_made(operations, output, g):
    """Returns the gradients of inputs only."""
    grads = {output: g}
    for op in reversed(operations):
        if op.output in grads:
            for name, d in zip(op.inputs, op.vjp(grads.pop(op.output))):
                grads[name] = grads[name] + d if name in grads else d
    return grads


@student("backward")
def graph_has_zeros_for_all(operations, output, g):
    """A zero for each name, so that adding is easy."""
    names = {name for op in operations for name in (*op.inputs, op.output)}
    grads = {name: np.zeros_like(g) for name in names}
    grads[output] = g
    for op in reversed(operations):
        for name, d in zip(op.inputs, op.vjp(grads[op.output])):
            grads[name] = grads[name] + d
    return grads
