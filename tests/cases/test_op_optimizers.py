"""Hard cases OP: optimizers follow their formulas for a single number, with ties, clipping, dtypes and schedules."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn, optim


def set_gradient(p, value):
    """Give ``p`` a gradient of that value everywhere, or none."""
    if value is None:
        p.grad = None
    else:
        p.grad = ta.tensor(np.full(p.shape, value, p.dtype), device=p.device)


def trajectory(optimizer, p, gradients):
    found = []
    for gradient in gradients:
        set_gradient(p, gradient)
        optimizer.step()
        found.append(p.item())
    return found


@pytest.mark.parametrize(("gradient", "expected"), [(0.1, 0.9990000001), (1e-8, 0.9995)])
def test_OP_01_eps_is_added_after_the_bias_correction(leaf, gradient, expected):
    p = leaf(1.0)
    adam = optim.AdamW([p], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    assert trajectory(adam, p, [gradient])[0] == pytest.approx(expected, abs=1e-10)


def test_OP_02_weight_decay_does_not_pass_through_the_moments(leaf):
    p = leaf(1.0)
    adam = optim.AdamW([p], lr=0.1, weight_decay=0.1)
    assert trajectory(adam, p, [0.0]) == pytest.approx([0.99], abs=1e-12)


def test_OP_04_three_steps_of_adamw_follow_the_hand_computed_trajectory(leaf):
    p = leaf(1.0)
    adam = optim.AdamW([p], lr=0.1, weight_decay=0.01)
    expected = [0.899000001, 0.9347113535, 0.9474457083]
    assert trajectory(adam, p, [1.0, -2.0, 0.5]) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("second", "expected"), [(None, 0.900000001), (0.0, 0.8329941765)])
def test_OP_05_no_gradient_is_not_a_gradient_of_zero(leaf, second, expected):
    p = leaf(1.0)
    adam = optim.AdamW([p], lr=0.1, weight_decay=0.0)
    found = trajectory(adam, p, [1.0, second])
    assert found == pytest.approx([0.900000001, expected], abs=1e-10)


def test_OP_05_a_parameter_without_gradient_does_not_decay(leaf):
    p, other = leaf(1.0), leaf(1.0)
    adam = optim.AdamW([p, other], lr=0.1, weight_decay=0.1)
    set_gradient(other, 1.0)
    adam.step()
    assert p.item() == 1.0
    assert other.item() < 1.0


class Tied(nn.Module):
    """2 w + 3 w, under two names."""

    def __init__(self, device):
        self.first = nn.Parameter(np.array(1.0), device=device)
        self.second = self.first

    def forward(self):
        return self.first * 2.0 + self.second * 3.0


@pytest.mark.parametrize("twice", [False, True])
def test_OP_07_a_tied_weight_is_updated_once(device, twice):
    model = Tied(device)
    assert len(model.parameters()) == 1
    parameters = [model.first, model.second] if twice else model.parameters()
    sgd = optim.SGD(parameters, lr=0.1)
    model().backward()
    assert model.first.grad.item() == 5.0
    sgd.step()
    assert model.first.item() == pytest.approx(0.5)


@pytest.mark.parametrize("twice", [False, True])
def test_OP_08_a_tied_weight_counts_once_in_the_norm_and_in_the_number(device, twice):
    model = Tied(device)
    model().backward()
    parameters = [model.first, model.second] if twice else model.parameters()
    assert optim.clip_grad_norm(parameters, 100.0) == 5.0
    assert model.parameter_count() == 1
    assert optim.clip_grad_norm(parameters, 1.0) == 5.0
    assert model.first.grad.item() == pytest.approx(1.0, rel=1e-6)


def test_OP_10_parameters_can_be_gone_through_again(device):
    model = Tied(device)
    model().backward()
    parameters = model.parameters()
    list(parameters)
    assert optim.clip_grad_norm(parameters, 1.0) == 5.0
    optim.SGD(parameters, lr=0.1).step()
    assert model.first.item() < 1.0


def test_OP_10_an_optimizer_refuses_a_generator_that_is_used_up(device):
    parameters = (parameter for parameter in Tied(device).parameters())
    list(parameters)
    with pytest.raises(ValueError, match="exhausted generator"):
        optim.SGD(parameters)


@pytest.mark.parametrize("norm_type", [2.0, float("inf")])
def test_OP_11_without_gradients_the_norm_is_0(leaf, norm_type):
    assert optim.clip_grad_norm([], 1.0, norm_type) == 0.0
    assert optim.clip_grad_norm([leaf([1.0, 2.0])], 1.0, norm_type) == 0.0
    empty = leaf(np.zeros((0, 3)))
    set_gradient(empty, 0.0)
    assert optim.clip_grad_norm([empty], 1.0, norm_type) == 0.0


def test_OP_13_float16_has_its_state_in_float32(leaf):
    p = leaf([1.0, -2.0], np.float16)
    adam = optim.AdamW([p], lr=0.1, weight_decay=0.0)
    set_gradient(p, 0.0)
    adam.step()
    assert p.tolist() == [1.0, -2.0]
    set_gradient(p, 1e-4)  # its square underflows in float16
    adam.step()
    assert p.dtype == np.float16
    assert np.all(np.isfinite(p.numpy())) and p.numpy()[0] < 1.0


@pytest.mark.parametrize("rate", [np.float64(0.1), np.float32(0.1), np.int64(1)])
@pytest.mark.parametrize("kind", [optim.AdamW, optim.SGD, optim.Muon])
def test_OP_14_numbers_of_numpy_do_not_widen_anything(leaf, kind, rate):
    p = leaf([[1.0, 2.0], [3.0, 4.0]], np.float32)
    options = {} if kind is optim.AdamW else {"momentum": np.float64(0.9)}
    optimizer = kind([p], lr=rate, weight_decay=np.float64(0.1), **options)
    for _ in range(2):
        set_gradient(p, 0.5)
        optim.clip_grad_norm([p], np.float64(0.3))
        optimizer.step()
    state = optimizer.state_dict()["arrays"].values()
    assert {p.dtype, p.grad.dtype, *(array.dtype for array in state)} == {np.dtype("float32")}


def test_OP_16_warmup_that_ends_where_the_decay_ends():
    options = {"peak": 1.0, "minimum": 0.1, "warmup": 4, "decay": 4}
    found = [optim.schedules.warmup_cosine(step, **options) for step in range(7)]
    assert found == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 0.1, 0.1], abs=1e-15)


@pytest.mark.parametrize("name", ["warmup_cosine", "warmup_linear", "trapezoid"])
def test_OP_16_no_warmup_and_no_decay_divide_by_nothing(name):
    schedule = getattr(optim.schedules, name)
    assert schedule(0, peak=1.0, warmup=0, decay=0) == 1.0
    assert schedule(1, peak=1.0, warmup=0, decay=0) == 0.0
