"""Anomaly detection: the operation that first produced a NaN or an infinity, and the line that called it."""

import numpy as np
import pytest

import tinyattn as ta


@pytest.fixture
def leaf(device):
    def make(values):
        return ta.tensor(np.array(values, np.float64), requires_grad=True, device=device)

    return make


def test_the_forward_operation_and_its_line_are_named(leaf):
    x = leaf([1.0, 0.0])
    with ta.detect_anomaly():
        with pytest.raises(RuntimeError) as raised:
            ta.exp(ta.log(x * 2) + 1)  # this very line
    message = str(raised.value)
    assert message.startswith("log produced -inf or inf from finite inputs")
    assert "test_anomaly.py" in message and "this very line" in message


def test_the_first_nan_is_named_and_those_that_follow_from_it_are_not(leaf):
    with ta.detect_anomaly():
        with pytest.raises(RuntimeError, match="sqrt produced NaN from inputs without NaN"):
            ta.tanh(ta.sqrt(leaf([-1.0])))
        y = ta.tanh(leaf([np.nan]))  # it came in
        assert np.isnan(y.item())


def test_the_backward_operation_and_its_forward_line_are_named(leaf):
    x = leaf([0.0])
    with ta.detect_anomaly():
        y = ta.sqrt(x)  # the root of the trouble
        with pytest.raises(RuntimeError) as raised:
            y.backward()
    message = str(raised.value)
    assert "the backward of sqrt produced" in message and "the root of the trouble" in message


def test_a_graph_recorded_outside_raises_with_advice(leaf):
    y = ta.sqrt(leaf([0.0]))
    with ta.detect_anomaly(), pytest.raises(RuntimeError, match="record the forward pass inside"):
        y.backward()


def test_masking_with_minus_infinity_is_no_anomaly(leaf, device):
    mask = ta.tensor([True, False], device=device)
    with ta.detect_anomaly():
        scores = ta.where(mask, leaf([1.0, 2.0]), -np.inf)
        weights = ta.softmax(scores)
        weights.backward(ta.tensor(np.array([1.0, 2.0]), device=device))
    assert weights.tolist() == [1, 0]


def test_it_is_off_by_default_and_afterwards(leaf):
    assert ta.log(leaf([0.0])).item() == -np.inf
    with ta.detect_anomaly():
        pass
    assert ta.log(leaf([0.0])).item() == -np.inf


def test_operations_never_warn(leaf):
    with np.errstate(all="raise"):
        y = ta.log(leaf([0.0])) / leaf([0.0])
        y.sum().backward()
