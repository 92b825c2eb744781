"""Calls that finite differences cannot check: kinks, conventions, very large and very close numbers.

The expected output and gradients are worked out by hand, or in extended precision by an independent formula. They are
tests of their own (``tests/tools/test_extremes.py``) and part of the checks that kill mutants.
"""

from .conventions import CONVENTIONS
from .large_numbers import LARGE_NUMBERS

EXTREMES = [*CONVENTIONS, *LARGE_NUMBERS]
