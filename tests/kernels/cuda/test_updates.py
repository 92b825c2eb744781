"""Optimizers and gradient clipping with simulated CUDA kernels equal those on the CPU."""

import numpy as np
import pytest

import tinyattn as ta
from tests.kernels.cuda.tools import need_compiler
from tinyattn.backend.launches import recorded_launches
from tinyattn.kernels.cuda import simulated_kernels
from tinyattn.kernels.updates import _UPDATES
from tinyattn.optim.clipping import clip_arrays

need_compiler()

SHAPES = {
    "wide": (8, 24),
    "tall": (24, 8),
    "square": (9, 9),
    "again": (8, 24),
    "several blocks": (20, 30),
    "several blocks again": (20, 30),
    "vector": (5,),
}
OPTIMIZERS = {
    "adamw": lambda p: ta.optim.AdamW(p, lr=0.1, betas=(0.8, 0.9), weight_decay=0.3),
    "adamw, large eps": lambda p: ta.optim.AdamW(p, lr=0.1, eps=0.5),
    "muon": lambda p: ta.optim.Muon(p, lr=0.1, weight_decay=0.2),
    "muon, plain": lambda p: ta.optim.Muon(p, lr=0.1, nesterov=False, ns_steps=2),
    "muon, in parts": lambda p: ta.optim.Muon(
        [{"params": p[:1], "parts": 3}, {"params": p[1:], "lr": 0.2}], lr=0.1
    ),
}


def parameters(device, dtype, names):
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal(shape) for name, shape in SHAPES.items()}
    return [ta.tensor(arrays[n], dtype=dtype, device=device, requires_grad=True) for n in names]


def trained(name, device, dtype, steps=3):
    """The parameters after some steps; one of them has no gradient in the second."""
    chosen = parameters(
        device, dtype, [n for n in SHAPES if n != "vector" or name.startswith("adamw")]
    )
    optimizer = OPTIMIZERS[name](chosen)
    random = np.random.default_rng(1)
    for step in range(steps):
        for position, parameter in enumerate(chosen):
            gradient = random.standard_normal(parameter.shape).astype(dtype)
            missing = step == 1 and position == 2
            parameter.grad = None if missing else ta.tensor(gradient, device=device)
        optimizer.step()
    return [parameter.numpy() for parameter in chosen], optimizer.state_dict()["arrays"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_on_kernels_equals_that_on_the_cpu(name, dtype):
    with simulated_kernels(), recorded_launches() as launches:
        found, state = trained(name, "strict", dtype)
    expected, expected_state = trained(name, "cpu", dtype)
    prefix = name.partition(",")[0]
    assert any(launch.startswith(prefix) for launch in launches)
    tolerance = {"float64": 1e-10, "float32": 3e-5}[dtype]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
    for key, array in expected_state.items():
        np.testing.assert_allclose(state[key], array, rtol=0, atol=tolerance, err_msg=key)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("max_norm", [0.5, 1e6, np.inf])
def test_clipping_on_kernels_equals_that_on_the_cpu(max_norm, dtype):
    results = []
    for device in ("strict", "cpu"):
        chosen = parameters(device, dtype, SHAPES)
        for parameter in chosen:
            parameter.grad = parameter.detach() * 3.0
        with simulated_kernels(), recorded_launches() as launches:
            norm = ta.optim.clip_grad_norm(chosen, max_norm)
        assert ("clip_factor" in launches) == (device == "strict" and dtype != "float64")
        results.append([norm, *(parameter.grad.numpy() for parameter in chosen)])
    tolerance = {"float64": 1e-12, "float32": 1e-6, "float16": 1e-3}[dtype]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_the_factor_of_small_gradients_divides_by_their_norm_plus_1e_6():
    arrays = [ta.backend.get_backend("strict").asarray(np.float32([3e-6, 4e-6]))]
    with simulated_kernels():
        norm = float(clip_arrays(arrays, 1e-6))
    assert norm == pytest.approx(5e-6)
    np.testing.assert_allclose(arrays[0].get(), np.float32([3e-6, 4e-6]) / 6, rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_norm_that_is_not_finite_leaves_the_gradients_and_a_huge_one_does_not(value):
    backend = ta.backend.get_backend("strict")
    arrays = [backend.asarray(np.array([1.0, value], "float32"))]
    with simulated_kernels():
        norm = float(clip_arrays(arrays, 1.0))
    if value == 1e30:
        assert norm == pytest.approx(1e30)
        np.testing.assert_allclose(arrays[0].get(), [1e-30, 1.0], rtol=1e-5)
    else:
        assert not np.isfinite(norm) and arrays[0].get()[0] == 1.0


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e22), ("float64", 1e200)])
def test_gradients_whose_squares_overflow(dtype, size):
    """The kernel of AdamW limits them; clipping and Muon leave those of float64 to the rules."""
    gradient = np.diag([3.0, -4.0]) * size
    found = {}
    for device in ("strict", "cpu"):
        with simulated_kernels():
            for name, kind in (("adamw", ta.optim.AdamW), ("muon", ta.optim.Muon)):
                p = ta.zeros((2, 2), dtype=dtype, device=device, requires_grad=True)
                p.grad = ta.tensor(gradient, dtype=dtype, device=device)
                kind([p], lr=0.1, weight_decay=0.0).step()
                found.setdefault(name, []).append(p.numpy())
            norm = ta.optim.clip_grad_norm([p], 1.0)
            assert norm == pytest.approx(5 * size)
            found.setdefault("clipped", []).append(p.grad.numpy())
    np.testing.assert_allclose(found["adamw"][0], np.diag([-0.1, 0.1]), rtol=1e-5)
    np.testing.assert_allclose(found["clipped"][0], np.diag([0.6, -0.8]), rtol=1e-5)
    for one, other in found.values():
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adamw_limits_gradients_whose_squares_overflow(dtype):
    """As on the CPU: from the first number whose square overflows, and not infinity."""
    first = np.array(2.0 ** (np.finfo(dtype).maxexp // 2), dtype)
    largest = np.finfo(dtype).max
    gradient = np.array([first, np.nextafter(first, 0, dtype=dtype), largest, np.inf, 1.0], dtype)
    results = []
    for device in ("strict", "cpu"):
        p = ta.zeros(10, dtype=dtype, device=device, requires_grad=True)
        optimizer = ta.optim.AdamW([p], lr=0.1, weight_decay=0.0)
        for factor in (1, 0.125):
            g = np.concatenate([gradient, -gradient]) * np.array(factor, dtype)
            p.grad = ta.tensor(g, device=device)
            with simulated_kernels():
                optimizer.step()
        results.append(p.numpy())
    np.testing.assert_allclose(*results, rtol=1e-5)
    assert (np.isfinite(results[0]).reshape(2, 5) == [True, True, True, False, True]).all()


def test_every_update_that_has_a_kernel_is_tested_here():
    assert {name.partition("_")[0] for name, _ in _UPDATES} == {"adamw", "muon", "clip"}
