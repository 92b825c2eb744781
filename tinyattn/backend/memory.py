"""Anonymous memory from the operating system, for the pool and for arrays shared by forked processes."""

import mmap
import os


def anonymous(size, **options):
    """Allocate ``size`` bytes of zeroed memory, backed by huge pages on Linux if available.

    Args:
        options: further arguments of ``mmap.mmap``, such as ``flags``.

    Raises:
        MemoryError: if the OS cannot allocate ``size`` bytes.
    """
    try:
        memory = mmap.mmap(-1, size, **options)
    except OSError as error:  # callers treat an OSError as an error of a file
        raise MemoryError(f"cannot allocate {size:,} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # not supported by this kernel
            pass
    return memory


def gpu_memory_limit():
    """The most bytes to take of a GPU's memory, from TINYATTN_GPU_MEMORY in GB; None where it is not set.

    Raises:
        ValueError: for a value that is no number above 0.
    """
    text = os.environ.get("TINYATTN_GPU_MEMORY")
    if not text:
        return None
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = 0.0
    if not 0 < gigabytes < float("inf"):
        raise ValueError(f"TINYATTN_GPU_MEMORY must be a number of GB above 0, got {text!r}")
    return int(gigabytes * 1e9)
