"""Launch elementwise kernels.

Trade-offs: arrays that are not contiguous are copied first, so that an element has one index in all arrays.
"""

from ...backend import backend_of
from .launch import blocks_for, launch
from .rows import contiguous

_BLOCK = 256
LARGEST = 2**30  # elements: an index, plus a step of a grid-stride loop, fits 32 bits


def map_elements(file, name, template, arrays, *numbers, dtype=None):
    """The result of an elementwise kernel: a new contiguous array of the shape of ``arrays``.

    The parameters of the kernel are the arrays, the result, the number of elements, and ``numbers``.
    """
    arrays = [contiguous(array) for array in arrays]
    out = backend_of(arrays[0]).empty(arrays[0].shape, arrays[0].dtype if dtype is None else dtype)
    grid = blocks_for(out.size, _BLOCK)
    launch(file, name, (arrays[0].dtype, *template), grid, _BLOCK, *arrays, out, out.size, *numbers)
    return out
