"""Mutants of the kernels in CUDA C++: ``python -m tools.mutants.cuda_sources [PATTERN] [--list]``.

Each mutant changes one operator or removes one barrier; the simulator runs it on the cases of the tests. A mutant is
killed if a result differs from the rule's, or if the simulator reports an error. Prints the survivors and the score.
"""

import argparse
import contextlib
import multiprocessing
import re
import sys

import numpy as np

from tests.kernels.cuda import test_simulated_kernels as cases
from tests.kernels.cuda import test_updates as updates
from tinyattn.kernels.cuda import launch, simulated_kernels, simulation

SECONDS = 20  # after which a mutant counts as one that does not end
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
                arrays = case.draw(random, "float64")
                for layout in (arrays, [cases.strided(array) for array in arrays]):
                    with simulated_kernels():
                        if cases.accepts(name, "simulated", layout, case.parameters):
                            g = cases.cotangent(random, "float64")
                            cases.compare(name, "simulated", case, layout, "float64", g)
    if file not in PRIMITIVES:
        for name in updates.OPTIMIZERS:
            if name.startswith(file.removesuffix(".cu")):
                updates.test_an_optimizer_on_kernels_equals_that_on_the_cpu(name, "float64")
        if file == "clipping.cu":
            for most in (0.5, 1e6):
                updates.test_clipping_on_kernels_equals_that_on_the_cpu(most, "float64")


def verdict_on(file, text):
    """Why a mutant is killed, or None; in a process of its own, as it may not end, or end the process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run():
        with in_place_of(file, text):
            try:
                check(file)
            except Exception as error:
                sender.send(f"{type(error).__name__}: {error}".strip().splitlines()[0])
            else:
                sender.send(None)

    process = context.Process(target=run)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(SECONDS) else "does not end"
    except EOFError:
        return "ends the process"
    finally:
        process.kill()
        process.join()


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
            verdict = verdict_on(path.name, text)
            killed += verdict is not None
            if options.list or verdict is None:
                print(f"{name}\n    {verdict or 'SURVIVES'}", flush=True)
    print(f"{killed} of {total} mutants killed, {100 * killed / max(total, 1):.1f} %")


if __name__ == "__main__":
    sys.exit(main())
