"""The CuPy backend where there is no GPU: what it says, and what can be checked of it.

Everything that computes is in test_base.py and runs on "cuda" where a GPU is.
"""

import subprocess
import sys

import numpy as np
import pytest

from tests.conftest import missing

# A GPU that is there answers these questions otherwise.
without_gpu = pytest.mark.skipif(missing("cuda") is None, reason="there is a GPU here")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed", exc_type=ImportError)


@pytest.fixture
def cupy_backend(cupy):
    from tinyattn.backend import cupy_backend

    return cupy_backend


@pytest.fixture
def array(cupy):
    """A CuPy array over memory that is not there: its shape can be worked with, its content cannot."""
    nowhere = cupy.cuda.UnownedMemory(4096, 24, None, device_id=0)
    pointer = cupy.cuda.MemoryPointer(nowhere, 0)
    return cupy.ndarray((2, 3), dtype=np.float32, memptr=pointer)


@without_gpu
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_missing_gpu_is_a_one_sentence_error(name):
    from tinyattn.backend import get_backend

    with pytest.raises(RuntimeError) as raised:
        get_backend(name)
    message = str(raised.value)
    assert "cuda" in message and "was requested" in message
    assert "install" in message and '"strict"' in message
    assert "\n" not in message


def test_without_cupy_the_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['cupy'] = None\n"
        "import tinyattn as ta\n"
        "try: ta.tensor([1.0], device='cuda')\n"
        "except RuntimeError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "CuPy is missing" in run.stdout and "pip install cupy-cuda13x" in run.stdout


def test_a_gpu_number_out_of_range_raises_with_the_available_ones(cupy_backend, monkeypatch):
    monkeypatch.setattr(cupy_backend, "_count_gpus", lambda device: 2)
    with pytest.raises(RuntimeError, match=r'"cuda:2" was requested.*only cuda:0, cuda:1'):
        cupy_backend.backend_for(2)


def test_an_array_on_the_gpu_finds_cupy_as_its_namespace(cupy_backend, cupy, array, monkeypatch):
    from tinyattn.backend import array_namespace, backend_of

    backend = object.__new__(cupy_backend.CupyBackend)
    monkeypatch.setitem(cupy_backend._backends, 0, backend)
    assert backend_of(array) is backend
    assert array_namespace(1.0, array) is cupy


def test_a_tracked_view_passes_its_report_on_to_views_of_it_only(cupy_backend, cupy, array):
    writes = []
    backend = object.__new__(cupy_backend.CupyBackend)
    tracked = backend.tracked(array, lambda: writes.append(1))
    views = [
        tracked,
        tracked[0],
        tracked.T,
        tracked.reshape(3, 2),
        tracked[:, None],
        tracked[1][:2],
    ]
    for view in views:
        view._report()
    assert len(writes) == len(views)
    # A result takes the class of its operand in some versions of CuPy; it owns its memory.
    result = cupy.ndarray.__new__(cupy_backend.TrackedCupyArray, (2,), memptr=array.data)
    result._on_write = tracked._on_write
    result._report()
    assert len(writes) == len(views)
    assert type(backend.untracked(tracked)) is cupy.ndarray
    assert backend.untracked(array) is array


def test_the_equality_of_two_tensors_is_true_where_they_are_one(cupy_backend, array):
    backend = object.__new__(cupy_backend.CupyBackend)
    assert bool(backend.equality(array, same=True)) is True
    assert bool(backend.equality(array, same=False)) is False
    assert backend.equality(array, same=True)[0].same is None


def test_every_writing_method_of_cupy_arrays_reports(cupy_backend, cupy):
    operators = "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul"
    in_place = [f"__i{operator}__" for operator in operators.split()]
    writing = ["__setitem__", "fill", "partition", "put", "set", "sort", "scatter_add", *in_place]
    own = vars(cupy_backend.TrackedCupyArray)
    unreported = [name for name in writing if hasattr(cupy.ndarray, name) and name not in own]
    assert unreported == []
