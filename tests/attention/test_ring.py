"""Ring attention equals dense attention over the whole sequence, on simulated ranks and on MPI ranks."""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.attention.ring import SelfCommunicator, split_sequence
from tinyattn.kernels.portable.ring_attention import shard_positions

from .equality import assert_equal_attention, draw, error_against_float64

ON_RANKS = pathlib.Path(__file__).with_name("ring_on_ranks.py")


def ring(**options):
    return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, kind="ring", **options)


def dense(**options):
    return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, kind="dense", **options)


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "ranks"), [(1, 1), (1, 3), (8, 2), (13, 3), (5, 4)])
def test_simulated_ring_equals_dense(length, ranks, layout, causal, random, device):
    function = ring(ranks=ranks, layout=layout, causal=causal)
    arrays = draw(random, length, value_dim=3)
    assert_equal_attention(function, dense(causal=causal), arrays, random, device, 1e-12)


def test_a_lone_rank_needs_no_mpi(random, device):
    function = ring(communicator=SelfCommunicator(), causal=True)
    assert_equal_attention(function, dense(causal=True), draw(random, 6), random, device, 1e-12)


def test_zigzag_gives_every_rank_the_same_causal_work():
    positions = shard_positions(64, 4, "zigzag")
    work = [int((held + 1).sum()) for held in positions]
    assert max(work) == min(work)
    uneven = [int((held + 1).sum()) for held in shard_positions(64, 4, "contiguous")]
    assert max(uneven) > 3 * min(uneven)


def test_float32_is_at_most_twice_as_inexact_as_dense(random, device):
    arrays = draw(random, 200, head_dim=16, leading=(2,), dtype=np.float32)
    function = ring(ranks=4, causal=True)
    ours, theirs = error_against_float64(function, dense(causal=True), arrays, device)
    for own, other in zip(ours, theirs, strict=True):
        assert own <= 2 * other + 1e-7


def test_ring_is_differentiable_twice(random, device):
    arrays = [ta.tensor(a, requires_grad=True, device=device) for a in draw(random, 5, leading=())]
    assert ta.gradcheck(ring(ranks=2, causal=True), arrays, order=2)


def test_errors_say_what_was_given(random):
    q, k, v = (ta.tensor(a) for a in draw(random, 4))
    with pytest.raises(ValueError, match="'spiral'"):
        ring(layout="spiral")(q, k, v)
    with pytest.raises(ValueError, match="does not support a mask"):
        ring(mask=np.ones((4, 4), dtype=bool))(q, k, v)
    with pytest.raises(ValueError, match="2 queries and 4 keys"):
        ring()(q[..., :2, :], k, v)


def test_split_sequence_gives_each_rank_its_positions():
    part, positions = split_sequence(ta.tensor(np.arange(4.0)[:, None]), SelfCommunicator())
    assert part.numpy().ravel().tolist() == [0, 1, 2, 3] and len(positions) == 1


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="no mpiexec: pip install mpi4py mpich")
class TestOnMpiRanks:
    @staticmethod
    def run(*arguments):
        pytest.importorskip("mpi4py", reason="mpi4py is not installed")
        return subprocess.run(
            ["mpiexec", "-n", "4", sys.executable, str(ON_RANKS), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_four_ranks_equal_dense_forward_and_backward(self):
        done = self.run("equal")
        assert done.returncode == 0, done.stdout + done.stderr
        errors = [float(line.split()[-1]) for line in done.stdout.splitlines() if "error" in line]
        assert len(errors) == 4 and max(errors) < 1e-12

    def test_the_death_of_one_rank_ends_the_job_with_a_message(self):
        done = self.run("die")
        assert done.returncode != 0
        assert "KILLED" in (done.stdout + done.stderr).upper() or "TERMINAT" in done.stdout.upper()
