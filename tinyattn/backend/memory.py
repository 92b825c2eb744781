"""Anonymous memory from the operating system, for the pool and for arrays shared by forked processes."""

import mmap


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
