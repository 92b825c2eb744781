"""``tinyattn/startup.py``: what Ctrl-C does to the command."""

import signal
import time

import pytest

from tinyattn import startup


@pytest.fixture
def handler():
    """The command's own handler of SIGINT, for the time of a test."""
    previous = signal.signal(signal.SIGINT, startup.interrupt)
    yield
    signal.signal(signal.SIGINT, previous)


class Finalized:
    def __init__(self, given_back):
        self.given_back = given_back

    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        self.given_back.append(True)


@pytest.mark.filterwarnings("error")  # an exception lost in a finalizer is a warning of pytest's
def test_an_interruption_inside_a_finalizer_is_raised_after_it(handler):
    given_back, begun = [], time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Finalized(given_back)
        time.sleep(60)
    assert given_back == [True]
    assert time.monotonic() - begun < 60  # the interruption ends a wait


def test_an_interruption_elsewhere_is_raised_at_once(handler):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
