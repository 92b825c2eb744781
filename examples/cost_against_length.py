"""Time and memory of the five kinds of attention as a function of the length.

Article, section 12 ("计算复杂度与优化方向"). Claims: dense attention takes O(n^2) time and memory; FlashAttention does
not store the n by n matrix; window and linear attention take O(n) time; ring attention splits the sequence.

Measured for one head of 64 dimensions in float32, forward and backward: peak memory above that before the call
(resident set size, in a new process for each measurement, after a warm-up on a small input); and CPU time, the best of
several passes on one thread. The growth is the exponent p of cost = c n^p, a least-squares fit to the logarithms of the
longer half of the lengths.

Flash attention takes O(n^2) time, like dense attention: it saves memory and memory traffic. Ring attention runs here on
four simulated ranks in one process: together they do the work of dense attention, and store the scores of one rank's
queries with another's keys, (n/4)^2 of them, so that memory grows faster than n. Window attention sees 128 keys.
"""

import multiprocessing
import time

import numpy as np
import threadpoolctl

import tinyattn as ta
from harness import BLUE, GRAY, GREEN, ORANGE, PURPLE, example

KINDS = {
    "dense": ({}, ORANGE, "o"),
    "flash": ({}, BLUE, "s"),
    "window": ({"window": 128}, GREEN, "^"),
    "linear": ({}, PURPLE, "v"),
    "ring": ({"ranks": 4}, GRAY, "D"),
}
HEAD_DIM = 64


def highest_memory():
    """Peak memory of this process, in bytes."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:  # not Linux
        import resource
        import sys

        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return highest if sys.platform == "darwin" else 1024 * highest


def attend(kind, length, seed=0):
    """One causal head, forward and backward."""
    random = np.random.default_rng(seed)
    q, k, v = (
        ta.tensor(
            random.standard_normal((1, length, HEAD_DIM), dtype=np.float32), requires_grad=True
        )
        for _ in range(3)
    )
    cotangent = random.standard_normal((1, length, HEAD_DIM), dtype=np.float32)
    out = ta.scaled_dot_product_attention(q, k, v, causal=True, kind=kind, **KINDS[kind][0])
    out.backward(cotangent)


def measure(kind, length, passes):
    """Peak memory above the start in bytes, and CPU time in seconds; to be called in a new process."""
    with threadpoolctl.threadpool_limits(1):
        attend(kind, 300)
        start = highest_memory()
        times = []
        for _ in range(passes):
            started = time.process_time()
            attend(kind, length)
            times.append(time.process_time() - started)
        return highest_memory() - start, min(times)


def measure_all(lengths_of, passes=1):
    """A dict of (kind, length) to memory in bytes and CPU time in seconds."""
    jobs = [(kind, length, passes) for kind in KINDS for length in lengths_of[kind]]
    # "spawn": a forked process would start with the memory of this one.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        results = pool.starmap(measure, jobs, chunksize=1)
    return {job[:2]: result for job, result in zip(jobs, results)}


def exponent(lengths, costs):
    """p of cost = c length^p, by least squares on the logarithms of the longer half."""
    half = len(lengths) // 2 if len(lengths) > 3 else 0
    return np.polyfit(np.log(lengths[half:]), np.log(costs[half:]), 1)[0]


@example
def main(run):
    if run.quick:
        lengths_of = {kind: (1024, 2048, 4096) for kind in KINDS}
        lengths_of["dense"] = (512, 1024, 2048)
    else:
        lengths_of = {kind: (1024, 2048, 4096, 8192, 16384) for kind in KINDS}
        lengths_of["dense"] = (512, 1024, 2048, 4096)
        lengths_of["ring"] = (1024, 2048, 4096, 8192)
    measured = measure_all(lengths_of, passes=run.choose(2, 1))

    every = sorted({length for lengths in lengths_of.values() for length in lengths})
    exponents = []
    for which, name, unit in (
        (0, "memory above the start, MB", 1e6),
        (1, "processor time, ms", 1e-3),
    ):
        rows, fitted = [], {}
        for kind, lengths in lengths_of.items():
            costs = {length: measured[kind, length][which] / unit for length in lengths}
            # For short sequences, much of the time does not depend on the length.
            if which == 0 or not run.quick:
                fitted[kind] = exponent(lengths, list(costs.values()))
            cells = (f"{costs[length]:.1f}" if length in costs else "" for length in every)
            rows.append((kind, *cells, f"{fitted[kind]:.2f}" if kind in fitted else "-"))
        exponents.append(fitted)
        print(f"{name}:\n")
        run.print_table(("length", *every, "exponent"), rows)
        print()

    run.say_what_is_missing("how time grows, which needs more and longer lengths")

    of_memory, of_time = exponents
    assert 1.7 < of_memory["dense"] < 2.3
    for kind in ("flash", "window", "linear"):
        assert 0.7 < of_memory[kind] < 1.4
    assert 2.5 * measured["flash", 2048][0] < measured["dense", 2048][0]
    if not run.quick:  # times depend on the load of the machine; long ones are more reliable
        assert of_time["dense"] > 1.5
        assert of_time["window"] < 1.5 and of_time["linear"] < 1.5
        assert measured["flash", 16384][0] < 150e6

    draw(run, lengths_of, measured, exponents)


def draw(run, lengths_of, measured, exponents):
    figure, axes = run.figure(1, 2, width=4.8, height=3.8)
    for which, (panel, title, unit) in enumerate(
        zip(axes, ("memory above the start, MB", "processor time, ms"), (1e6, 1e-3))
    ):
        for kind, (_, color, marker) in KINDS.items():
            lengths = lengths_of[kind]
            costs = [measured[kind, length][which] / unit for length in lengths]
            fitted = exponents[which].get(kind)
            label = kind if fitted is None else f"{kind}: $n^{{{fitted:.2f}}}$"
            panel.loglog(lengths, costs, color=color, marker=marker, label=label)
        every = sorted({length for lengths in lengths_of.values() for length in lengths})
        panel.set_xscale("log", base=2)
        panel.set_xticks(every, every)
        panel.set(title=title, xlabel="length n")
        panel.legend(fontsize=8)
    run.save(figure)


if __name__ == "__main__":
    main()
