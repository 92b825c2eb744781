"""A simulator of CUDA kernels: g++ compiles the source, and every thread runs on the host with checked memory accesses.

g++ compiles the source that NVRTC compiles for a GPU, with ``simulator/simulator.h``, which defines ``__shared__``,
``threadIdx``, ``__syncthreads`` and the other names of CUDA C++. The threads of a block are fibers of one host thread;
blocks run one after the other. The simulator (``simulator/simulator.cpp``) reports races between threads and between
blocks, accesses out of bounds, shared memory that is read before it is written, and barriers and shuffles that not all
threads reach. Arguments are compared with the types of the kernel's parameters.

Trade-offs: the simulator does not measure speed, and does not know the limits of shared memory and registers (compiling
for a GPU checks those). Exponentials may differ from a GPU's in the last digits.
"""

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np

from .launch import SOURCES, source

SIMULATOR = SOURCES / "simulator"
_FLAGS = (
    "-std=c++17 -O1 -g1 -fPIC -fvisibility=hidden -ffp-contract=off -fno-tree-loop-distribute-patterns"
).split()
# g++ inserts a call before each access; the simulator defines the functions, instead of the library of the sanitizer.
_CHECKED = ("-fsanitize=thread,bounds", "--param", "tsan-instrument-func-entry-exit=0")
_GUARD = 1 << 12  # bytes around each array that belong to no array
_lock = threading.Lock()  # the simulator runs one launch at a time


class KernelError(RuntimeError):
    """An error of a kernel, which a GPU may not report."""


def simulate(file, expression, grid, block, arguments):
    """Run one launch of a kernel.

    Args:
        file: the source file.
        expression: the name with the template arguments.
        grid, block: three lengths each.
        arguments: strict arrays, None, and NumPy scalars of the types of the parameters.

    Raises:
        KernelError: for arguments of other types, and for an error in a thread.
        RuntimeError: if g++ is missing.
    """
    kernel = load(file, expression)
    kernel.check_types(arguments)
    with _lock:
        kernel.run(grid, block, arguments)


@functools.cache
def load(file, expression):
    """The ``Simulated`` kernel of a template instance."""
    return Simulated(source(file), expression)


class Simulated:
    """A template instance of a kernel, compiled for the simulator.

    Args:
        text: CUDA C++.
        expression: the name of the kernel in it, with its template arguments.
    """

    def __init__(self, text, expression):
        self.expression = expression
        self.parameters = parameter_names(text, expression)
        self.path = compiled(text, expression)
        self.library = ctypes.CDLL(str(self.path))
        symbols = _symbols(self.path)
        report = ctypes.c_char.in_dll(self.library, "report")
        self.base = ctypes.addressof(report) - symbols["report"][0]
        self.shared = [
            (re.sub(r"^.*\d(?=[a-z])", "", name), self.base + start, size)
            for name, (start, size) in symbols.items()
            if name.startswith("_ZZ")  # static variables of functions: shared memory
        ]
        self.types = []
        callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
        self.library.describe_0(callback(lambda code: self.types.append(code.decode())))

    def check_types(self, arguments):
        """Raise KernelError unless each argument is of its parameter's type."""
        if len(arguments) != len(self.types):
            raise KernelError(
                f"{self.expression} has {len(self.types)} parameters, got {len(arguments)} arguments"
            )
        for name, expected, value in zip(self.parameters, self.types, arguments):
            if value is None and expected.startswith("*"):
                continue
            given = "nothing" if value is None else _code(value)
            if given != expected:
                raise KernelError(
                    f"{self.expression} got {given} for {name}, expected {expected} "
                    "(a star: an array; f, i, u, b: the kind of number; its size in bytes)"
                )

    def run(self, grid, block, arguments):
        memory = _Memory(arguments)
        regions = memory.regions + [
            _Region(start, size, 4 if size % 4 == 0 else 1, True) for _, start, size in self.shared
        ]
        shape = _Launch(grid, block, (_Region * len(regions))(*regions), len(regions))
        values = [
            np.asarray(value if isinstance(value, np.generic) else np.uintp(memory.address(value)))
            for value in arguments
        ]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        if self.library.launch_0(ctypes.byref(shape), pointers):
            raise KernelError(self._message(memory))
        memory.copy_back()

    def _message(self, memory):
        text = (ctypes.c_char * 512).in_dll(self.library, "report").value.decode()
        number = ctypes.c_int.in_dll(self.library, "reported_region").value
        place = ctypes.c_void_p.in_dll(self.library, "reported_place").value
        if number >= len(memory.regions):
            text = text.replace("%s", self.shared[number - len(memory.regions)][0])
        elif number >= 0:
            names = [self.parameters[position] for position in memory.members[number]]
            text = text.replace("%s", " and ".join(names))
        line = ""
        if place is not None:
            command = ["addr2line", "-e", self.path, hex(place - 1 - self.base)]
            found = subprocess.run(command, capture_output=True, text=True).stdout.split()
            line = f" at {Path(found[0]).name}" if found else ""
        return f"{self.expression}{line}: {text}"


class _Region(ctypes.Structure):
    _fields_ = [
        ("start", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("item", ctypes.c_uint32),
        ("is_shared", ctypes.c_uint32),
    ]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("regions", ctypes.POINTER(_Region)),
        ("count", ctypes.c_uint64),
    ]


class _Memory:
    """Copies of the arrays of a launch, with guard bytes around each; overlapping arrays share a copy.

    Attributes:
        regions: the regions of memory, for the simulator.
        members: for each region, the positions of its arguments.
    """

    def __init__(self, arguments):
        spans = []
        for position, value in enumerate(arguments):
            if value is not None and not isinstance(value, np.generic) and value.size:
                low, high = np.lib.array_utils.byte_bounds(value._memory)
                spans.append([low, high, value.itemsize, [position]])
        merged = []
        for span in sorted(spans, key=lambda span: span[:2]):
            if merged and span[0] < merged[-1][1]:
                last = merged[-1]
                last[1] = max(last[1], span[1])
                last[2] = min(last[2], span[2])
                last[3] = last[3] + span[3]
            else:
                merged.append(span)
        self.arguments = arguments
        self.members = [members for *_, members in merged]
        self.copies = []  # (address, size, array of bytes, start of the copy in it)
        self.regions = []
        self._starts = {}
        for low, high, item, members in merged:
            copy = np.empty(high - low + 2 * _GUARD + 256, np.uint8)
            start = -(-(copy.ctypes.data + _GUARD) // 256) * 256 + low % 16
            ctypes.memmove(start, low, high - low)
            self.copies.append((low, high - low, copy, start))
            self.regions.append(_Region(start, high - low, item, False))
            for position in members:
                self._starts[id(arguments[position])] = (
                    start + arguments[position]._memory.ctypes.data - low
                )

    def address(self, value):
        """The address of an array for the kernel; that of an empty array must not be read."""
        if value is None:
            return 0
        return self._starts.get(id(value), 16)

    def copy_back(self):
        """Copy the results of the kernel back to the arrays."""
        for low, size, _, start in self.copies:
            ctypes.memmove(low, start, size)


def compiled(text, expression):
    """The path of a library with the kernel and the simulator; compiled once, and kept in the user's cache."""
    code = (
        f'#include "simulator.h"\n#line 1 "kernel.cu"\n{text}\nSIMULATED_KERNEL(0, {expression})\n'
    )
    simulator = _made((SIMULATOR / "simulator.cpp").read_text(), ".o", [*_FLAGS, "-c"])
    kernel = _made(code, ".o", [*_FLAGS, *_CHECKED, "-c"])
    # Linked without -fsanitize, with which g++ would add the library of the sanitizer.
    return _made("", ".so", ["-shared", "-Wl,-Bsymbolic", kernel, simulator])


def _made(code, suffix, options):
    """The path of the output of g++ for ``code``, from the cache if it exists."""
    headers = [(SIMULATOR / name).read_text() for name in ("simulator.h", "half.h")]
    parts = [*headers, code, *map(str, options)]
    target = _cache() / (hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32] + suffix)
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        file, result = Path(directory, "kernel.cpp"), Path(directory, "result")
        file.write_text(code)
        _compile([file, *options, "-o", result])
        os.replace(result, target)
    return target


def parameter_names(text, expression):
    """The names of a kernel's parameters, including those in a macro.

    >>> parameter_names("__global__ void f(const Number *x, int rows) {", "f<float>")
    ['x', 'rows']
    """
    name = re.escape(expression.partition("<")[0])
    match = re.search(rf"__global__\s+void\s+{name}\(([^)]*)\)", text)
    if match is None:
        raise KernelError(f"there is no kernel {name} in this source")
    macros = dict(re.findall(r"#define (\w+) +((?:.*\\\n)*.*)\n", text))
    names = []
    for part in match.group(1).split(","):
        part = macros.get(part.strip(), part).replace("\\", "")
        names += [re.search(r"(\w+)\s*$", one).group(1) for one in part.split(",")]
    return names


def _compile(arguments):
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise RuntimeError("the simulator of kernels needs g++ 12 or later: install it, or set CXX")
    result = subprocess.run(
        [compiler, f"-I{SIMULATOR}", *map(str, arguments)], capture_output=True, text=True
    )
    if result.returncode:
        raise KernelError(f"g++ does not compile the kernel:\n{result.stderr[:4000]}")


@functools.cache
def _symbols(path):
    """The symbols of a library: name -> (offset, size)."""
    listing = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "bBdDuV":
            found[fields[3]] = int(fields[0], 16), int(fields[1], 16)
    return found


def _cache():
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(root) / "tinyattn" / "simulator"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _code(value):
    star = "" if isinstance(value, np.generic) else "*"
    return f"{star}{value.dtype.kind}{value.dtype.itemsize}"
