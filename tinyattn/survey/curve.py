"""How the error of a central difference depends on its step: truncation against rounding.

Coming from large steps the error falls with h^2, the neglected third derivative. From some step on the rounding of the
two function values takes over, u |f| / h, and the error grows again. In float64 the valley lies near h = 1e-5 and is
1e-11 deep; in float32 it lies near 1e-2 and is 1e-5 deep, which is why ``gradcheck`` refuses float32.
"""

from dataclasses import dataclass

import numpy as np

from ..autograd import PRIMITIVES, Tensor, grad, reference
from ..checker.complex_step import NOT_ANALYTIC, STEP
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
        """Whether the operation bends: a linear one has no third derivative to neglect."""
        return self.best[0] < 1e-3

    @property
    def best(self):
        """The best step in float64 and its error: the middle of the valley."""
        errors = np.where(np.isfinite(self.float64), self.float64, np.inf)
        # Single errors are luck: the valley is where the neighbours are small too.
        padded = np.concatenate([errors[:1], errors, errors[-1:]])
        smooth = np.max(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)
        position = int(np.argmin(smooth))
        return float(STEPS[position]), float(smooth[position])


def step_curve(name, device=None, seed=0):
    """The ``Curve`` of a primitive, at the first of its cases; None if that has no gradient.

    >>> curve = step_curve("exp")
    >>> step, error = curve.best
    >>> 1e-7 < step < 1e-3 and error < 1e-8
    True
    """
    if not CASES.get(name):
        return None
    inputs, parameters = on_device(CASES[name][0], device, seed)
    inputs = [x.numpy() if isinstance(x, Tensor) else x for x in inputs]
    call = _Call(name, inputs, parameters, device, seed)
    if not call.positions:
        return None
    with reference():
        exact = call.exact()
        if not np.isfinite(exact) or exact == 0:
            return None
        errors = [
            np.array([abs(call.line(dtype).central(h) - exact) / abs(exact) for h in STEPS])
            for dtype in (np.float64, np.float32)
        ]
        return Curve(name, *errors, call.complex_error(exact))


class _Call:
    """One call of a primitive, along a random direction of all of its inputs together."""

    def __init__(self, name, inputs, parameters, device, seed):
        self._primitive = PRIMITIVES[name]
        self._name = name
        self._inputs = inputs
        self._parameters = parameters
        self._device = device
        self.positions = [
            position
            for position, value in enumerate(inputs)
            if isinstance(value, np.ndarray)
            and value.dtype.kind == "f"
            and self._primitive.differentiable(position)
        ]
        random = np.random.default_rng([seed, 1])
        self._directions = {p: random.standard_normal(inputs[p].shape) for p in self.positions}
        self._cotangent = random.standard_normal(self._run(np.float64, 0.0)[0].shape)

    def _arguments(self, dtype, distance, requires_grad=False):
        arguments = []
        for position, value in enumerate(self._inputs):
            if position in self._directions:
                value = (value + distance * self._directions[position]).astype(dtype)
                value = Tensor(value, requires_grad=requires_grad, device=self._device)
            elif isinstance(value, np.ndarray):
                value = Tensor(value, device=self._device)
            arguments.append(value)
        return arguments

    def _run(self, dtype, distance):
        out = self._primitive(*self._arguments(dtype, distance), **self._parameters).numpy()
        return [out.astype(np.float64) if out.dtype.kind == "f" else out]

    def line(self, dtype):
        return Line(lambda distance: self._run(dtype, distance), [self._cotangent])

    def exact(self):
        """The slope by the rule's backward."""
        arguments = self._arguments(np.float64, 0.0, requires_grad=True)
        out = self._primitive(*arguments, **self._parameters)
        leaves = [arguments[position] for position in self.positions]
        gradients = grad(out, leaves, Tensor(self._cotangent, device=self._device))
        return sum(
            float(np.sum(gradient.numpy() * self._directions[position]))
            for position, gradient in zip(self.positions, gradients, strict=True)
        )

    def complex_error(self, exact):
        if self._name in NOT_ANALYTIC:
            return None
        try:
            (out,) = self._run(np.complex128, 1j * STEP)
        except (TypeError, ValueError):
            return None
        slope = float(np.sum(np.imag(out) / STEP * self._cotangent))
        error = abs(slope - exact) / abs(exact)
        return error if error < 1e-10 else None
