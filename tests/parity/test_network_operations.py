"""The network operations against PyTorch: values, gradients, second-order gradients; and where the two differ."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyattn as ta

torch = pytest.importorskip("torch")
F = torch.nn.functional

LENGTH = st.integers(1, 4)
SEED = st.integers(0, 2**32 - 1)
quick = settings(max_examples=6, derandomize=True, deadline=None, database=None)


def compare(ours, theirs, *arrays, order=2):
    """Hold outputs, gradients under one random cotangent, and gradients of these gradients together."""
    random = np.random.default_rng(0)
    mine = [ta.tensor(array, requires_grad=True) for array in arrays]
    others = [torch.tensor(array, requires_grad=True) for array in arrays]
    out, expected = ours(*mine), theirs(*others)
    agree(out, expected)
    g = np.asarray(random.standard_normal(out.shape))
    first = ta.grad(out, mine, grad_outputs=ta.tensor(g), create_graph=order == 2)
    first_expected = torch.autograd.grad(expected, others, torch.tensor(g), create_graph=order == 2)
    for a, b in zip(first, first_expected):
        agree(a, b)
    if order == 1:
        return
    directions = [np.asarray(random.standard_normal(array.shape)) for array in arrays]
    total = sum((a * ta.tensor(d)).sum() for a, d in zip(first, directions))
    total_expected = sum((b * torch.tensor(d)).sum() for b, d in zip(first_expected, directions))
    nothing = [None] * len(arrays)  # where a gradient does not depend on the inputs
    second = ta.grad(total, mine, allow_unused=True) if total.requires_grad else nothing
    second_expected = (
        torch.autograd.grad(total_expected, others, allow_unused=True)
        if total_expected.requires_grad
        else nothing
    )
    for a, b, array in zip(second, second_expected, arrays):
        zeros = np.zeros_like(array)
        agree(zeros if a is None else a, torch.tensor(zeros) if b is None else b)


def agree(actual, expected):
    actual = actual.numpy() if isinstance(actual, ta.Tensor) else actual
    expected = expected.detach().numpy()
    assert actual.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-10 * scale)


def normal(seed, *shapes, scale=1.0):
    random = np.random.default_rng(seed)
    return [np.asarray(random.standard_normal(shape) * scale) for shape in shapes]


ELEMENTWISE = {
    "relu": (ta.relu, F.relu),
    "sigmoid": (ta.sigmoid, torch.sigmoid),
    "silu": (ta.silu, F.silu),
    "relu_squared": (ta.relu_squared, lambda x: F.relu(x) ** 2),
    "gelu": (ta.gelu, F.gelu),
    "gelu_tanh": (
        lambda x: ta.gelu(x, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "erf": (ta.erf, torch.erf),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@quick
@given(shape=st.lists(st.integers(0, 4), max_size=3), scale=st.sampled_from([0.1, 3.0]), seed=SEED)
def test_activations(name, shape, scale, seed):
    compare(*ELEMENTWISE[name], *normal(seed, tuple(shape), scale=scale))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@quick
@given(
    shape=st.lists(LENGTH, min_size=1, max_size=3),
    axis=st.integers(-3, 2),
    scale=st.sampled_from([0.1, 30.0]),
    seed=SEED,
)
def test_softmax(name, shape, axis, scale, seed):
    axis = axis % len(shape)
    compare(
        lambda x: getattr(ta, name)(x, axis=axis),
        lambda x: getattr(torch, name)(x, dim=axis),
        *normal(seed, tuple(shape), scale=scale),
    )


@quick
@given(
    leading=st.lists(LENGTH, max_size=2), row=st.lists(LENGTH, min_size=1, max_size=2), seed=SEED
)
def test_layer_norm(leading, row, seed):
    arrays = normal(seed, (*leading, *row, 2), (*row, 2), (*row, 2))
    shape = (*row, 2)
    compare(
        lambda x, w, b: ta.layer_norm(x, shape, w, b, eps=1e-3),
        lambda x, w, b: F.layer_norm(x, shape, w, b, eps=1e-3),
        *arrays,
    )


@pytest.mark.parametrize("eps", [None, 1e-3])
@quick
@given(
    leading=st.lists(LENGTH, max_size=2), row=st.lists(LENGTH, min_size=1, max_size=2), seed=SEED
)
def test_rms_norm(leading, row, seed, eps):
    compare(
        lambda x, w: ta.rms_norm(x, tuple(row), w, eps=eps),
        lambda x, w: F.rms_norm(x, tuple(row), w, eps=eps),
        *normal(seed, (*leading, *row), tuple(row)),
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@quick
@given(places=st.integers(1, 5), classes=st.integers(2, 5), seed=SEED)
def test_cross_entropy(reduction, smoothing, places, classes, seed):
    target = np.random.default_rng(seed).integers(0, classes, places)
    ignored = int(target[0]) if (target != target[0]).any() else -100
    options = {
        "ignore_index": ignored,
        "label_smoothing": smoothing,
        "reduction": reduction,
    }
    compare(
        lambda x: ta.cross_entropy(x, ta.tensor(target), **options),
        lambda x: F.cross_entropy(x, torch.tensor(target), **options),
        *normal(seed, (places, classes), scale=3.0),
    )


def test_the_classes_are_on_the_last_axis_where_pytorch_has_them_on_axis_1():
    target = np.random.default_rng(0).integers(0, 4, (2, 3))
    compare(
        lambda x: ta.cross_entropy(x, ta.tensor(target)),
        lambda x: F.cross_entropy(x.movedim(-1, 1), torch.tensor(target)),
        *normal(0, (2, 3, 4)),
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss_and_mse_loss(reduction):
    target = np.array([2, 0, 1, 2])
    compare(
        lambda x: ta.nll_loss(x, ta.tensor(target), ignore_index=1, reduction=reduction),
        lambda x: F.nll_loss(x, torch.tensor(target), ignore_index=1, reduction=reduction),
        *normal(0, (4, 3)),
        order=1,  # linear
    )
    compare(
        lambda x, y: ta.mse_loss(x, y, reduction=reduction),
        lambda x, y: F.mse_loss(x, y, reduction=reduction),
        *normal(1, (4, 3), (4, 3)),
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@quick
@given(shape=st.lists(LENGTH, max_size=3), scale=st.sampled_from([0.1, 30.0]), seed=SEED)
def test_binary_cross_entropy(reduction, shape, scale, seed):
    random = np.random.default_rng(seed)
    compare(
        lambda z, t: ta.binary_cross_entropy_with_logits(z, t, reduction=reduction),
        lambda z, t: F.binary_cross_entropy_with_logits(z, t, reduction=reduction),
        np.asarray(random.standard_normal(shape) * scale),
        np.asarray(random.uniform(size=shape)),
    )


@quick
@given(
    ids=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    padding=st.sampled_from([None, 0, 2]),
    seed=SEED,
)
def test_embedding(ids, padding, seed):
    compare(
        lambda w: ta.embedding(ta.tensor(ids), w, padding_idx=padding) ** 3,
        lambda w: F.embedding(torch.tensor(ids), w, padding_idx=padding) ** 3,
        *normal(seed, (4, 3)),
    )


@quick
@given(leading=st.lists(LENGTH, max_size=2), inputs=LENGTH, outputs=LENGTH, seed=SEED)
def test_linear_with_the_transposed_weight(leading, inputs, outputs, seed):
    compare(
        ta.linear,
        lambda x, w, b: F.linear(x, w.T, b),
        *normal(seed, (*leading, inputs), (inputs, outputs), outputs),
    )


@pytest.mark.parametrize("kind", ["auto", "dense"])
@quick
@given(
    heads=st.integers(1, 2),
    queries=LENGTH,
    keys=LENGTH,
    scale=st.sampled_from([None, 0.5]),
    masked=st.booleans(),
    seed=SEED,
)
def test_attention(kind, heads, queries, keys, scale, masked, seed):
    mask = np.random.default_rng(seed).random((queries, keys)) < 0.7 if masked else None
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        compare(
            lambda q, k, v: ta.scaled_dot_product_attention(
                q, k, v, mask=mask, scale=scale, kind=kind
            ),
            lambda q, k, v: F.scaled_dot_product_attention(
                q, k, v, None if mask is None else torch.tensor(mask), scale=scale
            ),
            *normal(seed, (2, heads, queries, 3), (2, heads, keys, 3), (2, heads, keys, 2)),
        )


def test_a_causal_mask_is_aligned_at_the_last_key_where_pytorch_aligns_it_at_the_first():
    arrays = normal(0, (1, 2, 3), (1, 5, 3), (1, 5, 3))
    bottom_right = torch.ones(2, 5, dtype=torch.bool).tril(3)
    compare(
        lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, bottom_right),
        *arrays,
        order=1,
    )
    top_left = F.scaled_dot_product_attention(
        *(torch.tensor(a) for a in arrays), is_causal=True
    ).numpy()
    ours = ta.scaled_dot_product_attention(*map(ta.tensor, arrays), causal=True).numpy()
    assert np.abs(ours - top_left).max() > 0.1


def test_rows_without_choices_are_zero_where_pytorch_has_nan():
    row = [-math.inf, -math.inf]
    assert torch.softmax(torch.tensor(row), 0).isnan().all()
    assert ta.softmax(ta.tensor(row)).tolist() == [0.0, 0.0]
    theirs = torch.tensor(row, requires_grad=True)
    torch.logsumexp(theirs, 0).backward()
    ours = ta.tensor(row, requires_grad=True)
    ta.logsumexp(ours).backward()
    assert theirs.grad.isnan().all()
    assert ours.grad.tolist() == [0.0, 0.0]


def test_an_infinite_score_takes_everything_where_pytorch_has_nan():
    assert torch.softmax(torch.tensor([1.0, math.inf]), 0).isnan().all()
    assert ta.softmax(ta.tensor([1.0, math.inf])).tolist() == [0.0, 1.0]


def test_the_mean_over_no_places_is_zero_where_pytorch_has_nan():
    logits, target = np.ones((2, 3), "float32"), np.array([-100, -100])
    assert F.cross_entropy(torch.tensor(logits), torch.tensor(target)).isnan()
    assert ta.cross_entropy(ta.tensor(logits), ta.tensor(target)).item() == 0.0


def test_a_squared_error_of_unequal_shapes_is_an_error_where_pytorch_warns_and_broadcasts():
    x, y = np.ones((3, 1), "float32"), np.ones(3, "float32")
    with pytest.warns(UserWarning, match="target size"):
        F.mse_loss(torch.tensor(x), torch.tensor(y))
    with pytest.raises(ValueError, match="equal shapes"):
        ta.mse_loss(ta.tensor(x), ta.tensor(y))


def test_layer_norm_far_from_zero_is_exact_where_pytorch_rounds_the_mean():
    x = (10000 + np.arange(16) * 1e-3).astype("float32")
    exact = F.layer_norm(torch.tensor(x.astype(float)), (16,)).numpy()
    assert np.abs(F.layer_norm(torch.tensor(x), (16,)).numpy() - exact).max() > 0.05
    assert np.abs(ta.layer_norm(ta.tensor(x), 16).numpy() - exact).max() < 1e-6


def test_masks_of_numbers_are_refused_where_pytorch_adds_them():
    q, k, v = np.zeros((1, 1)), np.zeros((2, 1)), np.array([[10.0], [20.0]])
    mask = np.array([[1.0, 0.0]])
    theirs = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), torch.tensor(mask))
    assert theirs.item() == pytest.approx(12.68941421)
    with pytest.raises(TypeError, match="True = may attend"):
        ta.scaled_dot_product_attention(*map(ta.tensor, (q, k, v)), mask=mask)
