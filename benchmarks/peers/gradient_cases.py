"""Fifty functions with right gradients and fifty with planted mistakes, in NumPy, at mixed scales.

Each of ten functions f is checked as t f(x / s): s is the scale of its inputs, and t that of its outputs.
"""

from dataclasses import dataclass

import numpy as np

SCALES = ((1.0, 1.0), (1e-6, 1.0), (1e6, 1.0), (1.0, 1e-8), (1.0, 1e8))
MISTAKES = (
    "lacks a term or factor",
    "two elements exchanged",
    "one element off by 1e-3",
    "all off by 1e-4",
    "one element off by 1e-5",
)


@dataclass(frozen=True)
class Case:
    """A function, its backward pass, and the point; ``mistake`` is None for a right gradient."""

    name: str
    forward: object
    backward: object
    arrays: list
    mistake: str | None = None


def right_cases(seed=0):
    """Each function at each scale."""
    return [_case(position, scale, None, seed) for position in range(10) for scale in SCALES]


def wrong_cases(seed=0):
    """Each function with each mistake; every mistake meets every scale twice."""
    return [
        _case(position, SCALES[(position + kind) % 5], MISTAKES[kind], seed)
        for position in range(10)
        for kind in range(5)
    ]


def _case(position, scale, mistake, seed):
    name, forward, backward, broken, shapes = _FUNCTIONS[position]
    s, t = scale
    random = np.random.default_rng([seed, position])
    arrays = [s * (0.2 + np.abs(random.standard_normal(shape))) for shape in shapes]
    gradient = broken if mistake == MISTAKES[0] else backward

    def scaled(*arrays):
        return t * forward(*[array / s for array in arrays])

    def scaled_backward(g, *arrays):
        gradients = gradient(g, *[array / s for array in arrays])
        gradients = [(t / s) * np.array(one) for one in gradients]
        _spoil(gradients[0].reshape(-1), mistake)
        return tuple(gradients)

    return Case(
        f"{name}, inputs {s:.0e}, outputs {t:.0e}", scaled, scaled_backward, arrays, mistake
    )


def _spoil(flat, mistake):
    """Plant a mistake in a gradient; one element is that of the median size."""
    order = np.argsort(np.abs(flat))
    middle, largest = order[len(order) // 2], order[-1]
    if mistake == MISTAKES[1]:
        flat[[middle, largest]] = flat[[largest, middle]]
    elif mistake == MISTAKES[2]:
        flat[middle] *= 1 + 1e-3
    elif mistake == MISTAKES[3]:
        flat *= 1 + 1e-4
    elif mistake == MISTAKES[4]:
        flat[middle] *= 1 + 1e-5


# ----------------------------------------------------------------------------------------------------- the functions


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _softmax_backward(g, x):
    y = softmax(x)
    return (y * (g - np.sum(g * y, axis=-1, keepdims=True)),)


def layer_norm(x):
    z = x - x.mean(axis=-1, keepdims=True)
    return z / np.sqrt(np.mean(z * z, axis=-1, keepdims=True) + 1e-5)


def _layer_norm_backward(g, x, with_variance=True):
    z = x - x.mean(axis=-1, keepdims=True)
    sigma = np.sqrt(np.mean(z * z, axis=-1, keepdims=True) + 1e-5)
    y = z / sigma
    dx = g - g.mean(axis=-1, keepdims=True)
    if with_variance:
        dx = dx - y * np.mean(g * y, axis=-1, keepdims=True)
    return (dx / sigma,)


def attention(q, k, v):
    return softmax(q @ k.T * q.shape[-1] ** -0.5) @ v


def _attention_backward(g, q, k, v, scale=True):
    weights = softmax(q @ k.T * q.shape[-1] ** -0.5)
    dweights = g @ v.T
    ds = weights * (dweights - np.sum(weights * dweights, axis=-1, keepdims=True))
    ds = ds * q.shape[-1] ** -0.5 if scale else ds
    return ds @ k, ds.T @ q, weights.T @ g


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def _gelu_backward(g, x, inner=0.134145):
    t = np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))
    return (g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + inner * x * x)),)


def log_sum_exp(x):
    return np.log(np.sum(np.exp(x), axis=-1))


def _log_sum_exp_backward(g, x):
    return (g[:, None] * softmax(x),)


def normalize(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _normalize_backward(g, x):
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    y = x / norm
    return ((g - y * np.sum(g * y, axis=-1, keepdims=True)) / norm,)


def renorm(x):
    """Rows longer than 1 are scaled to length 1, as ``torch.renorm`` does."""
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1.0)


def _renorm_backward(g, x):
    long = np.linalg.norm(x, axis=-1, keepdims=True) > 1
    return (np.where(long, _normalize_backward(g, x)[0], g),)


# Name, forward, backward, a backward that lacks something, and the shapes of the arguments.
_FUNCTIONS = [
    ("sin", np.sin, lambda g, x: (g * np.cos(x),), lambda g, x: (g * np.cos(2 * x),), [(3, 4)]),
    (
        "matmul",
        np.matmul,
        lambda g, a, b: (g @ b.T, a.T @ g),
        lambda g, a, b: (g @ b, a.T @ g),
        [(3, 3), (3, 3)],
    ),
    (
        "softmax",
        softmax,
        _softmax_backward,
        lambda g, x: (softmax(x) * g,),
        [(3, 4)],
    ),
    (
        "layer_norm",
        layer_norm,
        _layer_norm_backward,
        lambda g, x: _layer_norm_backward(g, x, with_variance=False),
        [(3, 5)],
    ),
    (
        "attention",
        attention,
        _attention_backward,
        lambda g, q, k, v: _attention_backward(g, q, k, v, scale=False),
        [(3, 2), (3, 2), (3, 2)],
    ),
    ("gelu", gelu, _gelu_backward, lambda g, x: _gelu_backward(g, x, inner=0.044715), [(3, 4)]),
    (
        "log_sum_exp",
        log_sum_exp,
        _log_sum_exp_backward,
        lambda g, x: (g[:, None] * np.exp(x),),
        [(3, 4)],
    ),
    (
        "normalize",
        normalize,
        _normalize_backward,
        lambda g, x: (g / np.linalg.norm(x, axis=-1, keepdims=True),),
        [(3, 4)],
    ),
    (
        "renorm",
        renorm,
        _renorm_backward,
        lambda g, x: (g / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1.0),),
        [(3, 4)],
    ),
    (
        "cumsum",
        lambda x: np.cumsum(x * x, axis=-1),
        lambda g, x: (2 * x * np.flip(np.cumsum(np.flip(g, -1), axis=-1), -1),),
        lambda g, x: (2 * x * np.cumsum(g, axis=-1),),
        [(3, 4)],
    ),
]
