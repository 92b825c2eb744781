"""The rules of tinyattn.ops.shape."""

import itertools

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient


def agree(function, expected, *arrays, device):
    """``function`` of tensors gives what ``expected`` gives of arrays, and has the gradient of its differences.

    Moving elements is linear, so the square is what has a second-order gradient.
    """
    actual = function(*[ta.tensor(array, device=device) for array in arrays])
    wanted = expected(*arrays)
    assert actual.shape == wanted.shape
    np.testing.assert_array_equal(actual.numpy(), wanted)
    check_gradient(lambda *xs: ta.square(function(*xs)), *arrays, device=device)


@pytest.mark.parametrize(
    ("shape", "new"),
    [
        ((), (1, 1)),
        ((1,), ()),
        ((6,), (2, -1)),
        ((2, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((0, 2), (-1, 2)),
        ((2, 3), -1),
    ],
)
def test_reshape(shape, new, device, random):
    data = random.normal(size=shape)
    agree(lambda x: ta.reshape(x, new), lambda x: np.reshape(x, new), data, device=device)
    agree(lambda x: ta.reshape(x.T, new), lambda x: np.reshape(x.T, new), data, device=device)


def test_the_method_reshape_takes_a_shape_or_lengths(device):
    x = ta.arange(6, device=device)
    assert x.reshape(2, 3).shape == x.reshape((2, 3)).shape == x.reshape([2, -1]).shape == (2, 3)
    assert x.reshape(-1).shape == x.reshape(2, 3).flatten().shape == (6,)


@pytest.mark.parametrize("new", [(4, 2), (5, -1), (-1, -1)])
def test_an_incompatible_shape_is_an_error(new, device):
    with pytest.raises(ValueError, match=r"6 elements of shape \(2, 3\)") as caught:
        ta.ones((2, 3), device=device).reshape(new)
    assert str(new) in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "new"), [((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((1,), (0,)), ((2,), (2,))]
)
def test_broadcast_to(shape, new, device, random):
    agree(
        lambda x: ta.broadcast_to(x, new),
        lambda x: np.broadcast_to(x, new),
        random.normal(size=shape),
        device=device,
    )


def test_a_shape_that_cannot_be_broadcast_to_is_an_error(device):
    with pytest.raises(ValueError, match=r"shape \(2,\) to \(2, 3\)"):
        ta.broadcast_to(ta.ones((2,), device=device), (2, 3))


@pytest.mark.parametrize("axes", [None, *itertools.permutations(range(3)), (-1, 0, -2), (1, -1, 0)])
def test_transpose(axes, device, random):
    agree(
        lambda x: ta.transpose(x, axes),
        lambda x: np.transpose(x, axes),
        random.normal(size=(2, 3, 4)),
        device=device,
    )


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0)])
def test_transpose_of_few_axes(shape, device, random):
    agree(lambda x: x.T, np.transpose, random.normal(size=shape), device=device)


def test_the_method_transpose_takes_axes_in_every_way_that_numpys_does(device):
    x = ta.zeros((2, 3, 4), device=device)
    assert x.T.shape == x.transpose().shape == x.transpose(None).shape == (4, 3, 2)
    assert x.transpose(1, 2, 0).shape == x.transpose((1, 2, 0)).shape == (3, 4, 2)
    assert x.transpose([1, 2, 0]).shape == ta.transpose(x, axes=(1, 2, 0)).shape == (3, 4, 2)
    assert x.mT.shape == (2, 4, 3)


def test_the_transpose_of_matrices_needs_matrices(device):
    with pytest.raises(ValueError, match=r"\(3,\)"):
        _ = ta.zeros((3,), device=device).mT


@pytest.mark.parametrize("axes", [(0, 1), (0, 0, 1), (0, 1, 3)])
def test_axes_that_are_no_permutation_are_an_error(axes, device):
    with pytest.raises(ValueError):
        ta.transpose(ta.zeros((2, 3, 4), device=device), axes)


@pytest.mark.parametrize("pair", [(0, 2), (-1, 0), (1, 1), (-2, -1)])
def test_swapaxes(pair, device, random):
    data = random.normal(size=(2, 3, 4))
    agree(lambda x: x.swapaxes(*pair), lambda x: x.swapaxes(*pair), data, device=device)


@pytest.mark.parametrize(
    ("source", "destination"),
    [(0, -1), (-1, 0), (1, 1), ((0, 1), (-1, 0)), ((2, 0), (0, 1)), ((0, 1), (2, 0))],
)
def test_moveaxis(source, destination, device, random):
    agree(
        lambda x: ta.moveaxis(x, source, destination),
        lambda x: np.moveaxis(x, source, destination),
        random.normal(size=(2, 3, 4, 2)),
        device=device,
    )


@pytest.mark.parametrize(("source", "destination"), [((0, 1), 0), ((0, 0), (1, 2)), (3, 0)])
def test_invalid_moves_of_axes_are_errors(source, destination, device):
    with pytest.raises(ValueError):
        ta.moveaxis(ta.zeros((2, 3, 4), device=device), source, destination)


@pytest.mark.parametrize("axis", [0, 1, -1, -3, (0, -1), (-1, -2), (1, 2)])
def test_expand_dims(axis, device, random):
    agree(
        lambda x: ta.expand_dims(x, axis),
        lambda x: np.expand_dims(x, axis),
        random.normal(size=(2, 3)),
        device=device,
    )


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (-1, 0), ()])
def test_squeeze(axis, device, random):
    agree(
        lambda x: x.squeeze(axis),
        lambda x: np.squeeze(x, axis),
        random.normal(size=(1, 3, 1)),
        device=device,
    )


def test_squeezing_an_axis_of_another_length_is_an_error(device):
    with pytest.raises(ValueError, match=r"axis 1 of shape .* has length 3"):
        ta.zeros((1, 3), device=device).squeeze(-1)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), (-1, 0)])
@pytest.mark.parametrize("shape", [(2, 3), (2, 0), (1, 4)])
def test_flip(axis, shape, device, random):
    agree(
        lambda x: ta.flip(x, axis),
        lambda x: np.flip(x, axis),
        random.normal(size=shape),
        device=device,
    )


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize("k", [-3, -1, 0, 1])
def test_triangles(name, k, device, random):
    for shape in [(3, 3), (2, 2, 4), (0, 2)]:
        agree(
            lambda x: getattr(ta, name)(x, k),
            lambda x: getattr(np, name)(x, k),
            random.normal(size=shape),
            device=device,
        )


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_a_vector_has_no_triangle(name, device):
    with pytest.raises(ValueError, match=rf"{name} .*\(3,\)"):
        getattr(ta, name)(ta.zeros(3, device=device))


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(2,), (3,)], 0),
        ([(2, 3), (1, 3), (2, 3)], 0),
        ([(2, 3), (2, 1)], -1),
        ([(2, 0), (2, 3)], 1),
        ([(2, 3)], 0),
        ([(2, 3), (), (1,)], None),
    ],
)
def test_concatenate(shapes, axis, device, random):
    agree(
        lambda *xs: ta.concatenate(xs, axis),
        lambda *xs: np.concatenate(xs, axis),
        *[random.normal(size=shape) for shape in shapes],
        device=device,
    )


@pytest.mark.parametrize("join", [ta.concatenate, ta.stack])
def test_a_tensor_that_occurs_twice_gets_the_sum_of_the_cotangents(join, device, random):
    data = random.normal(size=(2, 3))
    check_gradient(lambda x: join([x, x * 2, x]).square(), data, device=device)


def test_arrays_may_be_joined_with_tensors(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = ta.concatenate([ta.zeros(3, device=device), x, ta.zeros(1, device=device)])
    y.backward(ta.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], device=device))
    assert x.grad.tolist() == [4, 5]


def test_joining_saves_neither_inputs_nor_output(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = ta.concatenate([x, x])
    total = y.sum()
    x.data[...] = 7.0
    y.data[...] = 7.0
    total.backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_stack(axis, device, random):
    agree(
        lambda *xs: ta.stack(xs, axis),
        lambda *xs: np.stack(xs, axis),
        random.normal(size=(2,)),
        random.normal(size=(2,)),
        random.normal(size=(2,)),
        device=device,
    )


def test_incompatible_shapes_of_joined_arrays_are_an_error(device):
    x, y = ta.zeros((2, 3), device=device), ta.zeros((3, 2), device=device)
    for join in (ta.concatenate, ta.stack):
        with pytest.raises(ValueError, match=r"array 1 has shape \(3, 2\).*\(2, 3\)"):
            join([x, y])
        with pytest.raises(ValueError, match="at least one"):
            join([])
        with pytest.raises(IndexError, match="axis 5"):
            join([x, x], axis=5)


@pytest.mark.parametrize(
    ("shape", "how", "axis"),
    [
        ((6,), 3, 0),
        ((2, 6), 2, -1),
        ((5,), [2], 0),
        ((5, 2), [1, 3], 0),
        ((5,), [2, 9], 0),
        ((4,), 1, 0),
        ((0,), 2, 0),
        ((3,), [], 0),
        ((4,), [-1], 0),
    ],
)
def test_split(shape, how, axis, device, random):
    data = random.normal(size=shape)
    parts = ta.split(ta.tensor(data, device=device), how, axis)
    expected = np.split(data, how, axis)
    assert len(parts) == len(expected)
    for part, wanted in zip(parts, expected):
        np.testing.assert_array_equal(part.numpy(), wanted)
    check_gradient(lambda x: ta.split(x, how, axis)[-1].square(), data, device=device)
    check_gradient(lambda x: ta.split(x, how, axis)[0].square(), data, device=device)


@pytest.mark.parametrize("sections", [0, 4, -1])
def test_an_axis_that_cannot_be_split_equally_is_an_error(sections, device):
    with pytest.raises(ValueError, match=rf"axis 1 of shape \(2, 6\) into {sections} equal"):
        ta.split(ta.zeros((2, 6), device=device), sections, axis=1)


def test_views_share_memory_and_mutation_of_the_original_is_detected(device):
    x = ta.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, device=device)
    for view in (
        x.T,
        x.reshape(4),
        ta.flip(x),
        x.squeeze(),
        ta.expand_dims(x, 0),
        x[0],
        x[:, None],
    ):
        y = ta.square(view).sum()
        x.data[...] = 5.0
        with pytest.raises(RuntimeError, match="changed"):
            y.backward()


def test_float32_stays_float32(device):
    x = ta.ones((2, 2), device=device)
    for y in (x.T, ta.tril(x), ta.stack([x, x]), ta.concatenate([x, x]), *ta.split(x, 2)):
        assert y.dtype == np.float32


def test_sequences_and_numbers_are_converted_to_tensors(device):
    with ta.device(device):
        results = [
            ta.swapaxes([[1.0, 2.0]], 0, 1),
            ta.moveaxis([[1.0, 2.0]], 0, 1),
            ta.expand_dims(1.0, 0),
            ta.squeeze([[1.0]]),
        ]
    assert [y.shape for y in results] == [(2, 1), (2, 1), (1,), ()]
    assert {y.device for y in results} == {device}


def test_a_sequence_is_moved_to_the_device_of_the_other_tensors(device):
    y = ta.concatenate([[1.0], ta.tensor([2.0], device=device)])
    assert y.device == device and y.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["concatenate", "stack"])
def test_tensors_that_are_not_in_a_sequence_are_an_error(name):
    with pytest.raises(TypeError, match=rf"as one sequence: {name}\(\[x, y\]"):
        getattr(ta, name)(ta.ones(2), ta.ones(2))


def test_the_error_for_axes_that_are_no_permutation_shows_the_shape(device):
    with pytest.raises(ValueError, match=r"axes \(1, 2\) for shape \(2, 3, 4\): .* swapaxes"):
        ta.zeros((2, 3, 4), device=device).transpose(1, 2)
