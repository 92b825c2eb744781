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


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", FILES)
def test_a_source_compiles(file, architecture):
    code = nvrtc.compile_for(source(file), versions(file), architecture)
    assert code[:4] == b"\x7fELF"


def test_attention_is_compiled_for_every_head_size():
    """Forward and both halves of backward, in three dtypes; whether it is causal is an argument of the kernels."""
    assert VALUES["int HEAD_DIM"] == attention._HEAD_DIMS == (16, 32, 64, 128)
    assert len(versions("attention.cu")) == 3 * len(FLOATS) * 4


def test_a_compiler_error_is_reported():
    with pytest.raises(SyntaxError, match="undefined_name"):
        text = "template <typename Number> __global__ void f(Number *x) { x[0] = undefined_name; }"
        nvrtc.compile_for(text, ["f<float>"], ARCHITECTURES[0])


def test_more_shared_memory_than_a_block_has_is_an_error():
    text = "template <int N> __global__ void f(float *x) { __shared__ float s[N]; s[x[0] > 0] = x[1]; x[0] = s[0]; }"
    with pytest.raises(SyntaxError, match="shared"):
        nvrtc.compile_for(text, ["f<20000>"], ARCHITECTURES[0])
