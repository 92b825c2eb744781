"""Backends: array modules and devices, memory allocation, random numbers, and differences between NumPy and CuPy."""

from .base import Backend, array_namespace, backend_of, is_array
from .device import default_device, device, get_backend
from .host import host_array, listed, native_dtype, reject_masked
from .random import Random, default_random, manual_seed, use_random

__all__ = [
    "Backend",
    "Random",
    "array_namespace",
    "backend_of",
    "default_device",
    "default_random",
    "device",
    "get_backend",
    "host_array",
    "is_array",
    "listed",
    "manual_seed",
    "native_dtype",
    "reject_masked",
    "use_random",
]
