"""Mutation testing of the CUDA C++ sources: ``python -m tools.mutants.cuda_sources [PATTERN] [--list]``.

A mutant has one operator changed or one barrier removed. The simulator runs it on the cases of the tests: it is killed
by a result that differs from the rule's, and by an error of the simulator or of the compiler. The mutants in
``EQUIVALENT`` are not run. Prints the survivors and the score.
"""

import argparse
import contextlib
import multiprocessing
import re
import sys
import time

import numpy as np

import tinyattn as ta
from tests.kernels.cuda import nvrtc
from tests.kernels.cuda import test_simulated_kernels as cases
from tests.kernels.cuda import test_transformer_block as blocks
from tests.kernels.cuda import test_updates as updates
from tinyattn.kernels.cuda import launch, simulated_kernels, simulation

# A mutant counts as one that does not end after so many times the time of the original, and some seconds to compile.
TIMES, SECONDS = 5, 10
# Kernels by the file that contains them: primitives.
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
# Headers: files that include them.
USERS = {
    "common.cuh": ("softmax.cu", "layer_norm.cu", "cross_entropy.cu", "adamw.cu"),
    "counter.cuh": ("dropout.cu",),
    "rows.cuh": ("layer_norm.cu", "residual.cu"),
}
# Those that a transformer block runs: the blocks of the tests whose names contain one of these.
BLOCKS = {
    "activations.cu": ("biases",),
    "columns.cu": ("biases",),
    "layer_norm.cu": ("layer norm", "dropout, both"),
    "query_key.cu": ("rotary", "normalized", "dropout, both"),
    "residual.cu": ("dropout",),
    "rms_norm.cu": ("rms norm",),
}
# Tests of single kernels at the limits of numbers.
TESTS = {
    "adamw.cu": lambda: updates.test_adamw_limits_gradients_whose_squares_overflow("float32"),
    "cross_entropy.cu": lambda: (
        cases.test_cross_entropy_of_large_and_infinite_logits_equals_the_rule("float64", draws())
    ),
    "layer_norm.cu": lambda: (
        cases.test_layer_norm_is_accurate_for_rows_far_from_zero(draws()),
        overflowing_rows(ta.layer_norm),
    ),
    "query_key.cu": blocks.test_queries_whose_squares_overflow_are_normalized,
    "rms_norm.cu": lambda: overflowing_rows(ta.rms_norm),
    "softmax.cu": lambda: cases.test_softmax_of_masked_and_infinite_scores_equals_the_rule(draws()),
}
# Kernels whose shared memory depends on what a mutant changes, for NVRTC: the one that needs most.
COMPILED = {
    "attention.cu": ("attention.cu", "attention_backward_keys<double, 128>"),
    "common.cuh": ("layer_norm.cu", "layer_norm_forward<double, 256, 8>"),
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
# Mutants that compute the same, each with the reason, by file and changed line; the next two lines follow after bars.
EQUIVALENT = {
    r"(softmax|layer_norm|rms_norm)\.cu: for .* i <= ITEMS.*\| if \(column (< width\) (y|dx)\[|>= width\) break;)": (
        "the column beyond the last is not below the width, and not stored"
    ),
    r"attention\.cu: .*FITTING <= 32 \?": "the same minimum",
    r"query_key\.cu: for .* n <= PAIRS.*\| if \(i >= half\) break;": "there is no pair beyond, as half <= 64",
    r"attention\.cu: .*d <= Shape<HEAD_DIM>::WIDTH.*\| if \(i < length && column": (
        "the column beyond the last is not below the width, and not stored"
    ),
    r"attention\.cu: return score >= largest_finite": "the same for the largest number itself",
    r"attention\.cu: int end = .*ROWS \+ keys \+ queries\)": "tiles that no query sees are computed, not skipped",
    r"attention\.cu: int begin = .*(/ S::ROWS|\(keys \+ queries\))": "tiles that see no key are computed, not skipped",
    r"attention\.cu: for \(int first = 0; first <= end": "one more tile, which no query sees",
    r"attention\.cu: for \(int first = begin; first <= queries": "one more tile, beyond the last query",
    r"common\.cuh: .* return a >= b": "the same of two equal numbers",
    r"common\.cuh: .*kept\[i\] <= 0 \?": "zero either way",
    r"clipping\.cu: .*factor <= 1": "the factor 1 either way",
    r"rotary\.cu: .*/ direction;": "the direction is 1 or -1",
}


def draws():
    """Random numbers, the same for every mutant."""
    return np.random.default_rng(0)


def overflowing_rows(normalize):
    """Normalize short and long rows whose squares overflow."""
    for width in (5, 600):
        cases.test_rows_whose_squares_overflow_are_normalized(normalize, width, draws())


def mutants(file):
    """Yield ``(description, source, key for EQUIVALENT)`` for every change of a file."""
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
                changed = changed.strip()
                key = " | ".join([f"{file}: {changed}", *map(str.strip, lines[number + 1 :][:2])])
                yield f"{file}:{number + 1}: {changed}", "".join(mutated), key


def reason_of(key):
    """Why a mutant is equivalent, or None."""
    return next((reason for known, reason in EQUIVALENT.items() if re.match(known, key)), None)


@contextlib.contextmanager
def in_place_of(file, text):
    """Make ``text`` the source of ``file``, or of a header, for the launcher."""
    original, before = launch.source, (launch.SOURCES / file).read_text()

    def source(name):
        if name == file:
            return launch.with_includes(name, text)
        return original(name).replace(before, text) if file in USERS else original(name)

    simulation.source = source
    simulation.load.cache_clear()
    try:
        yield
    finally:
        simulation.source = original
        simulation.load.cache_clear()


def check(file):
    """Run the cases of a file's kernels, or of those that use a header; raises an exception if one fails."""
    if file in COMPILED and nvrtc.find():
        user, kernel = COMPILED[file]
        nvrtc.compile_for(simulation.source(user), [kernel], launch.ARCHITECTURES[0])
    if file in USERS:
        for user in USERS[file]:
            check(user)
        return
    for name in PRIMITIVES.get(file, ()):
        for parameter in cases.SHORT:
            of, case = parameter.values
            if of == name:
                check_case(name, case)
    for name, options in blocks.BLOCKS.items():
        if any(part in name for part in BLOCKS.get(file, ())):
            blocks.compare(options)
            if file == "residual.cu":  # columns of more than a block of threads
                blocks.compare(options, **blocks.LONG_ROWS)
    if file in TESTS:
        TESTS[file]()
    if file not in PRIMITIVES:
        for name in updates.OPTIMIZERS:
            if name.startswith(file.removesuffix(".cu")):
                updates.test_an_optimizer_on_kernels_equals_that_on_the_cpu(name, "float32")
        if file == "clipping.cu":
            for most in (0.5, 1e6):
                updates.test_clipping_on_kernels_equals_that_on_the_cpu(most, "float32")
            updates.test_the_factor_of_small_gradients_divides_by_their_norm_plus_1e_6()


def check_case(name, case):
    """Compare a kernel with its rule, on arrays in order in memory and, if it accepts them, on others."""
    random = draws()
    arrays = case.draw(random, "float64")
    g = cases.cotangent(random, "float64")
    with simulated_kernels():
        cases.compare(name, "simulated", case, arrays, "float64", g)
        views = [cases.strided(array) for array in arrays]
        if cases.accepts(name, "simulated", views, case.parameters):
            cases.compare(name, "simulated", case, views, "float64", g)


def verdict_on(file, text, seconds):
    """Why a mutant is killed, or None; in its own process, because it may not end, or end the process.

    Args:
        seconds: after which it counts as one that does not end.
    """
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
        return receiver.recv() if receiver.poll(seconds) else "does not end"
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
    parser.add_argument("--list", action="store_true", help="print the verdict on every mutant")
    options = parser.parse_args()
    killed = total = equivalent = 0
    for path in sorted(launch.SOURCES.glob("*.cu*")):
        if options.pattern not in path.name:
            continue
        began = time.monotonic()
        check(path.name)
        seconds = SECONDS + TIMES * (time.monotonic() - began)
        for name, text, key in mutants(path.name):
            reason = reason_of(key)
            equivalent += reason is not None
            total += reason is None
            verdict = None if reason else verdict_on(path.name, text, seconds)
            killed += verdict is not None
            if options.list or not (verdict or reason):
                end = verdict or (f"equivalent: {reason}" if reason else "SURVIVES")
                print(f"{name}\n    {end}", flush=True)
    print(f"{killed} of {total} mutants killed, {equivalent} equivalent")
    return killed < total


if __name__ == "__main__":
    sys.exit(main())
