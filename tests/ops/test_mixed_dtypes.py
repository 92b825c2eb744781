"""Operations on inputs of different floating-point dtypes are as accurate as their widest input.

The operations are found by asking the survey for its cases, the kinds of attention by asking their register. Output and
gradients are compared with those of all inputs in float64; a gradient has the dtype of its input.
"""

import contextlib

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.attention.kinds import attention_kind, attention_kinds
from tinyattn.survey.cases import CASES

TOLERANCE = {"float64": 1e-11, "float32": 3e-7, "float16": 3e-3}
LEFT_OUT = {"distributed_ring_attention", "astype", "to_device"}  # of one device or dtype each


def is_float(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def drawn(case):
    """The inputs of a case, with numbers that every dtype holds."""
    return [
        value.astype("float16").astype("float64") if is_float(value) else value
        for value in case.draw()
    ]


def mixtures(count):
    """Dtypes of ``count`` inputs: one of them float64, or all but one."""
    for low in ("float32", "float16"):
        for one in range(count):
            yield [low] * one + ["float64"] + [low] * (count - 1 - one)
            if count > 2:
                yield ["float64"] * one + [low] + ["float64"] * (count - 1 - one)


def results(function, arrays, dtypes, device, create_graph):
    """The output and the gradients of a call, host arrays."""
    dtypes = iter(dtypes)
    inputs = [
        ta.tensor(value, dtype=next(dtypes), requires_grad=True, device=device)
        if is_float(value)
        else ta.tensor(value, device=device)
        if isinstance(value, np.ndarray)
        else value
        for value in arrays
    ]
    out = function(*inputs)
    leaves = [x for x in inputs if isinstance(x, ta.Tensor) and x.requires_grad]
    g = np.random.default_rng(1).standard_normal(out.shape).astype("float16")
    g = ta.tensor(g, dtype=out.dtype, device=device)
    gradients = ta.grad(out, leaves, g, create_graph=create_graph)
    return [out.numpy(), *(gradient.numpy() for gradient in gradients)]


def check(function, arrays, device):
    count = sum(map(is_float, arrays))
    with ta.reference():
        exact = results(function, arrays, ["float64"] * count, "cpu", create_graph=False)
    for dtypes in mixtures(count):
        for way in (contextlib.nullcontext, ta.reference):
            with way():
                found = results(function, arrays, dtypes, device, way is ta.reference)
            for one, expected, dtype in zip(found, exact, ["float64", *dtypes], strict=True):
                assert one.dtype == dtype, dtypes
                atol = TOLERANCE[dtype] * np.abs(expected).max(initial=1e-3)
                np.testing.assert_allclose(one, expected, rtol=0, atol=atol, err_msg=str(dtypes))


SEVERAL = [name for name in CASES if any(sum(map(is_float, c.draw())) > 1 for c in CASES[name])]


@pytest.mark.parametrize("name", sorted(set(SEVERAL) - LEFT_OUT))
def test_operations(name, device):
    for case in CASES[name][:4]:
        arrays = drawn(case)
        if sum(map(is_float, arrays)) > 1:
            operation = ta.autograd.PRIMITIVES[name]
            check(lambda *x, p=case.parameters, f=operation: f(*x, **p), arrays, device)


@pytest.mark.parametrize("kind", attention_kinds())
def test_kinds_of_attention(kind, random, device):
    kind = attention_kind(kind)
    arrays = [a.astype("float16").astype("float64") for a in random.normal(size=(3, 2, 6, 4))]

    def attend(q, k, v):
        options = kind.complete(dict(kind.check_options))
        return ta.scaled_dot_product_attention(q, k, v, kind=kind.name, causal=True, **options)

    check(attend, arrays, device)


@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
def test_norms_with_their_default_eps(normalize, random, device):
    arrays = [
        random.normal(size=shape).astype("float16").astype("float64") for shape in ((3, 5), 5)
    ]
    check(lambda x, weight: normalize(x, 5, weight), arrays, device)


def test_arrays_as_operands():
    x = ta.tensor([1.0, 2.0], requires_grad=True)
    y = ta.layer_norm(x, 2, np.array([0.1, 0.2])) * np.array([0.5, 0.1])
    y.sum().backward()
    assert y.dtype == "float64" and x.grad.dtype == "float32"


def test_integers_and_numbers_leave_the_dtype(device):
    x = ta.tensor([1.0, 2.0], dtype="float16", device=device)
    assert (x * 2.5).dtype == (x * np.float64(2.5)).dtype == "float16"
    assert ta.where(x > 1, x, 0.1).dtype == "float16"
