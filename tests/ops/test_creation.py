"""The functions of tinyattn.ops.creation."""

import numpy as np
import pytest

import tinyattn as ta


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda d: ta.zeros((2, 3), device=d), np.zeros((2, 3), np.float32)),
        (lambda d: ta.zeros(3, device=d), np.zeros(3, np.float32)),
        (lambda d: ta.ones((), device=d), np.ones((), np.float32)),
        (lambda d: ta.ones((0, 2), np.float64, d), np.ones((0, 2))),
        (lambda d: ta.full((2,), 0.5, device=d), np.full(2, 0.5, np.float32)),
        (lambda d: ta.full((2,), 3, device=d), np.full(2, 3, np.int64)),
        (lambda d: ta.full((2,), 3, np.float64, d), np.full(2, 3.0)),
        (lambda d: ta.full((2,), True, device=d), np.full(2, True)),
        (lambda d: ta.arange(4, device=d), np.arange(4, dtype=np.int64)),
        (lambda d: ta.arange(4.0, device=d), np.arange(4, dtype=np.float32)),
        (lambda d: ta.arange(1, 7, 2, device=d), np.arange(1, 7, 2, dtype=np.int64)),
        (lambda d: ta.arange(3, 0, -1, np.float64, d), np.array([3.0, 2.0, 1.0])),
        (lambda d: ta.eye(2, device=d), np.eye(2, dtype=np.float32)),
        (lambda d: ta.eye(2, 3, np.float64, d), np.eye(2, 3)),
    ],
)
def test_content_shape_and_dtype(make, expected, device):
    x = make(device)
    assert (x.device, x.dtype, x.requires_grad) == (device, expected.dtype, False)
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize(
    ("make", "number"),
    [(ta.zeros_like, 0), (ta.ones_like, 1), (lambda x, dtype=None: ta.full_like(x, 2, dtype), 2)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_like_another_tensor(make, number, dtype, device):
    like = ta.tensor(np.zeros((2, 3), dtype), device=device)
    for source in (like, like._data):  # of an array, too, comes a tensor
        x = make(source)
        assert (x.device, x.dtype, x.shape) == (device, dtype, (2, 3))
        assert (x.numpy() == number).all()
    assert make(like, dtype=np.float32).dtype == np.float32


def test_the_default_device_is_the_one_that_is_set(device):
    with ta.device(device):
        for x in (ta.zeros(1), ta.ones(1), ta.full((1,), 2.0), ta.arange(2), ta.eye(1)):
            assert x.device == device
    assert ta.zeros_like(ta.ones(1, device="strict")).device == "strict"


def test_a_new_tensor_may_require_a_gradient(device):
    x = ta.ones(2, device=device, requires_grad=True)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with pytest.raises(TypeError, match="int64"):
        ta.arange(3, device=device, requires_grad=True)


@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_a_length_in_place_of_a_dtype_is_an_error(name):
    with pytest.raises(TypeError, match=r"got the number 3: give several lengths as one shape"):
        getattr(ta, name)(2, 3)


@pytest.mark.parametrize("draw", [ta.rand, ta.randn])
def test_random_numbers_follow_the_seed_and_are_the_same_on_every_device(draw, device):
    ta.manual_seed(3)
    x = draw(2, 3, device=device, requires_grad=True)
    assert (x.shape, x.dtype, x.device, x.requires_grad) == ((2, 3), np.float32, device, True)
    ta.manual_seed(3)
    assert np.array_equal(draw((2, 3)).numpy(), x.numpy())
    assert not np.array_equal(draw(2, 3).numpy(), x.numpy())
    assert draw().shape == () and draw(0, 2).shape == (0, 2) and draw([2]).shape == (2,)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_random_numbers_have_the_moments_of_their_distribution(dtype):
    ta.manual_seed(0)
    normal = ta.randn(40_000, dtype=dtype).numpy().astype(float)
    uniform = ta.rand(40_000, dtype=dtype).numpy().astype(float)
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    assert abs((normal**4).mean() - 3) < 0.2
    assert abs(uniform.mean() - 0.5) < 0.01 and abs(uniform.std() - 12**-0.5) < 0.01
    assert uniform.min() >= 0 and uniform.max() < 1


def test_a_uniform_draw_is_never_rounded_up_to_one(monkeypatch):
    class Highest:
        def uniform(self, size):
            return np.full(size, 1 - 2.0**-53)

    monkeypatch.setattr("tinyattn.ops.creation.default_random", Highest)
    for dtype in ("float16", "float32", "float64"):
        assert 0.999 < ta.rand(2, dtype=dtype).numpy().max() < 1


@pytest.mark.parametrize(
    "make", [lambda: ta.rand(2.5), lambda: ta.randn("3"), lambda: ta.rand(2, dtype="int64")]
)
def test_random_numbers_of_an_invalid_shape_or_integer_dtype_are_an_error(make):
    with pytest.raises(TypeError, match=r"expected integers|floating-point dtype"):
        make()
