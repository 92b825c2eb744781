"""Description of the machine, and its peak performance."""

import os
import platform
import statistics
import time
from importlib import metadata

import numpy as np

from tinyattn.train.parallel import available_cores


def describe_machine():
    """The hardware, load and versions that measurements depend on, as a dict."""
    versions = {}
    for package in ("numpy", "torch", "jax"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "processor": _processor(),
        "cores": available_cores(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        **versions,
    }


def _processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def sgemm_peak(size=2048, repetitions=7):
    """GFLOP/s of a large float32 matrix product on all cores, the upper bound for all benchmarks."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    out = np.empty_like(x)
    np.matmul(x, y, out=out)
    clock = time.process_time if available_cores() == 1 else time.perf_counter
    seconds = []
    for _ in range(repetitions):
        began = clock()
        np.matmul(x, y, out=out)
        seconds.append(clock() - began)
    return 2 * size**3 / statistics.median(seconds) / 1e9
