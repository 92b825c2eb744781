"""Failed allocations raise MemoryError."""

import errno
import mmap
import os

import numpy as np
import pytest

from tinyattn.backend import pool, shared


@pytest.mark.parametrize("ask", [pool.empty, shared.zeros])
def test_a_failed_allocation_is_a_memory_error_and_no_os_error(ask, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError, match=r"cannot allocate [0-9,]+ bytes"):
        ask((pool.ARENA_BYTES,), np.float32)
