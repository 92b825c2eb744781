"""The rules of tinyattn.ops.linear_algebra."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

PRODUCTS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 2)),
    ((2, 2, 3), (3,)),
    ((3,), (2, 3, 2)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 2)),
    ((2, 2, 3), (2, 3, 1)),
    ((2, 1, 2, 3), (2, 3, 2)),
    ((1, 2, 3), (2, 3, 2)),
    ((2, 2, 3), (1, 3, 2)),
    ((1, 1), (1, 1)),
    ((2, 0), (0, 3)),
    ((0,), (0,)),
    ((0, 2, 3), (3, 2)),
    ((0, 3), (3, 2)),
    ((2, 3), (3, 0)),
    ((2, 2, 0), (0, 3)),
]


@pytest.mark.parametrize(("left", "right"), PRODUCTS)
def test_matmul(left, right, device, random):
    a, b = random.normal(size=left), random.normal(size=right)
    y = ta.tensor(a, device=device) @ ta.tensor(b, device=device)
    expected = np.asarray(a @ b)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-13, atol=1e-15)
    check_gradient(ta.matmul, a, b, device=device)


def test_matmul_of_transposed_matrices(device, random):
    a, b = random.normal(size=(3, 2)), random.normal(size=(2, 2, 3))
    check_gradient(lambda a, b: a.T @ b.mT, a, b, device=device)


def test_a_matrix_times_itself_counts_both_sides(device, random):
    check_gradient(lambda a: a @ a, random.normal(size=(3, 3)), device=device)


@pytest.mark.parametrize("which", [0, 1])
def test_matmul_saves_only_operands_that_backward_needs(which, device):
    a = ta.tensor([[1.0, 2.0]], requires_grad=which == 0, device=device)
    b = ta.tensor([[3.0], [4.0]], requires_grad=which == 1, device=device)
    y = a @ b
    (a, b)[which].data[...] = 0.0  # the product is linear in it: its own gradient does not read it
    y.backward()
    assert (a, b)[which].grad.numpy().ravel().tolist() == ([3, 4] if which == 0 else [1, 2])


def test_float32_stays_float32_in_both_directions(device):
    a = ta.tensor([[1.0, 2.0]], requires_grad=True, device=device)
    for y in (a @ a.T, ta.einsum("ij,ij->", a, a), ta.einsum("ii->i", a.T @ a)):
        (g,) = ta.grad(y, a, grad_outputs=ta.ones_like(y))
        assert y.dtype == g.dtype == np.float32


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ((2, 3), (2, 3), "3"),
        ((3,), (2,), "3"),
        ((), (2,), "axis"),
        ((2,), (), "axis"),
        ((2, 2, 3), (3, 3, 2), "broadcast"),
    ],
)
def test_incompatible_shapes_are_an_error(left, right, said, device):
    a, b = ta.ones(left, device=device), ta.ones(right, device=device)
    with pytest.raises(ValueError, match=said) as caught:
        a @ b
    assert str(left) in str(caught.value) and str(right) in str(caught.value)


CONTRACTIONS = [
    ("ij,jk->ik", [(2, 3), (3, 2)]),
    ("ij,jk", [(2, 3), (3, 2)]),
    ("ba", [(2, 3)]),  # the implicit output is in alphabetical order: a transpose
    ("i,i", [(3,), (3,)]),
    ("i,i->i", [(3,), (3,)]),
    ("i,j->ij", [(2,), (3,)]),
    ("ij->ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ijk->j", [(2, 3, 2)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iij->j", [(2, 2, 3)]),
    ("iii->i", [(2, 2, 2)]),
    ("iji->j", [(2, 3, 2)]),
    ("ii,ij->j", [(2, 2), (2, 3)]),
    ("ij,j->", [(2, 3), (3,)]),
    ("ij,k->k", [(2, 3), (2,)]),
    ("ij,ij,jk->ik", [(2, 3), (2, 3), (3, 2)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 2)]),
    ("...ij,...jk->...ik", [(2, 1, 2, 3), (2, 3, 2)]),
    ("...ij,jk", [(2, 2, 3), (3, 2)]),
    ("...i->...", [(2, 2, 3)]),
    ("i...->...i", [(2, 2, 3)]),
    ("...,...->...", [(2, 1), (3,)]),
    ("...,...", [(), ()]),
    (" i j , j -> i ", [(2, 3), (3,)]),
    ("bhqd,bhkd->bhqk", [(1, 2, 2, 3), (1, 2, 3, 3)]),
    ("ij,ij->i", [(2, 1), (2, 3)]),
    ("ij,ij->", [(2, 3), (1, 3)]),
    ("ij,jk->ik", [(2, 0), (0, 2)]),
    ("ij->i", [(2, 0)]),
    ("ij->j", [(0, 2)]),
    (",i->i", [(), (3,)]),
]


@pytest.mark.parametrize(("subscripts", "shapes"), CONTRACTIONS)
def test_einsum(subscripts, shapes, device, random):
    arrays = [random.normal(size=shape) for shape in shapes]
    y = ta.einsum(subscripts, *[ta.tensor(array, device=device) for array in arrays])
    expected = np.asarray(np.einsum(subscripts, *arrays))
    assert y.shape == expected.shape
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-13, atol=1e-14)
    check_gradient(lambda *xs: ta.einsum(subscripts, *xs), *arrays, device=device)


def test_the_axes_of_an_ellipsis_may_be_summed_over(device, random):
    data = random.normal(size=(2, 2, 3))  # NumPy refuses this one
    y = ta.einsum("...i->i", ta.tensor(data, device=device))
    np.testing.assert_allclose(y.numpy(), data.sum((0, 1)))
    check_gradient(lambda x: ta.einsum("...i->i", x), data, device=device)


def test_an_operand_may_be_given_twice(device, random):
    check_gradient(
        lambda x: ta.einsum("ij,kj->ik", x, x), random.normal(size=(2, 3)), device=device
    )


def test_einsum_returns_a_copy(device):
    x = ta.ones((2, 3), device=device)
    y = ta.einsum("ij->ji", x)
    x.data[...] = 0.0
    assert y.numpy().all()


@pytest.mark.parametrize(
    ("subscripts", "shapes", "said"),
    [
        ("ij,jk->ik", [(2, 3)], "2 operands, got 1"),
        ("ij->i", [(2, 3, 4)], "3 axes"),
        ("ijk->i", [(2, 3)], "2 axes"),
        ("ij,jk->ik", [(2, 3), (4, 2)], "index j has length 3 before and 4"),
        ("i,i,i->", [(1,), (0,), (2,)], "length 0 before and 2"),
        ("ij->k", [(2, 3)], "'k'"),
        ("ij->ii", [(2, 3)], "'ii'"),
        ("i1->i", [(2, 3)], "letters"),
        ("...,...->...", [(2,), (3,)], r"\.\.\."),
    ],
)
def test_invalid_subscripts_are_an_error(subscripts, shapes, said, device):
    operands = [ta.ones(shape, device=device) for shape in shapes]
    with pytest.raises(ValueError, match=said):
        ta.einsum(subscripts, *operands)


def test_einsum_requires_the_subscripts_first(device):
    with pytest.raises(TypeError, match="string"):
        ta.einsum(ta.ones(2, device=device), "i->i")


def test_einsum_takes_sequences():
    assert ta.einsum("ij,j->i", ta.tensor([[1.0, 2.0], [3.0, 4.0]]), [1.0, -1.0]).tolist() == [
        -1,
        -1,
    ]


def test_a_backward_of_einsum_costs_no_more_indices_than_its_forward(monkeypatch):
    """A chain of products is taken two at a time, backward as forward: no pass over all of its indices together."""
    einsum, calls = np.einsum, []

    def counted(subscripts, *operands, optimize=False, **options):
        calls.append((subscripts, len(operands), optimize))
        return einsum(subscripts, *operands, optimize=optimize, **options)

    monkeypatch.setattr(np, "einsum", counted)
    x = ta.tensor(np.eye(4), requires_grad=True)
    for create_graph in (False, True):
        del calls[:]
        y = ta.einsum("ij,jk,kl->il", x, x, x)
        ta.grad(y, [x], ta.ones_like(y), create_graph=create_graph)
        assert len(calls) == 4 and all(optimize for _, _, optimize in calls)
