"""Allocate memory from the operating system, for the pool and for arrays that forked processes share."""

import mmap


def anonymous(size, **options):
    """Allocate ``size`` bytes of zeros that no file backs, on huge pages where Linux has them.

    Args:
        options: what else ``mmap.mmap`` takes, such as ``flags``.

    Raises:
        MemoryError: if the OS cannot allocate ``size`` bytes.
    """
    try:
        memory = mmap.mmap(-1, size, **options)
    except OSError as error:  # which elsewhere means a file
        raise MemoryError(f"the system gives no {size:,} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a kernel without them
            pass
    return memory
