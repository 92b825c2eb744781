"""All measurements on an NVIDIA GPU in one command: ``python -m benchmarks.gpu [--budget SECONDS]``.

The sections run in the order of their value until the budget is spent, and the JSON file is complete after each: the
tests on the GPU; training steps of nanoGPT's two sizes against PyTorch, in float32, TF32 and float16; attention against
PyTorch's SDPA; the launches of a step; the time to a validation loss of 1.47 on Tiny Shakespeare.

``--rehearse`` runs the same code at small sizes without a GPU, with simulated kernels: its figures mean nothing.
"""

import argparse
import contextlib
import sys

from tinyattn.backend import get_backend
from tinyattn.kernels.cuda import simulated_kernels

from .gpu_sections.attention import attention
from .gpu_sections.checks import matrix_peak, tests
from .gpu_sections.session import Session
from .gpu_sections.training import profile, time_to_quality, training_step
from .race import ROOT

SECTIONS = (tests, matrix_peak, training_step, attention, profile, time_to_quality)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--budget", type=float, default=480, help="time in seconds")
    parser.add_argument("--device", default="cuda", help="such as cuda:1")
    parser.add_argument("--json", metavar="FILE", default=str(ROOT / "benchmarks/results/gpu.json"))
    parser.add_argument("--rehearse", action="store_true", help="run at small sizes, without a GPU")
    given = parser.parse_args(arguments)
    device = "strict" if given.rehearse else given.device
    try:
        get_backend(device)
    except (RuntimeError, ValueError) as error:
        print(f"nothing is measured: {error}", file=sys.stderr)
        return 2
    with simulated_kernels() if given.rehearse else contextlib.nullcontext():
        session = Session(device, given.budget, given.json, given.rehearse)
        for section in SECTIONS:
            session.run(section)
    print(f"written to {given.json}")
    return 1 if _has_error(session.results) or not session.results["tests"].get("passed") else 0


def _has_error(result):
    """Whether a section or one of its measurements failed."""
    return isinstance(result, dict) and ("error" in result or any(map(_has_error, result.values())))


if __name__ == "__main__":
    sys.exit(main())
