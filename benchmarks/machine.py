"""What the figures were measured on, and what its cores could do at most."""

import os
import platform
import statistics
import time
from importlib import metadata

import numpy as np


def describe_machine():
    """A dict of what a figure depends on."""
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


def available_cores():
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def sgemm_peak(size=2048, repetitions=7):
    """GFLOP a second of one large float32 matrix product on all cores: the ceiling of everything here."""
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
