"""Kernels written against the array namespace: they run on every backend that has no kernel of its own."""

from . import attention, ring_attention
