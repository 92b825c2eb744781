"""Right answers in other forms than ours: (function of the course, answer)."""

import math

import numpy as np

RIGHT = []


def right(name):
    def add(function):
        RIGHT.append((name, function))
        return function

    return add


@right("pull_back")
def pull_back_by_tables(g, jacobians):
    product = np.eye(len(g))
    for J in jacobians[::-1]:
        product = np.einsum("ij,jk->ik", product, J)
    return np.einsum("i,ij->j", g, product)


@right("jacobian")
def jacobian_by_loops(vjp, outputs, inputs):
    J = np.empty((outputs, inputs))
    for i in range(outputs):
        g = np.zeros(outputs)
        g[i] = 1
        J[i, :] = vjp(g)
    return J


@right("add_vjp")
def add_by_axes(g, out, x, y):
    def fit(shape):
        padded = (1,) * (g.ndim - len(shape)) + tuple(shape)
        axes = tuple(i for i, n in enumerate(padded) if n == 1)
        return g.sum(axis=axes, keepdims=True).reshape(shape)

    return [fit(x.shape), fit(y.shape)]


@right("matmul_vjp")
def matmul_by_einsum(g, out, a, b):
    da = np.einsum("...ij,...lj->...il", g, b)
    db = np.einsum("...il,...ij->...lj", a, g)
    return da, db


@right("matmul_vjp")
def matmul_in_float32(g, out, a, b):
    g, a, b = (x.astype(np.float32) for x in (g, a, b))
    return g @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ g


@right("sum_vjp")
def sum_by_adding_zeros(g, out, x, axis=None, keepdims=False):
    shape = np.sum(x, axis=axis, keepdims=True).shape
    return g.reshape(shape) + 0 * x


@right("mean_vjp")
def mean_by_counting(g, out, x, axis=None, keepdims=False):
    n = x.size / out.size
    return np.reshape(g, x.sum(axis=axis, keepdims=True).shape) * np.ones(x.shape) / n


@right("sigmoid_vjp")
def sigmoid_in_place(g, y, x):
    g *= y
    g *= 1 - y
    return g


@right("sigmoid_vjp")
def sigmoid_by_x(g, y, x):
    e = np.exp(-abs(x))
    return g * e / (1 + e) ** 2


@right("softmax_vjp")
def softmax_by_jacobian(g, y, x, axis=-1):
    y, g = np.moveaxis(y, axis, -1), np.moveaxis(g, axis, -1)
    J = y[..., :, None] * np.eye(y.shape[-1]) - y[..., :, None] * y[..., None, :]
    return np.moveaxis(np.einsum("...i,...ij->...j", g, J), -1, axis)


@right("softmax_vjp")
def softmax_by_loops(g, y, x, axis=-1):
    dx = np.zeros_like(x)
    y, g, moved = (np.moveaxis(a, axis, -1) for a in (y, g, dx))
    for row in np.ndindex(y.shape[:-1]):
        for j in range(y.shape[-1]):
            for i in range(y.shape[-1]):
                moved[row][j] += g[row][i] * y[row][i] * ((i == j) - y[row][j])
    return dx


@right("softmax_vjp")
def softmax_in_float32(g, y, x, axis=-1):
    g, y = g.astype("float32"), y.astype("float32")
    return y * (g - (g * y).sum(axis, keepdims=True))


@right("softmax_vjp")
def softmax_in_place(g, y, x, axis=-1):
    g -= (g * y).sum(axis=axis, keepdims=True)
    g *= y
    return (g,)


@right("log_softmax_vjp")
def log_softmax_by_softmax(g, y, x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return g - e / e.sum(axis=axis, keepdims=True) * g.sum(axis=axis, keepdims=True)


@right("cross_entropy_vjp")
def cross_entropy_by_index(g, loss, logits, target):
    z = logits.reshape(-1, logits.shape[-1])
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(p)), target.ravel()] -= 1
    return float(g) / len(p) * p.reshape(logits.shape)


@right("cross_entropy_vjp")
def cross_entropy_with_both(g, loss, logits, target):
    return cross_entropy_by_index(g, loss, logits, target), None


@right("gelu_vjp")
def gelu_by_quotient(g, y, x):
    cumulative = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.ravel()]).reshape(x.shape)
    return g * (cumulative + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))


@right("layer_norm_vjp")
def layer_norm_by_chain(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """Step by step through mean, variance and root, as it is often taught."""
    n = math.prod(x.shape[a] for a in axes)
    mu = x.mean(axis=axes, keepdims=True)
    c = x - mu
    inverse = 1 / np.sqrt((c**2).mean(axis=axes, keepdims=True) + eps)
    dz = g * w
    dvariance = (dz * c * -0.5 * inverse**3).sum(axis=axes, keepdims=True)
    dmu = -(dz * inverse).sum(axis=axes, keepdims=True) - 2 * dvariance * c.mean(
        axis=axes, keepdims=True
    )
    rows = tuple(range(x.ndim - w.ndim))
    return (
        dz * inverse + dvariance * 2 * c / n + dmu / n,
        (g * c * inverse).sum(axis=rows),
        g.sum(axis=rows),
    )


@right("embedding_vjp")
def embedding_by_onehot(g, out, ids, weight):
    onehot = np.eye(len(weight))[ids.ravel()]
    return onehot.T @ g.reshape(ids.size, -1)


@right("embedding_vjp")
def embedding_by_loops(g, out, ids, weight):
    dw = np.zeros_like(weight)
    for place in np.ndindex(ids.shape):
        dw[ids[place]] += g[place]
    return None, dw


@right("attention_vjp")
def attention_by_einsum(g, out, q, k, v, mask=None, causal=False, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = np.einsum("...qd,...kd->...qk", q, k) * scale
    seen = np.ones(scores.shape, bool)
    if causal:
        n, m = scores.shape[-2:]
        seen &= np.arange(m) <= np.arange(n)[:, None] + m - n
    if mask is not None:
        seen &= mask
    e = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    P = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
    dP = np.einsum("...qd,...kd->...qk", g, v)
    # sum over keys of P dP is g . out, as FlashAttention has it
    dS = scale * P * (dP - np.einsum("...qd,...qd->...q", g, out)[..., None])
    return dS @ k, np.einsum("...qk,...qd->...kd", dS, q), np.einsum("...qk,...qd->...kd", P, g)


@right("backward")
def graph_by_recursion(operations, output, g):
    """Each name asks those that used it: a value's cotangent is complete when it is computed."""
    made = {op.output: op for op in operations}
    reached, stack = set(), [output]
    while stack:
        name = stack.pop()
        if name not in reached:
            reached.add(name)
            stack += made[name].inputs if name in made else ()
    gradients = {output: g}

    def of(name):
        if name not in gradients:
            total = np.zeros_like(g)
            for op in operations:
                if op.output in reached and name in op.inputs:
                    for one, d in zip(op.inputs, op.vjp(of(op.output))):
                        if one == name:
                            total += d
            gradients[name] = total
        return gradients[name]

    for name in reached:
        of(name)
    return gradients


@right("backward")
def graph_with_lists(operations, output, g):
    arrived = {output: [g]}
    for op in reversed(operations):
        if op.output in arrived:
            for name, d in zip(op.inputs, op.vjp(sum(arrived[op.output]))):
                arrived.setdefault(name, []).append(d)
    return {name: sum(parts) for name, parts in arrived.items()}
