"""Every optimizer equals PyTorch's, step by step, also when some parameters lack a gradient."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import optim

torch = pytest.importorskip("torch")

SHAPES = [(3, 4), (5,), (), (2, 3, 4), (1, 7)]


def assert_same_steps(ours, theirs, device, shapes=SHAPES, steps=7):
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape) for shape in shapes]
    mine = [ta.tensor(array, requires_grad=True, device=device) for array in arrays]
    its = [torch.tensor(array, requires_grad=True) for array in arrays]
    ours, theirs = ours(mine), theirs(its)
    for step in range(steps):
        for position, (a, b) in enumerate(zip(mine, its)):
            gradient = random.normal(size=a.shape)
            absent = (step + position) % 3 == 0
            a.grad = None if absent else ta.tensor(gradient, device=device)
            b.grad = None if absent else torch.tensor(gradient)
        ours.step()
        theirs.step()
        for a, b in zip(mine, its):
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ],
)
def test_sgd(options, device):
    assert_same_steps(
        lambda p: optim.SGD(p, **options), lambda p: torch.optim.SGD(p, **options), device
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.3},
        {"lr": 0.1, "eps": 1e-2, "betas": (0.0, 0.5)},
    ],
)
def test_adamw(options, device):
    assert_same_steps(
        lambda p: optim.AdamW(p, **options), lambda p: torch.optim.AdamW(p, **options), device
    )


def test_adamw_with_groups(device):
    def groups(parameters):
        return [
            {"params": parameters[:2], "weight_decay": 0.5},
            {"params": parameters[2:], "lr": 0.03},
        ]

    assert_same_steps(
        lambda p: optim.AdamW(groups(p), lr=0.1),
        lambda p: torch.optim.AdamW(groups(p), lr=0.1),
        device,
    )


@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_up_to_the_half_precision_of_pytorchs(nesterov, device):
    shapes = [(8, 8), (8, 4), (4, 8), (6, 6), (8, 8)]
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape) for shape in shapes]
    mine = [ta.tensor(array, requires_grad=True, device=device) for array in arrays]
    its = [torch.tensor(array.T.copy(), requires_grad=True) for array in arrays]
    options = {"lr": 0.01, "weight_decay": 0.1, "nesterov": nesterov}
    ours, theirs = optim.Muon(mine, **options), torch.optim.Muon(its, **options)
    for _ in range(3):
        for a, b in zip(mine, its):
            gradient = random.normal(size=a.shape)
            a.grad = ta.tensor(gradient, device=device)
            b.grad = torch.tensor(gradient.T.copy())
        ours.step()
        theirs.step()
    for a, b, start in zip(mine, its, arrays):
        moved = a.numpy() - start
        assert np.abs(moved - (b.detach().numpy().T - start)).max() < 0.05 * np.abs(moved).max()


@pytest.mark.parametrize("norm_type", [2.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_clipping(max_norm, norm_type, device):
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape) for shape in SHAPES]
    mine = [ta.tensor(array, requires_grad=True, device=device) for array in arrays]
    its = [torch.tensor(array, requires_grad=True) for array in arrays]
    for a, b, array in zip(mine, its, arrays):
        a.grad, b.grad = ta.tensor(array, device=device), torch.tensor(array)
    expected = torch.nn.utils.clip_grad_norm_(its, max_norm, norm_type).item()
    assert optim.clip_grad_norm(mine, max_norm, norm_type) == pytest.approx(expected, rel=1e-12)
    for a, b in zip(mine, its):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)
