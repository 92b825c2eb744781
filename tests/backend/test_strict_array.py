"""A strict array behaves like a CuPy array where that differs from NumPy's."""

import math

import numpy as np
import pytest

from tinyattn.backend import get_backend
from tinyattn.backend.strict_array import StrictArray

xp = get_backend("strict").xp


def test_CU_01_arrays_are_not_built_from_device_values_implicitly():
    angle = xp.cos(xp.array(0.0))
    assert type(angle) is StrictArray and angle.shape == ()
    with pytest.raises(TypeError, match="not converted to a NumPy array implicitly"):
        xp.array([[0, 1, angle]])
    assert xp.array([[0, 1, angle.item()]]).tolist() == [[0, 1, 1]]


def test_CU_02_a_python_scalar_takes_the_dtype_of_the_array_and_a_numpy_scalar_keeps_its_own():
    a = xp.ones(2, dtype=np.float32)
    for result in (a / 123456, a * 2.5, 1 - a, a**2, a + True, xp.maximum(a, 0.5)):
        assert result.dtype == np.float32
    assert (a * np.float64(2)).dtype == np.float64
    assert (np.float64(2) * a).dtype == np.float64
    assert (a * xp.sum(xp.ones(2, dtype=np.float64))).dtype == np.float64


def test_CU_04_floats_outside_the_range_of_an_integer_dtype_become_the_nearest_integer():
    values = xp.asarray(np.array([-1.0, np.inf, -np.inf, np.nan, 2.9, 3e9], dtype=np.float32))
    low, high = -2147483648, 2147483647
    assert values.astype(np.int32).tolist() == [-1, high, low, 0, 2, high]
    assert values.astype(np.uint32).tolist() == [0, 4294967295, 0, 0, 2, 3000000000]
    target = xp.zeros(1, dtype=np.uint8)
    target[0] = xp.asarray(np.float32(300.0))
    assert target.tolist() == [255]


def test_indexing_gives_arrays_never_scalars():
    a = xp.ones((2, 3))
    for result in (a[0, 0], a[0], a[:, 1], a[a > 0], next(iter(a[0])), a.sum(), a.max(axis=0)):
        assert type(result) is StrictArray
    assert a[0, 0].shape == ()


def test_slices_are_views_and_array_indices_copies():
    a = xp.zeros(4)
    a[1:3][0] = 5.0
    assert a.tolist() == [0, 5, 0, 0]
    a[xp.array([0, 1])].fill(9.0)
    assert a.tolist() == [0, 5, 0, 0]
    rows = xp.zeros((2, 1))
    rows[xp.array(1)].fill(9.0)  # an array without axes is an array all the same
    rows[1].fill(5.0)
    assert rows.tolist() == [[0], [5]]


@pytest.mark.parametrize(
    "index", [[3, -4], np.array([3, -4]), xp.array([3, -4]), xp.array([3, -4], dtype=np.int8)]
)
def test_index_arrays_wrap_around_silently(index):
    a = xp.arange(3)
    assert a[index].tolist() == [0, 2]
    a[index] = 7
    assert a.tolist() == [7, 1, 7]


def test_index_arrays_wrap_on_the_axis_they_stand_on():
    host = np.arange(600).reshape(2, 300, 1)
    a = xp.asarray(host)
    small = xp.array([-1], dtype=np.int8)  # an int8 cannot hold the length 300
    assert a[1, small].tolist() == host[1, [-1]].tolist()
    assert a[..., small, 0].tolist() == host[..., [-1], 0].tolist()
    assert a[None, :, xp.array([301])].tolist() == host[None, :, [1]].tolist()
    assert a[a > 597].tolist() == [598, 599]
    assert a[xp.array([[2]]), xp.array([299])].tolist() == host[[[0]], [299]].tolist()


def test_a_whole_number_out_of_range_is_an_index_error():
    with pytest.raises(IndexError):
        xp.arange(3)[3]


def test_a_host_array_is_not_written_into_a_device_array():
    a = xp.zeros(3)
    with pytest.raises(ValueError, match="implicitly"):
        a[:] = np.ones(3)
    a.set(np.ones(3))
    assert a.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="expected float64 of shape"):
        a.set(np.ones(2))


def test_scalars_are_asked_for():
    one = xp.asarray(1.5)
    assert (int(one), float(one), bool(one), one.item()) == (1, 1.5, True, 1.5)
    assert f"{one:.2f}" == "1.50" and math.floor(float(one)) == 1
    assert xp.ones((2, 1)).item(1) == 1.0
    with pytest.raises(TypeError):
        range(3)[xp.array(1)]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(xp.ones(2))


def test_protocols():
    a = xp.ones((2, 3))
    assert len(a) == 2 and [row.shape for row in a] == [(3,), (3,)]
    assert a.__array_namespace__() is xp
    with pytest.raises(TypeError):
        hash(a)
    with pytest.raises(TypeError):
        iter(xp.asarray(1.0))
    with pytest.raises(TypeError):
        len(xp.asarray(1.0))


def test_numpy_functions_dispatch_to_the_same_function_of_the_device():
    a = xp.ones((2, 3))
    assert type(np.exp(a)) is StrictArray
    assert type(np.sum(a)) is StrictArray
    assert type(np.float32(2) * a) is StrictArray
    with pytest.raises(TypeError):
        np.add.at(a, 0, 1.0)
    with pytest.raises(TypeError):
        np.add.reduce(a)
    with pytest.raises(TypeError):
        np.median(a)


def test_in_place_operators_keep_the_memory():
    a = xp.ones(3, dtype=np.float32)
    same = a
    a += 1
    a *= xp.asarray(np.float32(3))
    a -= 2
    a /= 4
    a **= 2
    assert a is same and a.tolist() == [1, 1, 1] and a.dtype == np.float32
    counts = xp.ones(2, dtype=np.int64)
    with pytest.raises(TypeError):
        counts += 0.5


def test_shape_methods_and_attributes_follow_numpy(random):
    host = random.standard_normal((2, 3, 4))
    a = xp.asarray(host)
    assert (a.shape, a.ndim, a.size, a.dtype, a.itemsize, a.nbytes) == (
        (2, 3, 4),
        3,
        24,
        np.float64,
        8,
        192,
    )
    assert a.strides == host.strides and a.flags.c_contiguous and a.T.flags.f_contiguous
    assert not hasattr(a.flags, "writeable")
    assert np.array_equal(a.T.get(), host.T) and np.array_equal(a.mT.get(), host.mT)
    assert np.array_equal(a.transpose(1, 2, 0).get(), host.transpose(1, 2, 0))
    assert np.array_equal(a.reshape(6, -1).get(), host.reshape(6, -1))
    assert np.array_equal(a.swapaxes(0, 2).get(), host.swapaxes(0, 2))
    assert a[:, :1].squeeze(1).shape == (2, 4) and a.ravel().shape == (24,)
    assert a.astype(a.dtype, copy=False) is a and a.astype(np.float32).dtype == np.float32
    assert a.view(np.int64).dtype == np.int64 and a.copy().base is None


def test_writes_are_reported_also_through_views():
    writes = []
    a = get_backend("strict").tracked(xp.zeros((2, 3)), lambda: writes.append(1))
    a[0] = 1.0
    a[1][:2] = 2.0
    a.T[0] = 3.0
    a.reshape(6)[0] = 4.0
    a += 1
    a.fill(0.0)
    xp.add(a, 1, out=a)
    assert len(writes) == 7
    result = a * 2  # of its own memory
    result += 1
    a[xp.array([0])].fill(1.0)
    assert len(writes) == 7


def test_one_element_is_a_view_as_in_cupy():
    x = xp.zeros((2, 2))
    x[0, 1][...] = 5.0
    x[1][0][...] = 7.0
    assert x.tolist() == [[0, 5], [7, 0]]
