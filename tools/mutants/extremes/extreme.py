"""A call at an extreme point, and exact results of softmax, layer norm and attention in extended precision."""

from dataclasses import dataclass, field

import numpy as np

INF, NAN = np.inf, np.nan


@dataclass
class Extreme:
    """A call, its cotangent, and the expected output (None: not compared) and gradient of each input."""

    what: str
    primitive: str
    inputs: list
    cotangent: object
    gradients: list
    output: object = None
    parameters: dict = field(default_factory=dict)
    dtypes: tuple = ("float64", "float32")
    tolerance: dict = field(default_factory=lambda: {"float64": 1e-12, "float32": 1e-5})
    relative: bool = False  # whether the tolerance is relative to each element
    bend: tuple = ()  # a direction, and the gradient of the first gradient's product with it

    def __str__(self):
        return f"{self.primitive}: {self.what}"


def exact_layer_norm(x, g, eps):
    """Layer norm and its gradient in extended precision, from the explicit Jacobian."""
    x, g = x.astype(np.longdouble), g.astype(np.longdouble)
    n = x.shape[-1]
    centered = x - x.sum(-1, keepdims=True) / n
    sigma = np.sqrt((centered * centered).sum(-1, keepdims=True) / n + eps)
    z = centered / sigma
    identity = np.eye(n, dtype=np.longdouble)
    jacobian = (identity - 1 / np.longdouble(n) - z[..., None] * z[..., None, :] / n) / sigma[
        ..., None
    ]
    return z, np.einsum("...i,...ij->...j", g, jacobian)


def exact_softmax(x, g):
    """Softmax and its gradient in extended precision, in which exp does not overflow without a shift."""
    e = np.exp(x.astype(np.longdouble))
    p = e / e.sum(-1, keepdims=True)
    return p, p * (g - (p * g).sum(-1, keepdims=True))


def exact_attention(q, k, v, g, scale):
    """Attention and its gradients in extended precision."""
    q, k, v = (array.astype(np.longdouble) for array in (q, k, v))
    scores = scale * np.einsum("qd,kd->qk", q, k)
    p, ds = exact_softmax(scores, np.einsum("qd,kd->qk", g, v))
    return p @ v, [scale * ds @ k, scale * ds.T @ q, p.T @ g]
