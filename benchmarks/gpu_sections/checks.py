"""The tests on the GPU, and the rate of its matrix products: the upper limit of all other figures."""

import re
import subprocess
import sys

import numpy as np

from tinyattn.kernels.cuda.products import multiply
from tinyattn.train.precision import products_in

from ..race import ROOT
from .session import PRECISIONS


def tests(session):
    """Run ``pytest -m gpu``, for at most two fifths of the remaining time."""
    if session.rehearse:
        command = ["-m", "pytest", "-q", "tests/kernels/cuda/test_simulator.py", "-k", "is_right"]
    else:
        command = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    seconds = 0.4 * session.left
    try:
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, text=True, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        return {"passed": False, "stopped_after": seconds, "output": output[-4000:]}
    counts = {
        word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
    }
    passed = done.returncode == 0
    return {"passed": passed, **counts, "output": "" if passed else done.stdout[-8000:]}


def matrix_peak(session):
    """TFLOP/s of one large matrix product in each precision."""
    size = 64 if session.rehearse else 8192
    found = {}
    for precision in PRECISIONS:
        dtype = "float16" if precision == "float16" else "float32"
        with products_in(precision):
            x = session.backend.asarray(np.ones((size, size), dtype))
            out = session.backend.empty((size, size), dtype)

            def call(x=x, out=out):
                multiply(x, x, out)

            measured = session.milliseconds(call, session.backend.synchronize)
            found[precision] = 2 * size**3 / measured["fastest_ms"] / 1e9
    return {"tflops": found}
