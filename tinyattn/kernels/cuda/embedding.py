"""Rows of a table by id; backward sums segments of the sorted ids, in a fixed order and without atomic additions.

Trade-offs: sorting the ids together with their positions takes longer than atomic additions, but runs are
bit-identical. Each row of the table finds its segment by bisection. The segments of a small table are long: several
blocks share one, and a second launch adds their partial sums. An id out of range is recorded on the device: see
``faults.py``.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .columns import sum_partials
from .elementwise import LARGEST
from .faults import fault_array, found
from .launch import blocks_for, launch
from .rows import contiguous, is_floating, wide

_BLOCK = 256
_FEW_ROWS = 1024  # of a table, in which an id occurs often
_PARTS = 16


def forward(ids, weight, *, padding_idx=None):
    if type(ids) is not type(weight) or ids.dtype.name not in ("int32", "int64") or ids.size == 0:
        return NotImplemented
    if not is_floating(weight) or weight.ndim != 2 or weight.size == 0:
        return NotImplemented
    rows, width = weight.shape
    size = ids.size * width
    if size > LARGEST:
        return NotImplemented
    backend = backend_of(weight)
    ids = contiguous(ids)
    out = backend.empty(ids.shape + (width,), weight.dtype)
    arrays = ids, contiguous(weight), out, fault_array(backend)
    template = weight.dtype, ids.dtype
    grid = blocks_for(size, _BLOCK)
    launch("embedding.cu", "embedding_forward", template, grid, _BLOCK, *arrays, size, rows, width)
    if found(backend):
        return NotImplemented  # the rule raises the error
    return out, (ids, weight.shape, padding_idx)


def backward(g, residuals):
    ids, (rows, width), padding_idx = residuals
    backend = backend_of(g)
    count = ids.size
    keys = backend.empty((count,), "int64")
    grid = blocks_for(count, _BLOCK)
    launch("embedding.cu", "sort_keys", (ids.dtype,), grid, _BLOCK, ids, keys, count)
    keys.sort()
    parts = _PARTS if rows <= _FEW_ROWS and count > rows else 1
    sums = backend.empty((parts, rows, width), g.dtype if parts == 1 else wide(g.dtype))
    template = g.dtype, sums.dtype
    padding = -1 if padding_idx is None else padding_idx % rows
    block = min(_BLOCK, -(-width // 32) * 32)
    arrays = contiguous(g), keys, sums
    launch(
        "embedding.cu", "sum_by_id", template, (rows, parts), block, *arrays, count, width, padding
    )
    return None, sums[0] if parts == 1 else sum_partials(sums, g.dtype)


register_kernel("embedding", "cuda", forward, backward)
