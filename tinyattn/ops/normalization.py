"""Layer normalization and root-mean-square normalization."""

import math

import numpy as np

from ..autograd import Tensor, primitive
from ..backend import array_namespace
from .conversion import at_least_float32, in_dtype_of
from .reductions import centered, magnitude


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalize each row of ``x`` to mean 0 and variance 1, then scale by ``weight`` and add ``bias``.

    A row consists of the last axes, those in ``normalized_shape``. The variance is the biased one (divided by n), and
    ``eps`` is added to it under the root.

    Args:
        x: (..., *normalized_shape).
        normalized_shape: shape of a row, a tuple or an integer.
        weight: of shape ``normalized_shape``, or None.
        bias: of shape ``normalized_shape``, or None.
        eps: positive; avoids a division by zero for constant rows.

    Raises:
        ValueError: for incompatible shapes, or if ``eps`` is not positive.

    Source: J. L. Ba, J. R. Kiros and G. E. Hinton, "Layer Normalization" (2016), eq. 4.

    >>> import tinyattn as ta
    >>> ta.layer_norm(ta.tensor([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]), 3).numpy().round(3)
    array([[-1.225,  0.   ,  1.225],
           [ 0.   ,  0.   ,  0.   ]], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else Tensor(x)
    axes = _last_axes("layer_norm", x, normalized_shape, eps, weight=weight, bias=bias)
    return layer_norm_over_axes(x, weight, bias, axes=axes, eps=eps)


def rms_norm(x, normalized_shape, weight=None, eps=None):
    """Normalize each row of ``x`` to mean square 1, then scale by ``weight``: layer norm without centering.

    Args:
        x: (..., *normalized_shape).
        normalized_shape: shape of a row, a tuple or an integer.
        weight: of shape ``normalized_shape``, or None.
        eps: positive, added to the mean square under the root; by default the machine epsilon of x's dtype, as in
            PyTorch, or of that of the weight if it is wider.

    Raises:
        ValueError: for incompatible shapes, or if ``eps`` is not positive.

    Source: B. Zhang and R. Sennrich, "Root Mean Square Layer Normalization" (2019), eq. 4.

    >>> import tinyattn as ta
    >>> ta.rms_norm(ta.tensor([3.0, 4.0]), 2).numpy().round(4)
    array([0.8485, 1.1314], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else Tensor(x)
    if eps is None:
        given = [x.dtype, getattr(weight, "dtype", x.dtype)]
        dtypes = [dtype for dtype in given if dtype.kind == "f"]
        eps = float(np.finfo(np.result_type(*dtypes or [np.float32])).eps)
    axes = _last_axes("rms_norm", x, normalized_shape, eps, weight=weight)
    return rms_norm_over_axes(x, weight, axes=axes, eps=eps)


@primitive(name="layer_norm")
def layer_norm_over_axes(x, weight, bias, /, *, axes, eps):
    """``w (x - mu) / sigma + b`` with the mean mu and sigma = sqrt(variance + eps) of the elements along ``axes``.

    Backward. Write c = x - mu, n for the number of elements of a row, sigma^2 = sum_i c_i^2 / n + eps, and
    z = c / sigma, so that y = w z + b. The cotangent of b is g, that of w is g z, and that of z is p = g w. Now z
    depends on x_j directly, through mu and through sigma:
        dc_i/dx_j     = delta_ij - 1/n
        dsigma/dx_j   = (1 / (n sigma)) sum_i c_i dc_i/dx_j = c_j / (n sigma) = z_j / n      as sum_i c_i = 0
        dz_i/dx_j     = (delta_ij - 1/n) / sigma - (c_i / sigma^2) z_j / n
                      = (delta_ij - 1/n - z_i z_j / n) / sigma,
    and therefore, with mean() over the row,
        dx_j = sum_i p_i dz_i/dx_j = (p_j - mean(p) - z_j mean(p z)) / sigma.
    The two means remove the components of p along a shift and a scaling of the row, which do not change z.

    >>> import numpy as np
    >>> layer_norm_over_axes.forward(np.array([40000.0, 40001.0]), None, None, axes=(-1,), eps=1e-5).round(4)
    array([-1.,  1.])
    """
    z, _ = _standardized(x, axes, eps)
    y = z if weight is None else z * weight
    return in_dtype_of(x, y if bias is None else y + bias)


@layer_norm_over_axes.vjp("x")
def layer_norm_vjp_x(g, _out, x, weight, _bias, *, axes, eps):
    xp = array_namespace(g)
    z, sigma = _standardized(x, axes, eps)
    g = at_least_float32(g)
    p = g if weight is None else g * weight
    mean_p = xp.mean(p, axis=axes, keepdims=True)
    mean_pz = xp.mean(p * z, axis=axes, keepdims=True)
    return (p - mean_p - z * mean_pz) / sigma


@layer_norm_over_axes.vjp("weight")
def layer_norm_vjp_weight(g, _out, x, _weight, _bias, *, axes, eps):
    z, _ = _standardized(x, axes, eps)
    return g * z


@layer_norm_over_axes.vjp("bias")
def layer_norm_vjp_bias(g, _out, _x, _weight, _bias, *, axes, eps):
    return g


def _standardized(x, axes, eps):
    """Rows minus their mean, divided by sigma = sqrt(variance + eps); and sigma."""
    return _scaled(centered(at_least_float32(x), axes), axes, eps)


@primitive(name="rms_norm")
def rms_norm_over_axes(x, weight, /, *, axes, eps):
    """``w x / r`` with r = sqrt(mean(x^2) + eps) of the elements along ``axes``.

    Backward. With z = x / r and n elements in a row, dr/dx_j = x_j / (n r) = z_j / n, and so
        dz_i/dx_j = delta_ij / r - (x_i / r^2) z_j / n = (delta_ij - z_i z_j / n) / r.
    With p = g w, the cotangent of z,
        dx_j = (p_j - z_j mean(p z)) / r,
    layer norm's formula without the mean of p, since z is invariant to scaling only. The cotangent of w is g z.

    >>> import numpy as np
    >>> rms_norm_over_axes.forward(np.array([3.0, 4.0]), None, axes=(-1,), eps=1e-9).round(4)
    array([0.8485, 1.1314])
    """
    z, _ = _scaled(x, axes, eps)
    return in_dtype_of(x, z if weight is None else z * weight)


@rms_norm_over_axes.vjp("x")
def rms_norm_vjp_x(g, _out, x, weight, *, axes, eps):
    xp = array_namespace(g)
    z, root = _scaled(x, axes, eps)
    g = at_least_float32(g)
    p = g if weight is None else g * weight
    return (p - z * xp.mean(p * z, axis=axes, keepdims=True)) / root


@rms_norm_over_axes.vjp("weight")
def rms_norm_vjp_weight(g, _out, x, _weight, *, axes, eps):
    z, _ = _scaled(x, axes, eps)
    return g * z


def _scaled(x, axes, eps):
    """Rows divided by the root of their mean square plus eps; and that root.

    Rows with large elements are divided by the largest first, so that squares do not overflow.
    """
    xp = array_namespace(x)
    x = at_least_float32(x)
    largest = xp.maximum(magnitude(x, axes), 1)
    x = x / largest
    root = xp.sqrt(xp.mean(x * x, axis=axes, keepdims=True) + eps / largest / largest)
    return x / root, root * largest


def _last_axes(operation, x, normalized_shape, eps, **affine):
    """Check the arguments, and return the axes of a row, as negative numbers."""
    is_number = isinstance(normalized_shape, (int, np.integer))
    shape = (int(normalized_shape),) if is_number else tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(
            f"{operation}() got x of shape {x.shape} and normalized_shape={normalized_shape}: "
            "expected the lengths of the last axes of x"
        )
    if math.prod(shape) == 0:
        raise ValueError(
            f"{operation}() got normalized_shape={shape}, rows without elements: expected positive lengths"
        )
    for name, value in affine.items():
        if value is not None and np.shape(value) != shape:
            raise ValueError(
                f"{operation}() got a {name} of shape {np.shape(value)}: expected {shape}, that of a row"
            )
    if not eps > 0:
        raise ValueError(
            f"{operation}() got eps={eps}: expected a positive number, "
            "as a constant row would be divided by zero"
        )
    return tuple(range(-len(shape), 0))
