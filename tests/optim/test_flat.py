"""Flat storage: layout, runs and cache blocks."""

import numpy as np

import tinyattn as ta
from tinyattn.backend import get_backend
from tinyattn.optim.flat import FlatStorage, cache_blocks


def storage(device, *shapes):
    random = np.random.default_rng(0)
    return FlatStorage([ta.tensor(random.normal(size=shape), device=device) for shape in shapes])


def test_each_parameter_starts_a_cache_line_and_overlaps_no_other(device):
    flat = storage(device, (3,), (), (0, 4), (2, 9), (8,))
    assert all(piece.start * 8 % 64 == 0 for piece in flat.slices)
    for before, after in zip(flat.slices, flat.slices[1:]):
        assert before.stop <= after.start
    for piece, parameter in zip(flat.slices, flat.parameters):
        assert np.array_equal(
            np.array(flat.backend.to_host(flat.values[piece])), parameter.numpy().reshape(-1)
        )


def test_a_write_to_the_buffer_is_a_write_to_the_parameter(device):
    flat = storage(device, (3,), (2, 2))
    flat.values[...] = 7.0
    assert all(np.all(parameter.numpy() == 7) for parameter in flat.parameters)


def test_runs_join_neighbors_of_one_label_and_skip_none(device):
    flat = storage(device, (8,), (8,), (8,), (8,), (8,))
    assert flat.runs([1, 1, None, 1, 2]) == [
        (1, slice(0, 16)),
        (1, slice(24, 32)),
        (2, slice(32, 40)),
    ]
    assert flat.runs([None] * 5) == []


def test_blocks_cover_the_piece_once():
    blocks = cache_blocks(slice(5, 105), get_backend("cpu"), elements=30)
    covered = [position for block in blocks for position in range(block.start, block.stop)]
    assert covered == list(range(5, 105))
