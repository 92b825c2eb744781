"""Training in TF32 and in float16: what a device can do, and the scale that keeps small gradients above zero.

In float16 parameters and activations are stored in 16 bits; sums, norms, softmax and the loss are computed in float32,
and the optimizers keep float32 copies of the parameters, the master weights, in which small updates are not lost.

Source: P. Micikevicius et al., "Mixed Precision Training" (2018), section 3.
"""

import contextlib
import math

from ..backend import get_backend
from ..backend.precision import tf32_products
from ..data import InputError

_LARGEST_SCALE = 2.0**24


def products_in(precision):
    """A context in which products are computed as ``precision`` says."""
    return tf32_products() if precision == "tf32" else contextlib.nullcontext()


def parameter_dtype(options, device):
    """The dtype that the parameters of a run are stored in on a device."""
    is_half = options.precision == "float16" and can_compute_in("float16", get_backend(device))
    return "float16" if is_half else options.dtype


def can_compute_in(precision, backend):
    """Whether a device can train in a precision.

    >>> can_compute_in("float32", get_backend("cpu")), can_compute_in("tf32", get_backend("cpu"))
    (True, False)
    """
    return precision == "float32" or precision in backend.precisions()


def check_precision(options):
    """Raise InputError where a run's device cannot train in its precision."""
    if options.precision == "float32":
        return
    if options.dtype != "float32":
        raise InputError(
            f"--precision {options.precision} stores float32 in fewer bits: it does not go with --dtype {options.dtype}"
        )
    backend = get_backend(options.device)
    if not can_compute_in(options.precision, backend):
        raise InputError(
            f"--precision {options.precision} is not possible on the device {backend.device}: it needs an NVIDIA GPU"
            f"{' of compute capability 8.0 or later' if options.precision == 'tf32' else ''} (--device cuda); "
            "use --precision float32"
        )


class LossScale:
    """The factor of the loss in float16: doubled after some steps, halved where a gradient has overflowed.

    Args:
        scale: the factor to begin with.
        patience: steps without overflow, after which it is doubled.

    >>> scale = LossScale(8.0, patience=2)
    >>> [scale.update(finite) or scale.value for finite in (False, True, True)]
    [4.0, 4.0, 8.0]
    """

    def __init__(self, scale=2.0**15, patience=1000):
        self.value = scale
        self.patience = patience
        self.steps = 0

    def update(self, finite):
        """Update the scale after a step; ``finite`` says whether the gradients were finite."""
        if not finite:
            self.value /= 2
            self.steps = 0
            return
        self.steps += 1
        if self.steps == self.patience:
            self.value = min(2 * self.value, _LARGEST_SCALE)
            self.steps = 0

    @property
    def is_exhausted(self):
        """Whether gradients overflow without a scale too, so that a smaller one does not help."""
        return self.value < 1

    def state(self):
        """The state for ``restore``, a list of numbers that JSON can represent."""
        return [self.value, self.steps]

    def restore(self, state):
        """Restore the result of ``state``."""
        self.value, self.steps = float(state[0]), int(state[1])
        if not math.isfinite(self.value):
            raise ValueError(f"a loss scale must be finite, got {self.value}")
