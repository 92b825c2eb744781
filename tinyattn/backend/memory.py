"""Memory from the operating system, for the pool and for what forked processes share."""

import mmap


def anonymous(size, **options):
    """``size`` bytes of zeros that belong to no file, on huge pages where Linux has them to give.

    Args:
        options: what else ``mmap.mmap`` takes, such as ``flags``.

    Raises:
        MemoryError: where the system has not as many.
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
