"""Fixtures for tests that register primitives and kernels."""

import pytest

from tinyattn.autograd import PRIMITIVES
from tinyattn.autograd.primitive import _KERNELS


@pytest.fixture
def registries_are_restored():
    primitives, kernels = dict(PRIMITIVES), dict(_KERNELS)
    yield
    for registry, before in ((PRIMITIVES, primitives), (_KERNELS, kernels)):
        registry.clear()
        registry.update(before)
