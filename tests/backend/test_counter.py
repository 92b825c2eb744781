"""Random bits of a key and a counter: the same on every device, and random enough for dropout."""

import numpy as np
import pytest

from tinyattn.backend import get_backend
from tinyattn.backend.counter import keep_mask, random_bits


def on_device(device, counter, key):
    backend = get_backend(device)
    bits = random_bits(key, backend.asarray(counter))
    assert bits.dtype == np.uint32
    return backend.to_host(bits)


COUNTER = np.arange(20000, dtype=np.uint32)


def test_every_device_gives_the_bits_of_the_cpu(device):
    key = 0x0123456789ABCDEF
    assert np.array_equal(on_device(device, COUNTER, key), random_bits(key, COUNTER))


def test_the_bits_are_those_of_the_definition():
    def mixed(counter, key):  # the same hash on Python's whole numbers
        low, high = key & 0xFFFFFFFF, key >> 32
        bits = ((counter ^ low) * 0x9E3779B9) % 2**32
        for half in (high, low):
            bits ^= bits >> 16
            bits = bits * 0x21F0AAAD % 2**32
            bits ^= bits >> 15
            bits = bits * 0xD35A2D97 % 2**32
            bits ^= bits >> 15
            bits ^= half
        return bits

    key = 0xFEDCBA9876543210
    expected = [mixed(int(counter), key) for counter in COUNTER[:100]]
    assert random_bits(key, COUNTER[:100]).tolist() == expected


def test_an_element_depends_on_its_own_number_only():
    assert np.array_equal(random_bits(5, COUNTER[100:200]), random_bits(5, COUNTER)[100:200])


def test_keys_that_differ_in_one_bit_of_either_half_give_unrelated_bits():
    for other in (5 ^ 1, 5 ^ (1 << 32), 5 ^ (1 << 63)):
        agree = np.unpackbits(
            (random_bits(5, COUNTER) ^ random_bits(other, COUNTER)).view(np.uint8)
        )
        assert abs(agree.mean() - 0.5) < 0.01


def test_every_bit_is_set_half_of_the_time_and_neighbors_are_unrelated():
    bits = random_bits(1, COUNTER)
    table = (bits[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    assert np.all(np.abs(table.mean(0) - 0.5) < 0.02)
    uniform = bits / 2**32
    for lag in (1, 2, 64):
        correlation = np.corrcoef(uniform[:-lag], uniform[lag:])[0, 1]
        assert abs(correlation) < 0.03


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_share_of_kept_elements_is_one_less_the_drop_probability(device, probability):
    backend = get_backend(device)
    kept = keep_mask(backend.asarray(COUNTER), 3, probability)
    assert kept.dtype == np.bool_
    kept = backend.to_host(kept)
    if probability in (0.0, 1.0):
        assert np.all(kept == (probability == 0.0))
    assert abs(kept.mean() - (1 - probability)) < 0.015
