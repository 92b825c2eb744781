"""Kernels in CUDA C++ for the device ``"cuda"``: each ``.cu`` beside the Python that launches it.

They are written in CUDA C++, and not in Python that is compiled, for three reasons. It is the language of the papers
and of every other implementation, in which a student can compare. CuPy compiles it as it is, so that CuPy remains the
one dependency. And a C++ compiler of the host can compile the very same text: the tests run each line of it without a
GPU, thread by thread (``simulation.py``).

A kernel is registered as those for the CPU are: ``forward(*inputs, **parameters) -> (out, residuals)`` and
``backward(g, residuals) -> cotangents``. All reductions have a fixed order, so that a run is repeated to the last bit.
"""

from ...autograd.modes import simulated_kernels
from . import (
    adamw,
    attention,
    clipping,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    linear,
    muon,
    relu_squared,
    rms_norm,
    rotary,
    softmax,
    transformer_block,
)
