"""Loss functions."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

REDUCTIONS = ["mean", "sum", "none"]


@pytest.fixture
def tensor(device):
    """``tensor(values)``: on the device under test, floating-point numbers in float64."""
    return lambda values: ta.tensor(np.array(values), device=device)


def by_hand(logits, target, ignore_index, smoothing, reduction):
    """The definition, place by place."""
    losses, kept = [], 0
    for row, label in zip(logits.reshape(-1, logits.shape[-1]), target.reshape(-1)):
        if label == ignore_index:
            losses.append(0.0)
            continue
        kept += 1
        log_p = row - np.log(np.exp(row).sum())
        q = np.full(len(row), smoothing / len(row))
        q[label] += 1 - smoothing
        losses.append(-(q * log_p).sum())
    if reduction == "none":
        return np.reshape(losses, target.shape)
    return sum(losses) / (kept if reduction == "mean" else 1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("ignore_index", [-100, 2])
def test_cross_entropy_is_its_definition(
    device, random, tensor, reduction, smoothing, ignore_index
):
    logits = random.standard_normal((2, 3, 4)) * 3
    target = np.array([[0, 3, 2], [2, 1, 0]])
    options = {
        "ignore_index": ignore_index,
        "label_smoothing": smoothing,
        "reduction": reduction,
    }
    out = ta.cross_entropy(tensor(logits), tensor(target), **options)
    expected = by_hand(logits, target, ignore_index, smoothing, reduction)
    assert out.shape == np.shape(expected)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)
    check_gradient(lambda x: ta.cross_entropy(x, tensor(target), **options), logits, device=device)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss_of_log_softmax_is_cross_entropy(device, random, tensor, reduction):
    logits, target = random.standard_normal((4, 3)), tensor([0, -1, 2, 2])
    options = {"ignore_index": -1, "reduction": reduction}
    x = tensor(logits)
    x.requires_grad = True
    loss = ta.nll_loss(ta.log_softmax(x), target, **options)
    np.testing.assert_allclose(
        loss.numpy(), ta.cross_entropy(tensor(logits), target, **options).numpy(), rtol=1e-12
    )
    g = tensor(random.standard_normal(loss.shape))
    loss.backward(g)
    y = tensor(logits)
    y.requires_grad = True
    ta.cross_entropy(y, target, **options).backward(g)
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-10, atol=1e-14)
    check_gradient(lambda x: ta.nll_loss(x, target, **options), logits, device=device)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse_loss_is_its_definition(device, random, tensor, reduction):
    x, y = random.standard_normal((2, 3, 4))
    squares = (x - y) ** 2
    expected = {"mean": squares.mean(), "sum": squares.sum(), "none": squares}[reduction]
    out = ta.mse_loss(tensor(x), tensor(y), reduction=reduction)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)
    check_gradient(lambda x, y: ta.mse_loss(x, y, reduction=reduction), x, y, device=device)


def test_mse_loss_does_not_broadcast(tensor):
    with pytest.raises(ValueError, match=r"\(3, 1\).*\(3,\).*equal shapes"):
        ta.mse_loss(tensor(np.ones((3, 1))), tensor(np.ones(3)))


def test_the_logits_of_one_place_need_no_batch_axis(tensor):
    loss = ta.cross_entropy(tensor([0.0, 0.0, 0.0]), tensor(1))
    assert loss.item() == pytest.approx(np.log(3))


def test_targets_may_be_a_list_or_of_any_integer_dtype(device, tensor):
    logits = tensor([[0.0, 1.0], [1.0, 0.0]])
    expected = ta.cross_entropy(logits, [1, 0]).item()
    for dtype in ("uint8", "int32", "int64"):
        target = ta.tensor(np.array([1, 0], dtype), device=device)
        assert ta.cross_entropy(logits, target).item() == expected


def test_ignored_positions_may_have_any_logits(tensor):
    logits = tensor([[0.0, 1.0], [np.nan, np.inf]])
    logits.requires_grad = True
    loss = ta.cross_entropy(logits, tensor([0, -100]))
    loss.backward()
    assert loss.item() == pytest.approx(np.log(1 + np.e))
    assert logits.grad.numpy()[1].tolist() == [0.0, 0.0]
    assert np.isfinite(logits.grad.numpy()).all()


def test_ignored_positions_may_have_infinite_logits(tensor):
    logits = tensor([[0.0, 1.0], [-np.inf, 1.0]])
    logits.requires_grad = True
    for loss in (
        ta.cross_entropy(logits, tensor([0, -100])),
        ta.nll_loss(ta.log_softmax(logits), tensor([0, -100])),
    ):
        assert loss.item() == pytest.approx(np.log(1 + np.e))
        (gradient,) = ta.grad(loss, logits)
        assert gradient.numpy()[1].tolist() == [0.0, 0.0]


def test_large_logits_lose_no_precision(device, random):
    logits = (10000 + random.standard_normal((3, 5))).astype("float32")
    target = ta.tensor([0, 1, 4], device=device)
    expected = ta.cross_entropy(ta.tensor(logits.astype(float), device=device), target).item()
    loss = ta.cross_entropy(ta.tensor(logits, device=device), target).item()
    assert loss == pytest.approx(expected, rel=1e-6)


def test_the_mean_over_no_positions_is_zero_with_zero_gradient(tensor):
    logits = tensor(np.ones((2, 3)))
    logits.requires_grad = True
    for loss in (
        ta.cross_entropy(logits, tensor([-100, -100])),
        ta.nll_loss(logits, tensor([-100, -100])),
    ):
        assert loss.item() == 0.0
        (gradient,) = ta.grad(loss, logits)
        assert not gradient.numpy().any()
    assert ta.mse_loss(tensor(np.ones((0, 3))), tensor(np.ones((0, 3)))).item() == 0.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_dtype_is_kept_in_both_directions(device, dtype):
    x = ta.tensor(np.ones((2, 3), dtype), requires_grad=True, device=device)
    target = ta.tensor([0, 1], device=device)
    for smoothing in (0.0, 0.1):
        loss = ta.cross_entropy(x, target, label_smoothing=smoothing)
        (gradient,) = ta.grad(loss, x)
        assert loss.dtype == gradient.dtype == dtype
    loss = ta.mse_loss(x, x * 2)
    loss.backward()
    assert loss.dtype == x.grad.dtype == dtype


def test_the_sum_of_a_float16_mean_does_not_overflow(device):
    x = ta.tensor(np.full(4096, 8.0, "float16"), device=device)  # the sum of squares is 262144
    assert ta.mse_loss(x, x * 0).item() == 64.0


@pytest.mark.parametrize("wrong", [3, -1, 100])
@pytest.mark.parametrize("loss", [ta.cross_entropy, ta.nll_loss])
def test_an_invalid_class_is_an_index_error(tensor, loss, wrong):
    with pytest.raises(IndexError, match=f"target {wrong}: .*0 .. 2"):
        loss(tensor([[1.0, 2.0, 3.0]]), tensor([wrong]))


@pytest.mark.parametrize("loss", [ta.cross_entropy, ta.nll_loss])
def test_wrong_arguments_are_named(tensor, loss):
    logits = tensor(np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match=r"\(2, 3, 4\).*\(2, 4\).*last axis"):
        loss(logits, tensor(np.zeros((2, 4), int)))  # PyTorch has the classes on axis 1
    with pytest.raises(ValueError, match="reduction='average'"):
        loss(logits, tensor(np.zeros((2, 3), int)), reduction="average")
    with pytest.raises(IndexError, match="float64"):
        loss(logits, tensor(np.zeros((2, 3))))
    with pytest.raises(ValueError, match=r"label_smoothing=1\.5"):
        ta.cross_entropy(logits, tensor(np.zeros((2, 3), int)), label_smoothing=1.5)
    with pytest.raises(ValueError, match="reduction='batch'"):
        ta.mse_loss(logits, logits, reduction="batch")


def test_a_number_as_target_of_a_squared_error_is_named(device):
    with pytest.raises(ValueError, match=r"shape \(2,\) and a target of shape \(\)"):
        ta.mse_loss(ta.ones(2, device=device), 0.0)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy_is_its_definition(device, random, tensor, reduction):
    z, t = random.standard_normal((3, 4)) * 3, random.uniform(size=(3, 4))
    p = 1 / (1 + np.exp(-z))
    losses = -t * np.log(p) - (1 - t) * np.log(1 - p)
    expected = {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]
    out = ta.binary_cross_entropy_with_logits(tensor(z), tensor(t), reduction=reduction)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)
    check_gradient(
        lambda z, t: ta.binary_cross_entropy_with_logits(z, t, reduction=reduction),
        z,
        t,
        device=device,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binary_cross_entropy_of_certain_logits_is_exact(device, dtype):
    z = np.array([1e4, -1e4, 40.0, -40.0, 3e38, 30.0], dtype)
    t = np.array([1, 0, 1, 0, 1, 1], dtype)
    logits = ta.tensor(z, requires_grad=True, device=device)
    loss = ta.binary_cross_entropy_with_logits(logits, ta.tensor(t, device=device), reduction="sum")
    tiny = np.exp(-40.0)
    np.testing.assert_allclose(loss.item(), 2 * tiny + np.exp(-30.0), rtol=1e-6)
    loss.backward()
    expected = [0, 0, -tiny, tiny, 0, -1 / (1 + np.exp(30.0))]
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-6, atol=0)


def test_binary_cross_entropy_of_soft_targets_is_accurate(device):
    z, t = np.float32(100), np.float32(0.999)
    loss = ta.binary_cross_entropy_with_logits(
        ta.tensor([z], device=device), ta.tensor([t], device=device)
    )
    assert loss.item() == pytest.approx((1 - float(t)) * 100, rel=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32"])
def test_binary_targets_may_be_of_any_dtype(device, dtype):
    logits = ta.tensor([0.5, -0.5], requires_grad=True, device=device)
    target = ta.tensor(np.array([1, 0], dtype), device=device)
    loss = ta.binary_cross_entropy_with_logits(logits, target)
    assert loss.dtype == np.float32 and loss.item() == pytest.approx(np.log1p(np.exp(-0.5)))
    loss.backward()
    assert logits.grad.tolist() == pytest.approx([-0.18877034, 0.18877034])
    assert ta.binary_cross_entropy_with_logits(logits, [1, 0]).item() == loss.item()


def test_binary_cross_entropy_does_not_broadcast(tensor):
    with pytest.raises(ValueError, match=r"logits of shape \(3, 1\).*\(3,\).*equal shapes"):
        ta.binary_cross_entropy_with_logits(tensor(np.ones((3, 1))), tensor(np.ones(3)))
    with pytest.raises(ValueError, match="reduction='average'"):
        ta.binary_cross_entropy_with_logits(tensor([1.0]), tensor([1.0]), reduction="average")
    empty = tensor(np.ones((0, 3)))
    assert ta.binary_cross_entropy_with_logits(empty, empty).item() == 0.0


def test_a_binary_mean_over_more_elements_than_float16_counts(device):
    logits = ta.tensor(np.zeros(70_000, "float16"), requires_grad=True, device=device)
    ta.binary_cross_entropy_with_logits(logits, ta.zeros_like(logits)).backward()
    np.testing.assert_allclose(logits.grad.numpy()[:3], 0.5 / 70_000, rtol=5e-2)
