"""Attention masks: which query may attend to which key."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.attention.masks import causal_mask, visible_keys


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 4), (3, 3), (2, 5), (5, 2), (0, 3)])
def test_the_last_query_sees_all_keys_and_each_one_before_it_one_key_less(queries, keys):
    mask = causal_mask(queries, keys)
    assert mask.shape == (queries, keys)
    for i in range(queries):
        assert mask[i].sum() == max(keys - (queries - 1 - i), 0)
        assert (np.diff(mask[i].astype(int)) <= 0).all()  # what is visible is a prefix


def test_a_causal_call_sees_what_both_masks_allow(device, random):
    q, k = (ta.tensor(np.zeros((n, 2)), device=device) for n in (3, 4))
    mask = random.random((2, 3, 4)) < 0.5
    given = ta.tensor(mask, device=device)._data
    visible = ta.tensor(visible_keys(q, k, given, True)).numpy()
    np.testing.assert_array_equal(visible, mask & np.tril(np.ones((3, 4), bool), 1))
    assert visible_keys(q, k, given, False) is given
    assert visible_keys(q, k, None, False) is None
