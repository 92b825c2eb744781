"""The settings of a check."""

from dataclasses import dataclass

import numpy as np

# Number of elements of an argument that its report lists, the worst first.
LISTED = 5


@dataclass
class Settings:
    """The settings of a check; see ``gradcheck``."""

    eps: float | None = None
    rtol: float | None = None
    atol: float | None = None
    mode: str = "full"
    order: int = 1
    seed: int = 0
    directions: int = 3
    oracle: str = "difference"
    curves: bool = False  # a full ladder for the worst element of each argument

    def __post_init__(self):
        if self.mode == "directional":
            self.mode = "fast"
        if self.mode not in ("full", "fast"):
            raise ValueError(f'mode is {self.mode!r}: expected "full" or "fast"')
        if self.order not in (1, 2):
            raise ValueError(f"order is {self.order!r}: expected 1 or 2")
        if self.oracle not in ("difference", "complex"):
            raise ValueError(f'oracle is {self.oracle!r}: expected "difference" or "complex"')
        if self.oracle == "complex" and (self.order, self.mode) != (1, "full"):
            raise ValueError('oracle="complex" needs order=1 and mode="full"')
        if self.eps is not None and not self.eps > 0:
            raise ValueError(f"eps is {self.eps!r}: expected a positive step")
        for name in ("rtol", "atol"):
            tolerance = getattr(self, name)
            if tolerance is not None and not tolerance >= 0:
                raise ValueError(f"{name} is {tolerance!r}: expected a tolerance of at least 0")
        if self.directions < 1:
            raise ValueError(
                f"directions is {self.directions!r}: expected at least 1, without any nothing is checked"
            )

    @property
    def tolerances(self):
        """``(rtol, atol)`` if either is given, with a default for the other; None if error bars decide."""
        if self.rtol is None and self.atol is None:
            return None
        return 1e-5 if self.rtol is None else self.rtol, 1e-7 if self.atol is None else self.atol


def generator(seed, purpose):
    """A random generator for one purpose: the cotangent must not equal inputs drawn from the same seed."""
    return np.random.default_rng([seed, *purpose.encode()])


def signed_sizes(random, shape):
    """Random numbers between 1/2 and 3/2 in magnitude, with random signs.

    >>> bool(np.all(np.abs(signed_sizes(np.random.default_rng(0), (100,))) >= 0.5))
    True
    """
    numbers = np.asarray(random.random(shape))
    numbers *= 2
    numbers -= 1
    numbers += np.copysign(0.5, numbers)
    return numbers
