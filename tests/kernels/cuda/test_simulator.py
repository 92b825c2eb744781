"""The simulator reports errors that a GPU may not report: each is planted in a correct kernel."""

import numpy as np
import pytest

from tests.kernels.cuda.tools import need_compiler
from tinyattn.backend import get_backend
from tinyattn.kernels.cuda.simulation import KernelError, Simulated

need_compiler()

# Each block reverses its part of x, in shared memory.
REVERSE = """
template <typename Number>
__global__ void reverse(const Number *x, Number *y, int size) {
    __shared__ Number part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) part[threadIdx.x] = x[i];
    __syncthreads();
    int last = min(size - blockIdx.x * blockDim.x, 64) - 1;
    if (i < size) y[i] = part[last - threadIdx.x];
}
"""
SUM = """
template <typename Number>
__global__ void sum(const Number *x, Number *y, int size) {
    Number value = threadIdx.x < size ? x[threadIdx.x] : 0;
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    y[threadIdx.x] = value;
}
"""


def run(text, size=100, out=100, blocks=2, threads=64, dtype="float32", name="reverse"):
    backend = get_backend("strict")
    x = backend.asarray(np.arange(1, size + 1).astype(dtype))
    y = backend.zeros((out,), dtype)
    kernel = Simulated(text, f"{name}<float>")
    arguments = [x, y, np.int32(size)]
    kernel.check_types(arguments)
    kernel.run((blocks, 1, 1), (threads, 1, 1), arguments)
    return y.get()


def planted(text, old, new):
    assert text.count(old) == 1
    return text.replace(old, new)


def test_a_kernel_that_is_right_runs():
    x = np.arange(1, 101)
    assert run(REVERSE).tolist() == [*x[:64][::-1], *x[64:][::-1]]


def test_lanes_exchange_values():
    assert run(SUM, size=30, out=32, blocks=1, threads=32, name="sum").tolist() == [465] * 32


def test_a_missing_barrier_is_found():
    with pytest.raises(
        KernelError, match=r"reverse<float>.*race.*of part|of part, which no thread"
    ):
        run(planted(REVERSE, "    __syncthreads();\n", ""))


def test_a_missing_barrier_is_found_when_the_fibers_happen_to_run_in_the_right_order():
    """Thread 1 reads what thread 0 wrote: in the order of the threads the value is there."""
    text = planted(REVERSE, "    __syncthreads();\n", "")
    text = planted(text, "part[last - threadIdx.x]", "part[threadIdx.x ? threadIdx.x - 1 : 0]")
    with pytest.raises(
        KernelError, match="race: thread 1 of block 0 reads element 0 of part, which thread 0"
    ):
        run(text)


def test_a_write_of_two_threads_to_one_place_is_found():
    text = planted(REVERSE, "y[i] = ", "y[i / 2] = ")
    with pytest.raises(
        KernelError, match="race: thread 1 of block 0 writes element 0 of y, which thread 0"
    ):
        run(text)


def test_a_race_between_blocks_is_found():
    text = planted(REVERSE, "y[i] = ", "y[threadIdx.x] = ")
    with pytest.raises(
        KernelError, match=r"race: thread 0 of block 1 writes element 0 of y.*of block 0"
    ):
        run(text)


def test_a_write_after_the_read_of_another_block_is_found():
    text = planted(REVERSE, "y[i] = ", "y[blockIdx.x ? 0 : i] = y[0] + ")
    with pytest.raises(KernelError, match="race"):
        run(text)


def test_an_index_that_is_off_by_one_is_found():
    with pytest.raises(
        KernelError,
        match=r"kernel\.cu:6: thread 36 of block 1 reads element 100 of x, which has 100",
    ):
        run(planted(REVERSE, "if (i < size) part", "if (i <= size) part"))
    with pytest.raises(KernelError, match="writes element 99 of y, which has 99"):
        run(REVERSE, out=99)
    with pytest.raises(KernelError, match="reads element -1 of x"):
        run(planted(REVERSE, "= x[i]", "= x[i - 1]"))


def test_an_index_out_of_shared_memory_is_found():
    with pytest.raises(KernelError, match=r"uses the index 63 of an array of type '.*\[63\]'"):
        run(planted(REVERSE, "part[64]", "part[63]"))


def test_an_index_out_of_an_array_of_a_thread_s_own_is_found():
    text = planted(
        REVERSE,
        "if (i < size) y[i] = ",
        "Number own[3];\n    for (int n = 0; n < 3; n++) own[n] = n;\n    if (i < size) y[i] = own[i % 3] + ",
    )
    run(text)
    with pytest.raises(KernelError, match=r"thread 0 of block 0 uses the index 3 of an array"):
        run(planted(text, "n < 3", "n <= 3"))


def test_shared_memory_that_nobody_has_written_is_found():
    with pytest.raises(KernelError, match="part, which no thread of the block has written"):
        run(planted(REVERSE, "if (i < size) part", "if (i < size && threadIdx.x != 5) part"))


def test_what_another_block_left_in_shared_memory_counts_as_unwritten():
    with pytest.raises(KernelError, match=r"of block 1 reads.*part, which no thread of the block"):
        run(planted(REVERSE, "if (i < size) part", "if (blockIdx.x == 0) part"), size=128, out=128)


def test_a_barrier_that_some_threads_do_not_reach_is_found():
    with pytest.raises(
        KernelError,
        match=r"kernel\.cu:8: a barrier that only 36 of the 64 threads of block 1 reach",
    ):
        run(
            planted(
                REVERSE, "    __syncthreads();", "    if (i >= size) return;\n    __syncthreads();"
            )
        )


def test_two_barriers_at_once_are_found():
    text = planted(
        REVERSE,
        "    __syncthreads();",
        "    if (i % 2)\n        __syncthreads();\n    else\n        __syncthreads();",
    )
    with pytest.raises(KernelError, match="different barriers"):
        run(text)


def test_a_shuffle_that_a_lane_misses_is_found():
    text = planted(SUM, "    for", "    if (threadIdx.x == 3) return;\n    for")
    with pytest.raises(KernelError, match="shuffle that thread 3"):
        run(text, size=32, out=32, blocks=1, threads=32, name="sum")


def test_half_a_warp_cannot_shuffle():
    with pytest.raises(KernelError, match="shuffle of 32 threads in a warp of 16"):
        run(SUM, size=16, out=16, blocks=1, threads=16, name="sum")


def test_an_argument_of_another_type_is_refused():
    with pytest.raises(KernelError, match=r"got \*f8 for x, expected \*f4"):
        run(REVERSE, dtype="float64")


def test_a_launch_that_failed_leaves_the_arrays_and_the_simulator_as_they_were():
    with pytest.raises(KernelError):
        run(planted(REVERSE, "y[i] = ", "y[i / 2] = "))
    assert run(REVERSE)[0] == 64


def test_a_source_that_does_not_compile_is_an_error_with_the_compilers_message():
    with pytest.raises(KernelError, match="undefined_name"):
        run(planted(REVERSE, "x[i]", "undefined_name"))
