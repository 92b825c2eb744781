"""Each registered kernel equals its rule, forward and backward.

The kernels are found by asking the register. One that has no cases here fails, and so does one that declines a case.
"""

import inspect
import math

import numpy as np
import pytest

import tinyattn as ta
from tests.conftest import missing
from tinyattn.autograd.primitive import _KERNELS, PRIMITIVES, registered_kernels
from tinyattn.backend import blas, get_backend

# "simulated" are the kernels of a GPU, run without one in tests/kernels/cuda.
DEVICE = {"cpu": "cpu", "strict": "strict", "cuda": "cuda", "simulated": "strict"}


@pytest.fixture(autouse=True)
def one_thread():
    """As in workers, so that products are split; tests/kernels/cpu/test_products.py also tests whole ones."""
    with blas.one_thread():
        yield


class Case:
    """Inputs by shape (floats), as arrays (anything else) or None; parameters; a name."""

    def __init__(self, name, *inputs, **parameters):
        self.name = name
        self.inputs = inputs
        self.parameters = parameters

    @property
    def is_long(self):
        return any(isinstance(shape, tuple) and max(shape) > 512 for shape in self.inputs)

    def draw(self, random, dtype):
        arrays = []
        for given in self.inputs:
            if isinstance(given, tuple):
                given = random.standard_normal(given).astype(dtype)
            elif callable(given):
                given = given(random)
            arrays.append(given)
        return arrays


def ids(shape, high):
    return lambda random: random.integers(0, high, shape)


def booleans(shape, share=0.7):
    return lambda random: random.random(shape) < share


def some_ignored(shape, classes):
    return lambda random: np.where(
        random.random(shape) < 0.3, -100, random.integers(0, classes, shape)
    )


def attention_cases():
    for lengths in ((1, 1), (7, 7), (64, 64), (128, 128), (5, 130), (130, 5), (200, 200)):
        queries, keys = lengths
        for causal in (False, True):
            name = f"{queries} queries, {keys} keys{', causal' if causal else ''}"
            shapes = (2, 3, queries, 8), (2, 3, keys, 8), (2, 3, keys, 5)
            yield Case(name, *shapes, None, causal=causal, scale=0.3)
    for shape in ((9, 4), (3, 9, 4), (5, 1, 9, 4)):
        yield Case(f"axes {len(shape)}", shape, shape, shape, None, causal=True, scale=0.5)
    # Scores beyond what exp holds, in one tile, in several, and under a mask that leaves dead rows.
    for length in (40, 600):
        shape = (1, 2, length, 4)
        yield Case(f"large scores, length {length}", *[shape] * 3, None, causal=True, scale=40.0)
        mask = booleans((1, 1, length, length), 0.3)
        yield Case(f"large scores, masked, {length}", *[shape] * 3, mask, causal=False, scale=40.0)
    yield Case("more keys than a tile", *[(1, 1, 1100, 4)] * 3, None, causal=True, scale=0.5)
    shape = (2, 3, 90, 8)
    for mask_shape in ((2, 3, 90, 90), (90, 90), (2, 1, 1, 90)):
        mask = booleans(mask_shape, 0.1)
        yield Case(f"mask {mask_shape}", *[shape] * 3, mask, causal=True, scale=0.3)
    for length in (20, 140):
        shape = (2, 3, length, 8)
        options = {"causal": True, "scale": 0.3, "dropout_p": 0.4, "dropout_key": 987654321987}
        yield Case(f"dropout, length {length}", *[shape] * 3, None, **options)


CASES = {
    "add": [Case("residual", (8, 64, 64), (8, 64, 64))],
    "linear": [
        Case("tokens", (2, 7, 5), (5, 3), (3,)),
        Case("no bias", (11, 4), (4, 6), None),
        Case("one token", (1, 5), (5, 3), (3,)),
        Case("in pieces", (2, 70, 6), (6, 40), (40,)),
        Case("beyond the cache", (2, 1100, 64), (64, 96), (96,)),
    ],
    "layer_norm": [
        Case("rows", (3, 7, 12), (12,), (12,), axes=(-1,), eps=1e-5),
        Case("no bias", (9, 5), (5,), None, axes=(-1,), eps=1e-3),
        Case("bias only", (9, 5), None, (5,), axes=(-1,), eps=1e-3),
        Case("bare", (2, 9, 5), None, None, axes=(-1,), eps=1e-5),
        Case("two axes", (6, 3, 4), (3, 4), (3, 4), axes=(-2, -1), eps=1e-5),
        Case("several blocks", (9000, 32), (32,), (32,), axes=(-1,), eps=1e-5),
    ],
    "rms_norm": [
        Case("rows", (3, 7, 12), (12,), axes=(-1,), eps=1e-5),
        Case("bare", (2, 3, 9, 4), None, axes=(-1,), eps=1e-6),
        Case("two axes", (6, 3, 4), (3, 4), axes=(-2, -1), eps=1e-5),
        Case("several blocks", (9000, 32), (32,), axes=(-1,), eps=1e-5),
    ],
    "gelu": [
        Case("small", (3, 5), approximate="tanh"),
        Case("several blocks", (700, 390), approximate="tanh"),
    ],
    "relu_squared": [Case("small", (3, 5)), Case("several blocks", (700, 390))],
    "softmax": [
        Case("rows", (4, 3, 9)),
        Case("by number", (4, 9), axis=1),
        Case("one", (7,)),
        Case("several blocks", (3000, 50)),
    ],
    "log_softmax": [
        Case("rows", (4, 3, 9)),
        Case("by number", (4, 9), axis=1),
        Case("several blocks", (3000, 50)),
    ],
    "cross_entropy": [
        Case("mean", (2, 7, 11), ids((2, 7), 11)),
        Case("sum", (13, 5), ids((13,), 5), reduction="sum"),
        Case("none", (13, 5), ids((13,), 5), reduction="none"),
        Case("ignored, mean", (4, 8, 5), some_ignored((4, 8), 5)),
        Case("ignored, none", (4, 8, 5), some_ignored((4, 8), 5), reduction="none"),
        Case("ignored class", (30, 4), ids((30,), 4), ignore_index=2, reduction="sum"),
        Case("several blocks", (4000, 65), ids((4000,), 65)),
    ],
    "embedding": [
        Case("one-hot", ids((3, 40), 7), (7, 4)),
        Case("sorted", ids((3, 40), 600), (600, 4)),
        Case("sorted, repeated", ids((2000,), 600), (600, 3)),
        Case("padding", ids((3, 40), 7), (7, 4), padding_idx=2),
        Case("padding, sorted", ids((900,), 600), (600, 4), padding_idx=-1),
    ],
    "dropout": [
        Case("small", (3, 5), p=0.3, key=1234567890123),
        Case("several blocks", (700, 390), p=0.5, key=5),
        Case("nothing dropped", (3, 5), p=0.0, key=5),
    ],
    "rotary": [
        Case("heads", (2, 3, 7, 8), (7, 4), (7, 4)),
        Case("one head", (7, 2), (7, 1), (7, 1)),
    ],
    "attention": list(attention_cases()),
}

# Ring attention over several ranks: tests/attention/test_ring.py.
TESTED_ELSEWHERE = {"ring_attention", "distributed_ring_attention"}


def every_kernel_and_case():
    for name, kind in sorted(registered_kernels()):
        if name in TESTED_ELSEWHERE or (kind == "cuda" and missing("cuda")):
            continue
        marks = [pytest.mark.gpu] if kind == "cuda" else []
        for case in CASES.get(name, [None]):
            if kind == "strict" and case and case.is_long:
                continue  # slow there, and tested in tests/attention
            label = f"{name}-{kind}-{case.name if case else 'NO CASES'}"
            yield pytest.param(name, kind, case, id=label, marks=marks)


ALL = pytest.mark.parametrize(("name", "kind", "case"), list(every_kernel_and_case()))


def kernel_of(name, kind):
    return registered_kernels()[name, "cuda" if kind == "simulated" else kind]


def on_device(arrays, kind):
    backend = get_backend(DEVICE[kind])
    return backend, [a if a is None else backend.asarray(a) for a in arrays]


def by_rule(name, arrays, parameters, g):
    """Output and cotangents in float64, on the host, with every kernel switched off."""
    tensors = [
        a
        if a is None or a.dtype.kind != "f"
        else ta.tensor(a.astype(np.float64), requires_grad=True)
        for a in arrays
    ]
    with ta.reference():
        out = PRIMITIVES[name](*tensors, **parameters)
    leaves = [t for t in tensors if isinstance(t, ta.Tensor)]
    found = iter(ta.grad(out, leaves, grad_outputs=ta.tensor(g.astype(np.float64))))
    cotangents = [next(found).numpy() if isinstance(t, ta.Tensor) else None for t in tensors]
    return out.numpy(), cotangents


def run_kernel(name, kind, arrays, parameters, draw_g):
    """Output and cotangents of the kernel itself, on the host; inputs and g must come back untouched."""
    forward, backward = kernel_of(name, kind)
    backend, own = on_device(arrays, kind)
    before = [None if a is None else backend.to_host(a).copy() for a in own]
    with np.errstate(all="ignore"):  # as within a primitive
        result = forward(*own, **parameters)
    assert result is not NotImplemented, "the kernel declines this case"
    out, residuals = result
    host_out = backend.to_host(out).copy()
    g = draw_g(host_out)
    own_g = backend.asarray(g)
    cotangents = backward(own_g, residuals)
    once_more = backward(own_g, residuals)  # residuals must survive: a graph may be retained
    if not isinstance(cotangents, tuple):
        cotangents, once_more = (cotangents,), (once_more,)
    for one, other in zip(cotangents, once_more, strict=True):
        if one is not None:
            np.testing.assert_array_equal(backend.to_host(one), backend.to_host(other))
    np.testing.assert_array_equal(backend.to_host(own_g), g)
    np.testing.assert_array_equal(backend.to_host(out), host_out)
    for array, copy in zip(own, before, strict=True):
        if array is not None:
            np.testing.assert_array_equal(backend.to_host(array), copy)
    return (
        host_out,
        [c if c is None else backend.to_host(c) for c in cotangents],
        g,
    )


def assert_close(found, expected, dtype, what):
    """Equal to some roundings of the largest element."""
    assert found.dtype == dtype and found.shape == expected.shape, what
    scale = max(np.abs(expected).max(initial=0), 0.1)
    tolerance = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-3}[dtype] * scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=what)


def compare(name, kind, case, arrays, dtype, draw_g):
    out, cotangents, g = run_kernel(name, kind, arrays, case.parameters, draw_g)
    expected, expected_cotangents = by_rule(name, arrays, case.parameters, g)
    assert_close(out, expected, dtype, "output")
    compared = 0
    for position, (found, wanted) in enumerate(zip(cotangents, expected_cotangents, strict=True)):
        if found is None:  # no derivative, or the kernel leaves it to the rule
            if arrays[position] is not None and arrays[position].dtype.kind == "f":
                input_name = PRIMITIVES[name].input_names[position]
                registered = "cuda" if kind == "simulated" else kind
                assert input_name in _KERNELS[name, registered].left_to_rule
            continue
        compared += 1
        assert_close(found, wanted, dtype, f"cotangent of input {position}")
    assert compared


@pytest.mark.parametrize(("name", "kind"), sorted(registered_kernels()))
def test_a_kernel_has_the_parameters_and_defaults_of_its_rule(name, kind):
    kernel, rule = (
        inspect.signature(function).parameters
        for function in (registered_kernels()[name, kind][0], PRIMITIVES[name].forward)
    )
    for parameter in kernel.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert parameter.default == rule[parameter.name].default


@ALL
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_kernel_equals_its_rule(name, kind, case, dtype, random):
    assert case is not None, f"kernel {name} has no cases: add some to CASES"
    compare(
        name,
        kind,
        case,
        case.draw(random, dtype),
        dtype,
        lambda out: random.standard_normal(out.shape).astype(dtype),
    )


@ALL
def test_a_kernel_equals_its_rule_on_strided_arrays(name, kind, case, random):
    """Inputs are transposed views or every second element; the cotangent is a view as well."""
    assert case is not None, f"kernel {name} has no cases: add some to CASES"
    arrays = [strided(a) for a in case.draw(random, "float64")]
    if not accepts(name, kind, arrays, case.parameters):
        # It may decline, if only for the memory: then it must take the contiguous copies.
        arrays = [a if a is None else np.ascontiguousarray(a) for a in arrays]
    compare(name, kind, case, arrays, "float64", lambda out: strided(draw_like(out, random)))


def accepts(name, kind, arrays, parameters):
    _, own = on_device(arrays, kind)
    return kernel_of(name, kind)[0](*own, **parameters) is not NotImplemented


def draw_like(out, random):
    return np.asarray(random.standard_normal(out.shape))


def strided(array):
    """The same elements, in memory in another order: last two axes swapped, or every second place of a longer one."""
    if array is None or array.ndim == 0:
        return array
    if array.ndim >= 3:  # heads and length swapped, as projections leave them
        return np.ascontiguousarray(array.swapaxes(-3, -2)).swapaxes(-3, -2)
    if array.ndim == 2:
        return np.ascontiguousarray(array.T).T
    longer = np.zeros(array.shape[:-1] + (2 * array.shape[-1],), array.dtype)
    longer[..., ::2] = array
    return longer[..., ::2]


@pytest.mark.parametrize("name", sorted(CASES))
def test_nan_in_gives_nan_out(name, random):
    case = CASES[name][0]
    arrays = case.draw(random, "float32")
    position = 1 if name == "embedding" else 0
    arrays[position][...] = np.nan
    with np.errstate(all="ignore"):
        out = PRIMITIVES[name](*arrays, **case.parameters)
        assert np.isnan(ta.Tensor(out).numpy()).any()


def test_layer_norm_is_accurate_for_rows_far_from_zero():
    x = (10000 + np.arange(16) * 1e-3).astype(np.float32)[None].repeat(3, 0)
    forward, _ = registered_kernels()["layer_norm", "cpu"]
    out, _ = forward(x, None, None, axes=(-1,), eps=1e-5)
    exact = x.astype(np.float64)
    exact = exact - exact.mean(-1, keepdims=True)
    exact /= np.sqrt((exact * exact).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(out, exact, atol=1e-6)


def test_attention_stores_no_array_of_all_scores():
    forward, _ = registered_kernels()["attention", "cpu"]
    q = np.ones((1, 1, 1000, 2), np.float32)
    _, call = forward(q, q, q, None, causal=True, scale=0.5)
    kept = sum(value.size for value in vars(call).values() if isinstance(value, np.ndarray))
    assert kept < 10 * math.prod(q.shape)
