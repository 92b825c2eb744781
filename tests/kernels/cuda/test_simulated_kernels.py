"""Every kernel of ``kernels/cuda`` equals its rule, executed thread by thread in the simulator.

The kernels are those in the registry, and the cases include those of tests/kernels/test_kernels_equal_rules.py.
"""

import numpy as np
import pytest

import tinyattn as ta
from tests.kernels.cuda.tools import need_compiler
from tests.kernels.test_kernels_equal_rules import (
    CASES,
    Case,
    accepts,
    booleans,
    compare,
    draw_like,
    ids,
    strided,
)
from tinyattn.autograd.primitive import registered_kernels
from tinyattn.kernels.cuda import simulated_kernels

need_compiler()

NAMES = [
    name
    for (name, kind), (forward, _) in sorted(registered_kernels().items(), key=lambda item: item[0])
    if kind == "cuda" and forward.__module__.startswith("tinyattn.kernels.cuda")
]
# Further sizes: rows with several numbers per thread, rows that a block shares, several blocks.
MORE = {
    "layer_norm": [
        Case("four numbers a thread", (5, 99), (99,), (99,), axes=(-1,), eps=1e-5),
        Case("a block a row", (3, 600), (600,), (600,), axes=(-1,), eps=1e-5),
    ],
    "rms_norm": [
        Case("four numbers a thread", (5, 99), (99,), axes=(-1,), eps=1e-5),
        Case("a block a row", (3, 600), (600,), axes=(-1,), eps=1e-5),
    ],
    "softmax": [Case("four numbers a thread", (5, 99)), Case("a block a row", (3, 600))],
    "cross_entropy": [
        Case("four classes a thread", (5, 99), ids((5,), 99)),
        Case("a block a row", (3, 1100), ids((3,), 1100)),
    ],
    "attention": [
        Case(f"head_dim {size}", *[(1, 2, 40, size)] * 3, None, causal=causal, scale=0.2)
        for size in (16, 24, 32, 64, 96, 128)
        for causal in (False, True)
    ]
    + [
        Case(
            f"{queries} queries, {keys} keys, {dim} features",
            (2, queries, dim),
            (2, keys, dim),
            (2, keys, dim),
            None,
            causal=True,
            scale=0.3,
        )
        for queries, keys, dim in ((5, 9, 8), (9, 5, 8), (40, 70, 64), (70, 40, 64), (135, 140, 8))
    ]
    + [
        Case(
            "mask of queries",
            *[(2, 3, 40, 8)] * 3,
            booleans((2, 3, 40, 1)),
            causal=False,
            scale=0.3,
        )
    ],
    "gelu": [
        Case("exact", (3, 5), approximate="none"),
        Case("two blocks", (5, 99), approximate="tanh"),
    ],
    "relu_squared": [Case("two blocks", (5, 99))],
    "dropout": [Case("two blocks", (5, 99), p=0.4, key=77)],
    "rotary": [Case("four blocks", (2, 3, 37, 8), (37, 4), (37, 4))],
    "linear": [Case("two blocks", (7, 6), (6, 99), (99,))],
    "embedding": [
        Case("two blocks", ids((9,), 5), (5, 70)),
        Case("two blocks of ids", ids((300,), 5), (5, 3)),
    ],
}


def is_long(name, case):
    """Whether a case runs in one dtype only. Tiles of attention are short: 130 keys are several."""
    if name == "attention":
        return max(case.inputs[0] + case.inputs[1]) > 100
    return case.is_long


def kernels_and_cases(long):
    for name in NAMES:
        for case in CASES.get(name, [None]) + MORE.get(name, []):
            if name == "attention" and min(case.inputs[0][-2], case.inputs[1][-2]) > 150:
                continue  # too many pairs of queries and keys for fibers
            if case is None or is_long(name, case) == long:
                yield pytest.param(name, case, id=f"{name}-{case.name if case else 'NO CASES'}")


SHORT = list(kernels_and_cases(long=False))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("name", "case"), SHORT)
def test_a_kernel_equals_its_rule(name, case, dtype, random):
    assert case is not None, f"kernel {name} has no cases: add some to CASES"
    with simulated_kernels():
        compare(name, "simulated", case, case.draw(random, dtype), dtype, cotangent(random, dtype))


@pytest.mark.parametrize(("name", "case"), list(kernels_and_cases(long=True)))
def test_a_kernel_of_many_blocks_equals_its_rule(name, case, random):
    with simulated_kernels():
        arrays = case.draw(random, "float32")
        compare(name, "simulated", case, arrays, "float32", cotangent(random, "float32"))


@pytest.mark.parametrize(("name", "case"), SHORT)
def test_a_kernel_equals_its_rule_on_arrays_out_of_order_in_memory(name, case, random):
    arrays = [strided(a) for a in case.draw(random, "float32")]
    with simulated_kernels():
        if not accepts(name, "simulated", arrays, case.parameters):
            arrays = [a if a is None else np.ascontiguousarray(a) for a in arrays]

        def draw_g(out):
            return strided(draw_like(out, random).astype("float32"))

        compare(name, "simulated", case, arrays, "float32", draw_g)


def cotangent(random, dtype):
    return lambda out: random.standard_normal(out.shape).astype(dtype)


def test_softmax_of_masked_and_infinite_scores_equals_the_rule(random):
    scores = random.standard_normal((5, 40))
    scores[0, 3:] = -np.inf
    scores[1] = -np.inf
    scores[2, [4, 7]] = np.inf
    results = []
    for device in ("strict", "cpu"):
        x = ta.tensor(scores, requires_grad=True, device=device)
        with simulated_kernels() if device == "strict" else ta.reference():
            y = ta.softmax(x)
            y.backward(ta.tensor(np.cos(np.arange(200.0)).reshape(5, 40), device=device))
        results.append((y.numpy(), x.grad.numpy()))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cross_entropy_of_large_and_infinite_logits_equals_the_rule(dtype, random):
    logits = (500 * random.standard_normal((6, 99))).astype(dtype)
    logits[0, 5:] = -np.inf
    logits[1, :70] = -np.inf  # all that some threads read
    logits[2, 9] = np.inf
    targets = np.array([3, 80, 9, 0, 98, -100])
    results = []
    for device in ("strict", "cpu"):
        x = ta.tensor(logits, requires_grad=True, device=device)
        with simulated_kernels() if device == "strict" else ta.reference():
            loss = ta.cross_entropy(x, ta.tensor(targets, device=device), reduction="none")
            loss.backward(ta.tensor(np.arange(1.0, 7.0), dtype=dtype, device=device))
        results.append((loss.numpy(), x.grad.numpy()))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [5, 600])  # a warp a row, a block a row
@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
def test_rows_whose_squares_overflow_are_normalized(normalize, width, random):
    x = (1e25 * random.standard_normal((3, width))).astype("float32")
    x[1] *= 1e-25  # in range
    g = random.standard_normal(x.shape).astype("float32")
    results = []
    for device in ("strict", "cpu"):
        t = ta.tensor(x, requires_grad=True, device=device)
        with simulated_kernels() if device == "strict" else ta.reference():
            y = normalize(t, width)
            y.backward(ta.tensor(g, device=device))
        dx = t.grad.numpy().astype("float64")
        results.append((y.numpy(), dx / np.abs(dx).max(axis=-1, keepdims=True)))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_layer_norm_is_accurate_for_rows_far_from_zero(random):
    x = (10000 + 2.0**-10 * random.integers(0, 9, (8, 33))).astype(np.float32)  # exact
    g = random.standard_normal(x.shape).astype(np.float32)
    with simulated_kernels():
        t = ta.tensor(x, requires_grad=True, device="strict")
        y = ta.layer_norm(t, 33)
        y.backward(ta.tensor(g, device="strict"))
    exact = x.astype(np.float64)
    exact = exact - exact.mean(-1, keepdims=True)
    sigma = np.sqrt((exact * exact).mean(-1, keepdims=True) + 1e-5)
    z = exact / sigma
    np.testing.assert_allclose(y.numpy(), z, atol=1e-6)
    dx = (g - g.mean(-1, keepdims=True) - z * (g * z).mean(-1, keepdims=True)) / sigma
    np.testing.assert_allclose(t.grad.numpy(), dx, rtol=0, atol=1e-5 * np.abs(dx).max())
