"""Random numbers: a seed gives the same numbers everywhere, and a state can be saved and restored."""

import json
import threading

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import Random, default_random, use_random


def draws(random):
    return [
        random.normal(size=3).tolist(),
        random.uniform(-1, 1, size=2).tolist(),
        random.integers(10, size=4).tolist(),
        random.integers(5, 7),
        random.permutation(6).tolist(),
        random.key(),
    ]


def test_the_same_seed_gives_the_same_stream_and_another_seed_another():
    assert draws(Random(3)) == draws(Random(3)) != draws(Random(4))


def test_a_state_survives_json_and_continues_the_stream():
    random = Random(0)
    random.normal(size=5)
    state = json.loads(json.dumps(random.state))
    expected = draws(random)
    other = Random(99)
    other.state = state
    assert draws(other) == expected


def test_the_stream_is_pcg64_of_numpy_so_that_it_outlives_this_library():
    expected = np.random.Generator(np.random.PCG64(7)).normal(0.0, 0.02, (2, 2))
    assert np.array_equal(Random(7).normal(0.0, 0.02, (2, 2)), expected)


def test_manual_seed_restarts_the_default_stream_and_leaves_numpys_alone():
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()
    assert draws(ta.manual_seed(1)) == draws(ta.manual_seed(1)) == draws(Random(1))
    assert np.random.get_state()[1].tolist() == before


def test_use_random_replaces_the_default_stream_inside_the_block_and_in_this_thread_only():
    outside = default_random()
    mine = Random(1)
    seen = []
    with use_random(mine) as given:
        assert given is mine and default_random() is mine
        thread = threading.Thread(target=lambda: seen.append(default_random()))
        thread.start()
        thread.join()
    assert default_random() is outside and seen == [outside]
    with pytest.raises(ZeroDivisionError), use_random(mine):
        raise ZeroDivisionError
    assert default_random() is outside


def test_keys_are_64_bits_and_do_not_repeat():
    random = Random(0)
    keys = [random.key() for _ in range(100)]
    assert len(set(keys)) == 100 and all(0 <= key < 2**64 for key in keys)
    assert max(keys) >= 2**63
