"""Launch kernels in CUDA C++: with CuPy on a GPU, with the simulator on the strict device.

A kernel is a template, such as ``layer_norm_forward<Number, THREADS, ITEMS>`` in ``layer_norm.cu``. The launch gives
the template arguments, and each combination is compiled once, at its first launch.

Trade-offs: template arguments let the compiler unroll loops and keep arrays in registers, at the price of a compilation
for each combination; CuPy caches them on disk.
"""

import functools
import re
from pathlib import Path

import numpy as np

from ...backend import backend_of
from ...backend.launches import note_launch

SOURCES = Path(__file__).parent
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")  # that the tests compile for
OPTIONS = ("--std=c++17",)

_TYPE_NAMES = {
    "float16": "Half",
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
}
MOST_BLOCKS = 1 << 16  # of a kernel with a grid-stride loop


def launch(file, name, template, grid, block, *arguments):
    """Run a kernel on the device that its arrays are on.

    Args:
        file: the source file, such as ``"layer_norm.cu"``.
        name: the name of the function.
        template: template arguments: dtypes and integers.
        grid: number of blocks, an integer or up to three.
        block: number of threads per block.
        arguments: arrays (the kernel gets the address of the first element), None for a null pointer, integers (``int``
            in the kernel), floats (``double``), and NumPy scalars of other types.

    Raises:
        ValueError: for an integer outside the range of ``int``.
        KernelError: from the simulator, for an error of the kernel.
    """
    expression = f"{name}<{', '.join(_spelled(argument) for argument in template)}>"
    grid = _three(grid)
    block = _three(block)
    note_launch(name)
    array = next(a for a in arguments if getattr(a, "ndim", 0))
    arguments = [_as_argument(argument) for argument in arguments]
    if backend_of(array).kind == "strict":
        from .simulation import simulate

        simulate(file, expression, grid, block, arguments)
    else:
        pointers = [np.uintp(0) if argument is None else argument for argument in arguments]
        with array.device:  # which need not be the current one
            _compiled(file, expression, array.device.id)(grid, block, tuple(pointers))


def blocks_for(items, in_a_block):
    """The number of blocks that cover so many items, at most ``MOST_BLOCKS``.

    >>> blocks_for(1000, 256)
    4
    """
    return max(1, min(-(-items // in_a_block), MOST_BLOCKS))


@functools.cache
def source(file):
    """The source of a file with its includes inlined, so that the key of a cache of compiled kernels contains them."""
    return with_includes(file, (SOURCES / file).read_text())


def with_includes(file, text):
    """``text``, the content of ``file``, with its includes inlined."""
    lines = [f'#line 1 "{file}"\n']
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        included = re.fullmatch(r'#include "(\w+\.cuh)"\n', line)
        if included:
            header = (SOURCES / included[1]).read_text()
            line = f'#line 1 "{included[1]}"\n{header}#line {number + 1} "{file}"\n'
        lines.append(line)
    return "".join(lines)


@functools.cache
def _compiled(file, expression, _device):
    import cupy

    module = cupy.RawModule(
        code=source(file), options=OPTIONS, name_expressions=(expression,), backend="nvrtc"
    )
    return module.get_function(expression)


def _spelled(argument):
    if isinstance(argument, (bool, int)):
        return str(int(argument))
    return _TYPE_NAMES[np.dtype(argument).name]


def _three(lengths):
    lengths = (lengths,) if isinstance(lengths, int) else tuple(lengths)
    return lengths + (1,) * (3 - len(lengths))


def _as_argument(value):
    if value is None or hasattr(value, "strides"):  # an array, or a NumPy scalar of the right type
        return value
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, (bool, int)):
        if not -(2**31) <= value < 2**31:
            raise ValueError(
                f"a kernel got the number {value}: expected a 32-bit integer; use smaller arrays"
            )
        return np.int32(value)
    raise TypeError(f"a kernel takes arrays, integers and floats, got {type(value).__name__}")
