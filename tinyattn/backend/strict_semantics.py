"""CuPy's semantics of casts and indices, on NumPy arrays."""

import numpy as np


def cast(memory, dtype, order="K"):
    """Cast ``memory`` to another dtype, as a GPU does.

    A float outside the range of an integer dtype saturates to the nearest limit. In NumPy the result depends on the
    processor: -1.0 becomes the uint32 4294967295, and 0 on a GPU.
    """
    dtype = np.dtype(dtype)
    with np.errstate(all="ignore"):
        result = memory.astype(dtype, order=order)
        if memory.dtype.kind == "f" and dtype.kind in "iu" and memory.size:
            result = np.asarray(result)
            limits = np.iinfo(dtype)
            result[memory >= float(limits.max)] = limits.max
            result[memory <= float(limits.min)] = limits.min
            result[np.isnan(memory)] = 0
    return result


def device_index(shape, index):
    """Convert ``index`` for NumPy, with integer arrays wrapped into range; also returns whether it selects a view.

    ``shape`` is that of the indexed array. An integer out of range is not wrapped, and NumPy raises IndexError.
    """
    entries = list(index) if isinstance(index, tuple) else [index]
    entries = [_index_entry(entry) for entry in entries]
    consumed = sum(_axes_consumed(entry) for entry in entries)
    is_view = True
    axis = 0
    for position, entry in enumerate(entries):
        if entry is Ellipsis:
            axis += len(shape) - consumed
            continue
        if isinstance(entry, np.ndarray):
            is_view = False
            if entry.dtype.kind in "iu" and axis < len(shape) and shape[axis]:
                entries[position] = np.asarray(entry.astype(np.int64) % shape[axis])
        axis += _axes_consumed(entry)
    return (tuple(entries) if isinstance(index, tuple) else entries[0]), is_view


def _index_entry(entry):
    if isinstance(entry, (list, tuple)):
        entry = np.array(entry)
        return entry.astype(np.int32) if entry.size == 0 else entry
    if isinstance(entry, (bool, np.bool_)):
        return np.array(entry)
    return entry


def _axes_consumed(entry):
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, np.ndarray) and entry.dtype.kind == "b":
        return entry.ndim
    return 1
