"""Memory that the system does not give is MemoryError, wherever it is asked for."""

import errno
import mmap
import os

import numpy as np
import pytest

from tinyattn.backend import pool, shared


@pytest.mark.parametrize("ask", [pool.empty, shared.zeros])
def test_no_memory_is_no_error_of_a_file(ask, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError, match=r"no [0-9,]+ bytes"):
        ask((pool.ARENA_BYTES,), np.float32)
