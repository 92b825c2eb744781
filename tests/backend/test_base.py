"""The backend interface, and the lookup of the backend of an array."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import array_namespace, backend_of, get_backend, is_array


@pytest.fixture
def backend(device):
    return get_backend(device)


def test_asarray_and_to_host_are_inverse(backend, random):
    host = random.standard_normal((2, 3)).astype(np.float32)
    array = backend.asarray(host)
    assert isinstance(array, backend.array_type) and array.dtype == np.float32
    back = backend.to_host(array)
    assert type(back) is np.ndarray and np.array_equal(back, host)
    assert backend.asarray(array) is array
    assert backend.asarray([[1, 2]], dtype=np.float64).dtype == np.float64
    assert backend.asarray(3.0).shape == ()


def test_an_array_finds_its_backend_and_namespace(backend, device):
    array = backend.zeros((2,), np.float32)
    assert backend_of(array) is backend and backend.device == device
    assert is_array(array)
    assert array_namespace(array) is backend.xp
    assert array_namespace(None, 2.0, array) is backend.xp
    assert array_namespace(np.float64(2), array) is backend.xp
    assert array_namespace(array, ta.tensor([1.0], device=device)) is ta


def test_the_backend_of_another_type_than_an_array_raises():
    for value in (1.0, [1.0], None, np.float64(1)):
        assert not is_array(value)
        with pytest.raises(TypeError, match=r"tinyattn\.tensor"):
            backend_of(value)


def test_empty_and_zeros_have_the_asked_shape_and_dtype(backend):
    for make in (backend.empty, backend.zeros):
        array = make((2, 3), np.float64)
        assert array.shape == (2, 3) and array.dtype == np.float64
    assert backend.to_host(backend.zeros((2,), np.int64)).tolist() == [0, 0]


def scatter(backend, target, index, values):
    target = backend.asarray(target.copy())
    backend.scatter_add(target, index, backend.asarray(values))
    return backend.to_host(target)


def test_IX_07_scatter_add_accumulates_duplicates(backend):
    ids = backend.asarray([0, 1, 0, 1, 0])
    values = np.array([1, 2, 3, 4, 5], dtype=np.float32)
    assert scatter(backend, np.zeros(2, np.float32), ids, values).tolist() == [9, 6]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.int64])
def test_IX_08_scatter_add_works_in_every_dtype_of_the_library(backend, dtype):
    ids = backend.asarray([0, 1, 0, 1, 0])
    result = scatter(backend, np.zeros(2, dtype), ids, np.array([1, 2, 3, 4, -5], dtype))
    assert result.dtype == dtype and result.tolist() == [-1, 6]


def test_scatter_add_into_rows_slices_masks_and_pairs_of_indices(backend, random):
    host = random.standard_normal((4, 3))

    def expected(index, values):
        target = host.copy()
        np.add.at(target, index, values)
        return target

    rows = np.array([[0, 2], [2, -1]])
    values = random.standard_normal((2, 2, 3))
    np.testing.assert_allclose(
        scatter(backend, host, backend.asarray(rows), values), expected(rows, values)
    )
    ids = np.array([1, 1, 0])
    pairs = (ids, np.array([0, 0, 2]))
    device_pairs = tuple(backend.asarray(part) for part in pairs)
    values = random.standard_normal(3)
    np.testing.assert_allclose(
        scatter(backend, host, device_pairs, values), expected(pairs, values)
    )
    behind_slice = (slice(None), np.array([2, 2]))
    values = random.standard_normal((4, 2))
    np.testing.assert_allclose(
        scatter(backend, host, (slice(None), backend.asarray([2, 2])), values),
        expected(behind_slice, values),
    )
    values = random.standard_normal((2, 3))
    np.testing.assert_allclose(
        scatter(backend, host, slice(1, 3), values), expected(slice(1, 3), values)
    )
    mask = host > 0
    values = random.standard_normal(int(mask.sum()))
    np.testing.assert_allclose(
        scatter(backend, host, backend.asarray(mask), values), expected(mask, values)
    )


@pytest.mark.parametrize("wrong", [3, -4, 1000])
def test_an_index_out_of_range_is_an_index_error_that_names_it(backend, wrong):
    with pytest.raises(IndexError, match=rf"token {wrong} is out of range for an axis of size 3"):
        backend.check_indices(backend.asarray([0, wrong, 2]), 3, name="token")


def test_indices_in_range_pass(backend):
    backend.check_indices(backend.asarray([[0, 2], [-3, -1]]), 3)
    backend.check_indices(backend.asarray(np.array([], dtype=np.int64)), 0)


def test_writes_through_a_tracked_view_are_reported(backend):
    writes = []
    array = backend.zeros((2, 3), np.float32)
    tracked = backend.tracked(array, lambda: writes.append(1))
    assert writes == []

    def set_item(array):
        array[0] = 1.0

    def set_in_a_view(array):
        array[1][:2] = 2.0

    def set_in_a_transposed_view(array):
        array.T[2] = 3.0

    def add_in_place(array):
        array += 1

    def fill(array):
        array.fill(0.5)

    for write in (set_item, set_in_a_view, set_in_a_transposed_view, add_in_place, fill):
        before = len(writes)
        write(tracked)
        # At least once: CuPy fills to set an item, and reports that twice.
        assert len(writes) > before, write.__name__
    before = len(writes)
    assert backend.to_host(array).tolist() == [[0.5] * 3] * 2
    plain = backend.untracked(tracked)
    assert type(plain) is backend.array_type
    assert (ta.tensor([1.0, 1.0, 1.0], device=backend.device) * tracked).shape == (2, 3)
    doubled = tracked * 2  # of its own memory
    doubled += 1
    assert doubled.shape == (2, 3) and len(writes) == before


def test_synchronize_returns(backend):
    assert backend.synchronize() is None
    assert backend.device in repr(backend)
