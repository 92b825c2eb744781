"""Hard cases MM: matrix products of any number of axes, and of empty arrays, have right gradients."""

import numpy as np
import pytest


def test_MM_01_vector_times_vector_is_a_number_with_gradients_of_vectors(leaf, equals):
    a, b = leaf([1, 2, 3]), leaf([4, 5, 6])
    product = a @ b
    product.backward()
    equals(product, 32)
    equals(a.grad, [4, 5, 6])
    equals(b.grad, [1, 2, 3])


def test_MM_02_matrix_times_vector_has_gradients_of_both_shapes(leaf, constant, equals):
    a, v = leaf([[1, 2, 3], [4, 5, 6]]), leaf([1, 0, -1])
    product = a @ v
    product.backward(constant([1, 10]))
    equals(product, [-2, -2])
    equals(a.grad, [[1, 0, -1], [10, 0, -10]])
    equals(v.grad, [41, 52, 63])


def test_MM_02_vector_times_matrix_has_gradients_of_both_shapes(leaf, constant, equals):
    v, a = leaf([1, 0]), leaf([[1, 2], [3, 4]])
    product = v @ a
    product.backward(constant([1, 10]))
    equals(product, [1, 2])
    equals(v.grad, [21, 43])
    equals(a.grad, [[1, 10], [0, 0]])


def test_MM_04_a_vector_with_a_batch_of_matrices_gets_the_sum_over_the_batch(leaf, equals):
    v, b = leaf([1, 2]), leaf(np.arange(12).reshape(2, 2, 3))
    product = v @ b
    equals(product, [[6, 9, 12], [24, 27, 30]])
    product.sum().backward()
    equals(v.grad, [24, 42])
    equals(b.grad, [[[1, 1, 1], [2, 2, 2]]] * 2)
    b, u = leaf(np.arange(12).reshape(2, 3, 2)), leaf([1, 10])
    product = b @ u
    equals(product, [[10, 32, 54], [76, 98, 120]])
    product.sum().backward()
    equals(u.grad, [30, 36])
    equals(b.grad, np.broadcast_to([1, 10], (2, 3, 2)))


def test_MM_05_a_matrix_against_a_batch_gets_the_sum_over_the_batch(leaf, equals):
    a, b = leaf([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), leaf([[9, 10], [11, 12]])
    (a @ b).sum().backward()
    equals(b.grad, [[16, 16], [20, 20]])
    equals(a.grad, np.broadcast_to([19, 23], (2, 2, 2)))


def test_MM_05_batches_that_broadcast_both_ways_are_summed_over_the_expanded_axes(
    leaf, constant, equals, random
):
    left, right = random.standard_normal((3, 1, 2, 4)), random.standard_normal((5, 4, 2))
    g = random.standard_normal((3, 5, 2, 2))
    a, b = leaf(left), leaf(right)
    (a @ b).backward(constant(g))
    equals(a.grad, (g @ right.swapaxes(-1, -2)).sum(1, keepdims=True))
    equals(b.grad, (left.swapaxes(-1, -2) @ g).sum(0))


def test_MM_07_an_inner_dimension_of_zero_gives_zeros(leaf, equals):
    a, b = leaf(np.zeros((2, 0))), leaf(np.zeros((0, 3)))
    product = a @ b
    equals(product, np.zeros((2, 3)))
    product.sum().backward()
    equals(a.grad, np.zeros((2, 0)))
    equals(b.grad, np.zeros((0, 3)))


def test_MM_08_a_batch_of_zero_gives_a_weight_gradient_of_zeros(leaf, equals):
    x, weight = leaf(np.zeros((0, 2, 3))), leaf(np.ones((3, 4)))
    product = x @ weight
    equals(product, np.zeros((0, 2, 4)))
    product.sum().backward()
    equals(weight.grad, np.zeros((3, 4)))
    equals(x.grad, np.zeros((0, 2, 3)))


def test_MM_01_a_number_is_no_matrix(leaf):
    with pytest.raises(ValueError, match="matmul"):
        leaf(2.0) @ leaf([1, 2])
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        leaf([1, 2]) @ leaf([1, 2, 3])
