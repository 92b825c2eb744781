"""Every kernel of every source compiles to machine code for three GPU architectures."""

import itertools
import re

import pytest

from tests.kernels.cuda import nvrtc
from tests.kernels.cuda.tools import need
from tinyattn.kernels.cuda import attention
from tinyattn.kernels.cuda.launch import ARCHITECTURES, SOURCES, source

need(nvrtc.find(), "NVRTC: pip install nvidia-cuda-nvrtc")

FLOATS = ("float", "double", "Half")
# The template arguments of a kernel by the names of its parameters.
VALUES = {
    "typename Number": FLOATS,
    "typename Result": FLOATS,
    "typename Real": ("float", "double"),
    "typename Id": ("int", "long long"),
    "int KIND": (0, 1, 2),
    "int THREADS": (32, 256),
    "int HEAD_DIM": (16, 32, 64, 128),
}
TOGETHER = {("int THREADS", "int ITEMS"): ((32, 1), (32, 16), (256, 8))}
FILES = sorted(path.name for path in SOURCES.glob("*.cu"))


def versions(file):
    """All template instances of the kernels of a file."""
    found = []
    kernel = r"template <([^>]*)>\n__global__ void (?:__launch_bounds__\(.*\) )?(\w+)\("
    for parameters, name in re.findall(kernel, (SOURCES / file).read_text()):
        names = [parameter.strip() for parameter in parameters.split(",")]
        choices = []
        while names:
            for together, values in TOGETHER.items():
                if tuple(names[: len(together)]) == together:
                    choices.append(values)
                    del names[: len(together)]
                    break
            else:
                choices.append([(value,) for value in VALUES[names.pop(0)]])
        for chosen in itertools.product(*choices):
            arguments = ", ".join(str(value) for values in chosen for value in values)
            found.append(f"{name}<{arguments}>")
    return found


@pytest.mark.parametrize("file", FILES)
def test_every_kernel_of_a_source_is_compiled(file):
    kernels = re.findall(r"__global__", (SOURCES / file).read_text())
    assert len(kernels) == len({version.partition("<")[0] for version in versions(file)}) > 0


def attention_versions(size, architecture):
    """The kernels of attention for a head size, forward and backward, in one dtype.

    They take seconds to compile, so that each architecture gets another dtype: the three together compile every size in
    every dtype.
    """
    number = VALUES["int HEAD_DIM"].index(size) + ARCHITECTURES.index(architecture)
    arguments = f"<{FLOATS[number % len(FLOATS)]}, {size}>"
    return [version for version in versions("attention.cu") if version.endswith(arguments)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", [file for file in FILES if file != "attention.cu"])
def test_a_source_compiles(file, architecture):
    code = nvrtc.compile_for(source(file), versions(file), architecture)
    assert code[:4] == b"\x7fELF"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", VALUES["int HEAD_DIM"])
def test_attention_compiles_for_every_head_size(size, architecture):
    chosen = attention_versions(size, architecture)
    assert len(chosen) == 3  # forward, and both halves of backward; causal or not is an argument
    code = nvrtc.compile_for(source("attention.cu"), chosen, architecture)
    assert code[:4] == b"\x7fELF"


def test_the_architectures_together_compile_every_version_of_attention():
    sizes = VALUES["int HEAD_DIM"]
    chosen = [v for size in sizes for sm in ARCHITECTURES for v in attention_versions(size, sm)]
    assert sorted(chosen) == sorted(versions("attention.cu"))
    assert sizes == attention._HEAD_DIMS


def test_a_compiler_error_is_reported():
    with pytest.raises(SyntaxError, match="undefined_name"):
        text = "template <typename Number> __global__ void f(Number *x) { x[0] = undefined_name; }"
        nvrtc.compile_for(text, ["f<float>"], ARCHITECTURES[0])


def test_more_shared_memory_than_a_block_has_is_an_error():
    text = "template <int N> __global__ void f(float *x) { __shared__ float s[N]; s[x[0] > 0] = x[1]; x[0] = s[0]; }"
    with pytest.raises(SyntaxError, match="shared"):
        nvrtc.compile_for(text, ["f<20000>"], ARCHITECTURES[0])
