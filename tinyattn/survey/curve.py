"""The error of a central difference as a function of its step: truncation and rounding error.

For large steps the truncation error, proportional to h^2 and the third derivative, dominates; for small steps the
rounding error of the two function values, u |f| / h. In float64 the minimum is about 1e-11 near h = 1e-5; in float32 it
is about 1e-5 near 1e-2, which is why ``gradcheck`` rejects float32.
"""

from dataclasses import dataclass

import numpy as np

from ..autograd import PRIMITIVES, Tensor, grad, reference
from ..checker.complex_step import NOT_ANALYTIC, STEP
from ..checker.culprit import call_of_primitive
from ..checker.numeric import Line
from .cases import CASES
from .primitives import on_device

STEPS = 10.0 ** np.arange(0, -12.25, -0.25)


@dataclass
class Curve:
    """Relative errors of central differences along one random direction, for each of ``STEPS``.

    Attributes:
        float64, float32: the errors, NaN where the function is not finite.
        complex_step: the relative error of a complex step, None where the function is not analytic.
    """

    name: str
    float64: np.ndarray
    float32: np.ndarray
    complex_step: float | None

    @property
    def truncates(self):
        """Whether there is a truncation error: a linear operation has none."""
        return self.best[0] < 1e-3

    @property
    def best(self):
        """The best step in float64 and its error."""
        errors = np.where(np.isfinite(self.float64), self.float64, np.inf)
        # A single small error can be a coincidence: require small errors at the neighbors too.
        padded = np.concatenate([errors[:1], errors, errors[-1:]])
        smooth = np.max(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)
        position = int(np.argmin(smooth))
        return float(STEPS[position]), float(smooth[position])


def step_curve(name, device=None, seed=0):
    """The ``Curve`` of a primitive at its first case; None if that has no gradient.

    >>> curve = step_curve("exp")
    >>> step, error = curve.best
    >>> 1e-7 < step < 1e-3 and error < 1e-8
    True
    """
    if not CASES.get(name):
        return None
    inputs, parameters = on_device(CASES[name][0], device, seed)
    call, checked = call_of_primitive(PRIMITIVES[name], inputs, parameters)
    if not checked:
        return None
    random = np.random.default_rng([seed, 1])
    starts = [tensor.numpy() for tensor in checked]
    directions = [random.standard_normal(start.shape) for start in starts]

    def line(dtype):
        def values(distance):
            moved = [x + distance * d for x, d in zip(starts, directions, strict=True)]
            out = call(*[Tensor(x.astype(dtype), device=device) for x in moved]).numpy()
            return [out.astype(np.float64) if out.dtype.kind == "f" else out]

        return Line(values, [cotangent])

    with reference():
        leaves = [Tensor(start, requires_grad=True, device=device) for start in starts]
        out = call(*leaves)
        cotangent = random.standard_normal(out.shape)
        gradients = grad(out, leaves, Tensor(cotangent, device=device))
        exact = sum(
            float(np.sum(gradient.numpy() * direction))
            for gradient, direction in zip(gradients, directions, strict=True)
        )
        if not np.isfinite(exact) or exact == 0:
            return None
        errors = [
            np.array([abs(line(dtype).central(h) - exact) / abs(exact) for h in STEPS])
            for dtype in (np.float64, np.float32)
        ]
        return Curve(name, *errors, _complex_error(name, line(np.complex128), exact))


def _complex_error(name, line, exact):
    """The relative error of a complex step; None where the operation is not analytic."""
    if name in NOT_ANALYTIC:
        return None
    try:
        error = abs(line.complex_slope(STEP) - exact) / abs(exact)
    except (TypeError, ValueError):
        return None
    return error if error < 1e-10 else None
