"""Hard cases AT: a query sees exactly its keys, with and without a cache, and dropout keeps the expected output.

Of the cases that need a model (AT-07, AT-13, AT-14, AT-17) this file holds what concerns the function.
"""

import numpy as np
import pytest

import tinyattn as ta

KINDS = pytest.mark.parametrize("kind", ["auto", "dense"])


@KINDS
def test_AT_01_the_last_query_sees_the_last_key(leaf, equals, kind):
    q, k, v = leaf(np.zeros((2, 1))), leaf(np.zeros((5, 1))), leaf(np.arange(5)[:, None])
    out = ta.scaled_dot_product_attention(q, k, v, causal=True, kind=kind)
    equals(out, [[1.5], [2.0]])


@KINDS
def test_AT_02_one_query_over_a_cache_sees_all_of_it(leaf, equals, kind):
    q, k, v = leaf(np.zeros((1, 1))), leaf(np.zeros((5, 1))), leaf(np.arange(5)[:, None])
    equals(ta.scaled_dot_product_attention(q, k, v, causal=True, kind=kind), [[2.0]])


@KINDS
def test_AT_04_true_means_may_attend(leaf, equals, device, kind):
    q, k, v = leaf([[0]]), leaf([[0], [0]]), leaf([[10], [20]])
    mask = ta.tensor([[True, False]], device=device)
    equals(ta.scaled_dot_product_attention(q, k, v, mask=mask, kind=kind), [[10]])


@KINDS
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_AT_05_a_mask_of_numbers_is_refused(leaf, device, kind, dtype):
    q, k, v = leaf([[0]]), leaf([[0], [0]]), leaf([[10], [20]])
    mask = ta.tensor(np.array([[1, 0]], dtype), device=device)
    with pytest.raises(TypeError, match=dtype):
        ta.scaled_dot_product_attention(q, k, v, mask=mask, kind=kind)


@KINDS
def test_AT_07_without_dropout_two_calls_agree_to_the_bit(leaf, random, kind):
    q, k, v = (leaf(random.standard_normal((4, 3))) for _ in range(3))
    first, second = (
        ta.scaled_dot_product_attention(q, k, v, dropout_p=0.0, kind=kind).numpy() for _ in "12"
    )
    np.testing.assert_array_equal(first, second)
    dropped = ta.scaled_dot_product_attention(q, k, v, dropout_p=0.9, kind=kind).numpy()
    assert (dropped != first).any()
    x = leaf([1, 2, 3])
    assert ta.dropout(x, 0.9, training=False).tolist() == [1, 2, 3]


def test_AT_08_dropout_of_1_gives_zeros_and_of_0_changes_nothing(leaf, equals):
    x = leaf([1, 2, 3])
    y = ta.dropout(x, p=1)
    y.sum().backward()
    equals(y, [0, 0, 0])
    equals(x.grad, [0, 0, 0])
    equals(ta.dropout(x, p=0), [1, 2, 3])
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match=str(p)):
            ta.dropout(x, p=p)


def full_and_in_chunks(leaf, kind, chunks):
    """One causal pass over 1, 2, 3, and the same in chunks that each meet the keys of those before."""
    x = np.array([[1.0], [2.0], [3.0]])
    full = ta.scaled_dot_product_attention(leaf(x), leaf(x), leaf(x), causal=True, kind=kind)
    parts, start = [], 0
    for length in chunks:
        seen = leaf(x[: start + length])
        new = leaf(x[start : start + length])
        parts.append(ta.scaled_dot_product_attention(new, seen, seen, causal=True, kind=kind))
        start += length
    return full, np.concatenate([part.numpy() for part in parts])


@KINDS
@pytest.mark.parametrize("chunks", [[2, 1], [1, 1, 1]])
def test_AT_10_a_step_after_a_prefill_equals_the_full_pass(leaf, equals, kind, chunks):
    full, cached = full_and_in_chunks(leaf, kind, chunks)
    equals(full, [[1], [1.88079708], [2.94797458]], decimals=8)
    equals(cached, full.numpy())


@KINDS
def test_AT_11_several_tokens_after_a_cache_equal_the_full_pass(leaf, equals, kind):
    _, cached = full_and_in_chunks(leaf, kind, [1, 2])
    equals(cached[1:], [[1.88079708], [2.94797458]], decimals=8)


@KINDS
def test_AT_16_no_sequences_give_none_and_one_key_gives_its_value(leaf, equals, kind):
    empty = [leaf(np.zeros((0, 4, 2))) for _ in range(3)]
    out = ta.scaled_dot_product_attention(*empty, causal=True, kind=kind)
    assert out.shape == (0, 4, 2)
    out.sum().backward()
    assert all(x.grad.shape == (0, 4, 2) for x in empty)

    q, k, v = leaf([[0.7, -0.2]]), leaf([[0.1, 0.9]]), leaf([[3, -4]])
    out = ta.scaled_dot_product_attention(q, k, v, causal=True, kind=kind)
    out.sum().backward()
    equals(out, [[3, -4]])
    assert q.grad.tolist() == k.grad.tolist() == [[0, 0]]
    equals(v.grad, [[1, 1]])


@KINDS
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", [2, 3, 8])
def test_AT_17_the_last_token_changes_nothing_before_it(leaf, random, kind, batch, length):
    first = random.standard_normal((batch, 2, length, 4))
    other = first.copy()
    other[..., -1, :] += 1.0
    results = [
        ta.scaled_dot_product_attention(leaf(x), leaf(x), leaf(x), causal=True, kind=kind).numpy()
        for x in (first, other)
    ]
    np.testing.assert_array_equal(results[0][..., :-1, :], results[1][..., :-1, :])
    assert (results[0][..., -1, :] != results[1][..., -1, :]).all()
