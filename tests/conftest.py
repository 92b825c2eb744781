"""Fixtures that every test shares: the devices a test runs on, and reproducible random data."""

import functools
import signal

import numpy as np
import pytest

# nohup and a shell's background ignore these signals, and processes that tests start inherit that.
for _name, _default in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    if hasattr(signal, _name) and signal.getsignal(getattr(signal, _name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, _name), _default)


@functools.lru_cache
def missing(device):
    """Why ``device`` cannot be used here, in the library's own words; None where it can."""
    from tinyattn.backend import get_backend

    try:
        get_backend(device)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return None


# Without a GPU, one test says so (backend/test_devices.py); a quarter of all tests would be skipped otherwise.
DEVICES = ["cpu", "strict"]
if missing("cuda") is None:
    DEVICES.append(pytest.param("cuda", marks=pytest.mark.gpu))


@pytest.fixture(params=DEVICES)
def device(request):
    """Each backend in turn, as the name that ``device=`` takes."""
    return request.param


@pytest.fixture
def random():
    """A NumPy generator, seeded: for data, so that a failure happens again."""
    return np.random.default_rng(0)
