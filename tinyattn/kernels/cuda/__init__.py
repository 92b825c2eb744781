"""Kernels in CUDA C++ for the device ``"cuda"``: each ``.cu`` file is next to the Python module that launches it.

They are written in CUDA C++, not in a compiled subset of Python, for three reasons. It is the language of the papers
and of most other implementations, with which a student can compare. CuPy compiles it unchanged, so that CuPy remains
the only dependency. And the C++ compiler of the host compiles the same source: the tests run every line without a GPU,
thread by thread (``simulation.py``).

Kernels are registered like those for the CPU: ``forward(*inputs, **parameters) -> (out, residuals)`` and
``backward(g, residuals) -> cotangents``. All reductions have a fixed order, so that runs are bit-identical.
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
