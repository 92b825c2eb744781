"""Handling of SIGINT by the command."""

import signal
import time

import pytest

from tinyattn import startup


@pytest.fixture
def handler():
    """Temporarily install the command's SIGINT handler."""
    previous = signal.signal(signal.SIGINT, startup.interrupt)
    yield
    signal.signal(signal.SIGINT, previous)


class Finalized:
    def __init__(self, released):
        self.released = released

    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        self.released.append(True)


@pytest.mark.filterwarnings("error")  # an exception lost in a finalizer is a warning of pytest's
def test_an_interruption_inside_a_finalizer_is_raised_after_it(handler):
    released = []
    with pytest.raises(KeyboardInterrupt):
        Finalized(released)
        time.sleep(60)
        pytest.fail("the signal did not interrupt a blocking call")
    assert released == [True]


def test_an_interruption_elsewhere_is_raised_at_once(handler):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
