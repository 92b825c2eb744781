"""Comparisons of tinyattn with its peers, and with what the machine could do: ``python -m benchmarks NAME``.

Every contestant runs in a process of its own, so that neither its threads nor its memory disturb the others, and they
take turns: A B A B. What is reported is the median over all turns, and the ratio of the medians. A peer that is not
installed is named and left out.
"""

NAMES = {
    "training_step": "a training step of GPT against PyTorch eager, compiled, and JAX; share of sgemm peak; memory",
    "attention": "causal attention, forward and backward, from length 64 to 16384, against PyTorch's",
    "sampling": "tokens a second with and without a cache, against PyTorch",
    "time_to_quality": "time to a validation loss of 1.90 on Tiny Shakespeare, whole programs (minutes)",
    "calibration": "the verdicts of the gradient checker on 30,000 right and as many wrong gradients",
    "tape": "what recording and walking one operation costs",
}
