"""NumPy functions of tensors equal the operations, with gradients."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.ops import numpy_functions

POSITIVE = {np.log, np.log1p, np.sqrt, np.power, np.divide}


def drawn(function, random, shape=(2, 3)):
    array = random.standard_normal(shape)
    return np.abs(array) + 0.5 if function in POSITIVE else array


@pytest.mark.parametrize("function", numpy_functions.UFUNCS, ids=lambda f: f.__name__)
def test_a_function_of_elements_is_recorded_on_every_device(function, random, device):
    arrays = [drawn(function, random) for _ in range(function.nin)]
    if function is np.matmul:
        arrays[1] = arrays[1].T
    tensors = [ta.tensor(array, requires_grad=True, device=device) for array in arrays]
    y = function(*tensors)
    assert type(y) is ta.Tensor and y.requires_grad and y.device == device
    np.testing.assert_allclose(y.numpy(), function(*arrays), rtol=1e-12)
    g = random.standard_normal(y.shape)
    expected = numpy_functions.UFUNCS[function](*tensors)
    for ours, theirs in zip(
        ta.grad(y, tensors, ta.tensor(g, device=device)),
        ta.grad(expected, tensors, ta.tensor(g, device=device)),
    ):
        assert np.array_equal(ours.numpy(), theirs.numpy())


CALLS = {
    "sum": lambda x: np.sum(x, 0, None, None, True),
    "mean": lambda x: np.mean(x, axis=1, keepdims=True),
    "var": lambda x: np.var(x, 1, None, None, 1),
    "std": lambda x: np.std(x, ddof=1),
    "prod": lambda x: np.prod(x, axis=0),
    "max": lambda x: np.max(x, 0, None, True),
    "amax": lambda x: np.amax(x, axis=1),
    "min": lambda x: np.min(x, axis=(0, 1)),
    "amin": lambda x: np.amin(x),
    "cumsum": lambda x: np.cumsum(x, 1),
    "clip": lambda x: np.clip(x, -0.5, a_max=0.5),
    "clip by name": lambda x: np.clip(a=x, a_min=-0.5, a_max=None),
    "where": lambda x: np.where([True, False, True], x, 0.0),
    "where of a comparison": lambda x: np.where(x > 0, x, 0.1 * x),
    "reshape": lambda x: np.reshape(x, (3, 2), order="C"),
    "ravel": lambda x: np.ravel(x),
    "transpose": lambda x: np.transpose(x, (1, 0)),
    "matrix_transpose": lambda x: np.matrix_transpose(x),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "squeeze": lambda x: np.squeeze(np.expand_dims(x, 1), axis=1),
    "broadcast_to": lambda x: np.broadcast_to(x, (4, 2, 3)),
    "flip": lambda x: np.flip(x, axis=1),
    "tril": lambda x: np.tril(x, -1),
    "triu": lambda x: np.triu(x, k=1),
    "concatenate": lambda x: np.concatenate([x, 2 * x], 1),
    "stack": lambda x: np.stack((x, x * x), axis=-1),
    "split": lambda x: np.split(x, 3, axis=1)[1],
    "take": lambda x: np.take(x, [0, 0, 2], axis=1),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x, optimize=True),
    "dot": lambda x: np.dot(x, np.transpose(x)),
    "dot with a number": lambda x: np.dot(x, 2.0),
    "positive": lambda x: np.positive(x),
    "array on the left": lambda x: np.add(1.0, x),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_function_of_arrays_is_recorded_and_means_what_it_means_for_arrays(call, random):
    array = random.standard_normal((2, 3))
    x = ta.tensor(array, requires_grad=True)
    y = CALLS[call](x)
    assert type(y) is ta.Tensor and y.requires_grad
    np.testing.assert_allclose(y.numpy(), CALLS[call](array), rtol=1e-12)
    assert ta.gradcheck(CALLS[call], x)


def test_without_a_gradient_too_the_result_is_a_tensor():
    assert type(np.exp(ta.ones(2))) is type(np.clip(ta.ones(2), 0, 1)) is ta.Tensor


def test_functions_without_gradient_equal_the_tensors_attributes(device):
    x = ta.tensor([[1.0, 5.0], [7.0, 2.0]], requires_grad=True, device=device)
    assert np.argmax(x, axis=1).tolist() == ta.argmax(x, axis=1).tolist() == [1, 0]
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 2), 2, 4, 2)
    assert np.zeros_like(x).tolist() == [[0, 0], [0, 0]]
    assert np.less(x, 3.0).tolist() == [[True, False], [False, True]]
    assert np.greater(3.0, x).tolist() == [[True, False], [False, True]]
    assert np.invert(ta.tensor([True, False], device=device)).tolist() == [False, True]
    assert not isinstance(np.equal(x, 1.0), ta.Tensor)


def test_logic_with_an_array_on_the_left():
    truths = ta.tensor([True, False])
    left = np.array([True, True])
    assert (left & truths).tolist() == [True, False]
    assert (left | truths).tolist() == [True, True]
    assert (left ^ truths).tolist() == [False, True]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.sum(x, dtype=np.float64),
        lambda x: np.sum(x, 0, np.float64),
        lambda x: np.sum(x, where=x > 0),
        lambda x: np.reshape(x, (3, 2), order="F"),
        lambda x: np.take(x, [0], 0, None, "wrap"),
        lambda x: np.einsum(x, [0, 1]),
        lambda x: np.dot(np.ones((2, 2, 2)), np.ones((2, 2, 3)) * x),
    ],
)
def test_an_unsupported_argument_is_an_error(call):
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        call(ta.ones((2, 3), requires_grad=True))
