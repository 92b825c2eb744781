"""Benchmarks against other libraries and the machine's peak: ``python -m benchmarks NAME``.

Each contestant runs in its own process, so that threads and memory are independent, and contestants take turns:
A B A B. The results are the median over all turns, and ratios of medians. A library that is not installed is reported
and skipped.
"""

NAMES = {
    "training_step": "a training step of GPT against PyTorch eager, compiled, and JAX; share of sgemm peak; memory",
    "attention": "causal attention, forward and backward, from length 64 to 16384, against PyTorch's",
    "sampling": "tokens per second with and without a KV cache, against PyTorch",
    "time_to_quality": "time to a validation loss of 1.90 on Tiny Shakespeare, whole programs (minutes)",
    "recipes": "changes to the default recipe at equal time, losses over seeds (hours; --quick: minutes)",
    "calibration": "the verdicts of the gradient checker on 30,000 right and as many wrong gradients",
    "gpt2": "GPT-2 with 124 million parameters: load, forward, sample, fine-tune, against transformers",
    "tape": "overhead of recording and differentiating one operation",
    "gradcheck_peers": "gradient checkers on 50 right functions and 50 mistakes: false alarms, misses, time",
}
