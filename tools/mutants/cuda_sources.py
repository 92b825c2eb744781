"""Mutants of the kernels in CUDA C++: ``python -m tools.mutants.cuda_sources [PATTERN] [--list]``.

Each changes one operator or takes out one barrier; the simulator runs it on the cases of the tests. A mutant is killed
by a result that differs from the rule's, and by what the simulator reports. Prints the survivors and the score.
"""

import argparse
import contextlib
import re
import sys

import numpy as np

from tests.kernels.cuda import test_simulated_kernels as cases
from tests.kernels.cuda import test_updates as updates
from tinyattn.kernels.cuda import launch, simulated_kernels, simulation

# Kernels by the file they are in: the primitives, or the tests of updates.
PRIMITIVES = {
    "activations.cu": ("gelu", "relu_squared"),
    "attention.cu": ("attention",),
    "columns.cu": ("linear", "embedding"),
    "cross_entropy.cu": ("cross_entropy",),
    "dropout.cu": ("dropout",),
    "embedding.cu": ("embedding",),
    "layer_norm.cu": ("layer_norm",),
    "linear.cu": ("linear",),
    "rms_norm.cu": ("rms_norm",),
    "rotary.cu": ("rotary",),
    "softmax.cu": ("softmax",),
}
CHANGES = {
    " + ": " - ",
    " - ": " + ",
    " * ": " / ",
    " / ": " * ",
    " < ": " <= ",
    " > ": " >= ",
    " == ": " != ",
    " && ": " || ",
    " += ": " -= ",
    "__syncthreads();": ";",
}


def mutants(file):
    """``(line, text of the whole source)`` for every change of a file."""
    text = (launch.SOURCES / file).read_text()
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        code = line.partition("//")[0]
        if code.lstrip().startswith(("#", "template")):
            continue
        for old, new in CHANGES.items():
            for found in re.finditer(re.escape(old), code):
                changed = line[: found.start()] + new + line[found.end() :]
                mutated = [*lines[:number], changed, *lines[number + 1 :]]
                yield f"{file}:{number + 1}: {changed.strip()}", "".join(mutated)


@contextlib.contextmanager
def in_place_of(file, text):
    """Let the launcher find ``text`` where it looks for a source."""
    original = launch.source

    def source(name):
        return launch.with_includes(name, text) if name == file else original(name)

    simulation.source = source
    simulation.load.cache_clear()
    try:
        yield
    finally:
        simulation.source = original
        simulation.load.cache_clear()


def check(file):
    """Run the cases of a file's kernels; raises where one fails."""
    for name in PRIMITIVES.get(file, ()):
        for parameter in cases.SHORT:
            of, case = parameter.values
            if of == name:
                random = np.random.default_rng(0)
                with simulated_kernels():
                    cases.compare(
                        name,
                        "simulated",
                        case,
                        case.draw(random, "float64"),
                        "float64",
                        cases.cotangent(random, "float64"),
                    )
    if file not in PRIMITIVES:
        for name in updates.OPTIMIZERS:
            if name.startswith(file.removesuffix(".cu")):
                updates.test_an_optimizer_on_kernels_equals_that_on_the_cpu(name, "float64")
        if file == "clipping.cu":
            for most in (0.5, 1e6):
                updates.test_clipping_on_kernels_equals_that_on_the_cpu(most, "float64")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants.cuda_sources", description=__doc__
    )
    parser.add_argument("pattern", nargs="?", default="", help="only files with this in their name")
    parser.add_argument("--list", action="store_true", help="print every mutant and its end")
    options = parser.parse_args()
    killed = total = 0
    for path in sorted(launch.SOURCES.glob("*.cu")):
        if options.pattern not in path.name:
            continue
        check(path.name)
        for name, text in mutants(path.name):
            total += 1
            verdict = "SURVIVES"
            with in_place_of(path.name, text):
                try:
                    check(path.name)
                except Exception as error:
                    verdict = f"{type(error).__name__}: {error}".strip().splitlines()[0]
                    killed += 1
            if options.list or verdict == "SURVIVES":
                print(f"{name}\n    {verdict}", flush=True)
    print(f"{killed} of {total} mutants killed, {100 * killed / max(total, 1):.1f} %")


if __name__ == "__main__":
    sys.exit(main())
