"""AdamW: Adam with decoupled weight decay."""

import math
from numbers import Real

import numpy as np

from ..backend import array_namespace
from .optimizer import Optimizer


class AdamW(Optimizer):
    """Adam with decoupled weight decay, which does not enter the moments.

    With g the gradient of the parameter p at its t-th step:
        m = beta1 m + (1 - beta1) g            first moment,
        v = beta2 v + (1 - beta2) g^2          second moment,
        p = p - lr weight_decay p - lr m' / (sqrt(v') + eps),
        m' = m / (1 - beta1^t)  and  v' = v / (1 - beta2^t),  corrected for the initialization with 0.
    Finite elements of g whose squares overflow, from 2^64 (1.8e19) in float32 and 2^512 in float64, are replaced by
    numbers of half that limit: the parameter still changes, by lr against the gradient if all gradients of an element
    are that large.

    Args:
        params: parameters, named parameters or groups: see ``Optimizer``. To decay only matrices, pass
            ``weight_decay_groups(model.named_parameters(), 0.1)``.
        lr: learning rate.
        betas: decay rates of the two moments, in [0, 1).
        eps: added to the denominator, outside the root, for numerical stability.
        weight_decay: weight decay coefficient; each step subtracts lr weight_decay p.

    Source: D. P. Kingma and J. Ba, "Adam" (2015), algorithm 1; I. Loshchilov and F. Hutter, "Decoupled Weight Decay
    Regularization" (2019), algorithm 2.

    >>> import tinyattn as ta
    >>> p = ta.tensor([1.0], requires_grad=True)
    >>> optimizer = AdamW([p], lr=0.1, weight_decay=0.0)
    >>> (p * 5.0).sum().backward()
    >>> optimizer.step()
    >>> round(p.item(), 6)
    0.9
    """

    buffers = ("first_moment", "second_moment")

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def check(self, group):
        super().check(group)
        if not group["eps"] >= 0:
            raise ValueError(f"eps must be at least 0, got {group['eps']}")
        if isinstance(group["betas"], Real):
            raise TypeError(f"betas must be two numbers in [0, 1), got {group['betas']}")
        group["betas"] = tuple(group["betas"])
        if len(group["betas"]) != 2 or not all(0 <= beta < 1 for beta in group["betas"]):
            raise ValueError(f"betas must be two numbers in [0, 1), got {group['betas']}")

    def block_update(self, member, step):
        return self.bind_update(adamw_update, member, step)


def adamw_update(arrays, block, *, step, lr, betas, eps, weight_decay):
    """The update rule of AdamW on a slice of arrays, in place.

    Args:
        arrays: values, gradient, first and second moment, of the same length.
        block: the slice.
        lr, betas, eps, weight_decay: Python numbers, which do not change the dtype.
    """
    values, gradient, first_moment, second_moment = (array[block] for array in arrays)
    xp = array_namespace(values)
    beta1, beta2 = betas
    if weight_decay:
        values *= 1 - lr * weight_decay

    scratch = xp.empty_like(gradient)
    gradient = _with_squares(gradient, scratch)
    scratch *= 1 - beta2
    second_moment *= beta2
    second_moment += scratch

    xp.multiply(gradient, 1 - beta1, out=scratch)
    first_moment *= beta1
    first_moment += scratch

    # m' / (sqrt(v') + eps) with both corrections as scalar factors:
    # sqrt(v') = sqrt(v) / r with r = sqrt(1 - beta2^t), so the quotient is m' r / (sqrt(v) + eps r).
    root = math.sqrt(1 - beta2**step)
    xp.sqrt(second_moment, out=scratch)
    scratch += eps * root
    xp.divide(first_moment, scratch, out=scratch)
    scratch *= lr * root / (1 - beta1**step)
    values -= scratch


def _with_squares(gradient, squares):
    """Write the squares of the gradient to ``squares``; returns the gradient, ``with_finite_squares``."""
    xp = array_namespace(gradient)
    if xp is np:  # which reports an overflow at no additional cost
        try:
            with np.errstate(over="raise"):
                np.multiply(gradient, gradient, out=squares)
        except FloatingPointError:
            pass
        else:
            return gradient
    gradient = with_finite_squares(gradient)
    xp.multiply(gradient, gradient, out=squares)
    return gradient


def with_finite_squares(gradient):
    """``gradient`` with the finite elements whose squares overflow replaced by a power of two, with their sign.

    The square of that number is a quarter of the first power of two that overflows, so that sums of squares do not
    round to infinity.

    >>> with_finite_squares(np.array([1e300, -2.0, np.inf])).tolist() == [2.0**511, -2.0, np.inf]
    True
    """
    xp = array_namespace(gradient)
    limit = 2.0 ** (np.finfo(gradient.dtype).maxexp // 2 - 1)
    overflows = xp.isfinite(gradient) & (xp.abs(gradient) >= 2 * limit)
    return xp.where(overflows, xp.clip(gradient, -limit, limit), gradient)
