"""Ring attention: the sequence is split over ranks, which pass keys and values around a ring.

The result equals dense attention over the whole sequence up to rounding; only the placement and the communication
differ. The rules here are therefore the dense formula. The kernel (``kernels/portable/ring_attention.py``) implements
the ring, for simulated ranks in one process and for MPI ranks.

Source: H. Liu, M. Zaharia and P. Abbeel, "Ring Attention with Blockwise Transformers" (2023).
"""

import numpy as np

from ..autograd import primitive
from ..backend import backend_of
from ..kernels.portable.ring_attention import SelfCommunicator as SelfCommunicator
from ..kernels.portable.ring_attention import shard_positions
from .dense import attention, score_scale
from .kinds import AttentionKind, Option, register_kind


@primitive
def ring_attention(q, k, v, /, *, ranks, layout, causal, scale):
    """Dense attention computed by ``ranks`` simulated ranks, each with a part of the sequence.

    Backward. The cotangents are those of ``attention``.

    Args:
        q, k, v: (..., length, head_dim), the whole sequence.
        ranks: number of ranks that the sequence is split over.
        layout: ``"contiguous"`` or ``"zigzag"``: see ``shard_positions``.
        causal, scale: as for ``attention``.
    """
    return attention.rule(q, k, v, None, causal=causal, scale=scale)


def _dense_cotangent(argument, g, out, q, k, v, causal, scale):
    parameters = {"causal": causal, "scale": scale}
    return attention.cotangent(argument, g, out, (q, k, v, None), parameters)


@ring_attention.vjp("q")
def ring_attention_vjp_q(g, out, q, k, v, *, ranks, layout, causal, scale):
    return _dense_cotangent(0, g, out, q, k, v, causal, scale)


@ring_attention.vjp("k")
def ring_attention_vjp_k(g, out, q, k, v, *, ranks, layout, causal, scale):
    return _dense_cotangent(1, g, out, q, k, v, causal, scale)


@ring_attention.vjp("v")
def ring_attention_vjp_v(g, out, q, k, v, *, ranks, layout, causal, scale):
    return _dense_cotangent(2, g, out, q, k, v, causal, scale)


@primitive
def distributed_ring_attention(q, k, v, /, *, communicator, positions, causal, scale):
    """This rank's part of dense attention over a sequence that is split over the ranks of an MPI communicator.

    The rule gathers all keys and values; the kernel passes them around the ring. It is a collective operation: every
    rank must call it, forward and backward, in the same order.

    Backward. With K and V the gathered keys and values, dq is that of attention of this rank's queries over K and V.
    A key contributes to the outputs of all ranks: each rank computes dK and dV for all keys, and a reduce-scatter sums
    them over the ranks and leaves each rank the rows of its own positions.

    Args:
        q, k, v: (..., own length, head_dim), the positions of this rank.
        communicator: mpi4py's interface: Get_rank, Get_size, allgather, allreduce, sendrecv.
        positions: the positions of each rank: see ``shard_positions``.
        causal, scale: as for ``attention``, with positions in the whole sequence.
    """
    keys, values = _gathered(k, communicator), _gathered(v, communicator)
    mask = _position_mask(q, positions, communicator, causal)
    return attention.rule(q, keys, values, mask, causal=False, scale=scale)


def _distributed_cotangent(argument, g, out, q, k, v, communicator, positions, causal, scale):
    keys, values = _gathered(k, communicator), _gathered(v, communicator)
    mask = _position_mask(q, positions, communicator, causal)
    parameters = {"causal": False, "scale": scale}
    return attention.cotangent(argument, g, out, (q, keys, values, mask), parameters)


@distributed_ring_attention.vjp("q")
def distributed_ring_attention_vjp_q(g, out, q, k, v, *, communicator, positions, causal, scale):
    return _distributed_cotangent(0, g, out, q, k, v, communicator, positions, causal, scale)


@distributed_ring_attention.vjp("k")
def distributed_ring_attention_vjp_k(g, out, q, k, v, *, communicator, positions, causal, scale):
    full = _distributed_cotangent(1, g, out, q, k, v, communicator, positions, causal, scale)
    return _own_part_of_sum(full, positions, communicator)


@distributed_ring_attention.vjp("v")
def distributed_ring_attention_vjp_v(g, out, q, k, v, *, communicator, positions, causal, scale):
    full = _distributed_cotangent(2, g, out, q, k, v, communicator, positions, causal, scale)
    return _own_part_of_sum(full, positions, communicator)


def _gathered(x, communicator):
    """All-gather: the parts of all ranks, concatenated along the length."""
    if getattr(x, "is_tensor", False):
        raise NotImplementedError(
            "second-order gradients across MPI ranks are not supported: use kind='ring' without a communicator"
        )
    backend = backend_of(x)
    parts = communicator.allgather(np.ascontiguousarray(backend.to_host(x)))
    return backend.asarray(np.concatenate(parts, axis=-2))


def _own_part_of_sum(x, positions, communicator):
    """Reduce-scatter: this rank's rows of the sum over the ranks of ``x``, (..., whole length, dim)."""
    backend = backend_of(x)
    total = sum(communicator.allgather(np.ascontiguousarray(backend.to_host(x))))
    start = sum(len(part) for part in positions[: communicator.Get_rank()])
    own = slice(start, start + len(positions[communicator.Get_rank()]))
    return backend.asarray(total[..., own, :])


def _position_mask(like, positions, communicator, causal):
    """The causal mask of this rank's queries, (own length, whole length), on the device of ``like``; or None."""
    if not causal:
        return None
    queries = positions[communicator.Get_rank()]
    return backend_of(like).asarray(np.concatenate(positions) <= queries[:, None])


def split_sequence(x, communicator, layout="zigzag"):
    """This rank's part of the whole sequence ``x``, (..., length, dim), and the positions of each rank.

    >>> import tinyattn as ta
    >>> part, positions = split_sequence(ta.ones((4, 2)), SelfCommunicator())
    >>> part.shape, positions
    ((4, 2), [array([0, 1, 2, 3])])
    """
    positions = shard_positions(x.shape[-2], communicator.Get_size(), layout)
    return x[..., positions[communicator.Get_rank()], :], positions


def ring_over_sequence(
    q, k, v, *, causal=False, scale=None, ranks=2, layout="zigzag", communicator=None
):
    """The function of ``kind="ring"``: dense attention over a sequence that is split over ranks.

    Args:
        q, k, v: (..., length, head_dim): the whole sequence, or with a ``communicator`` this rank's part of it
            (see ``split_sequence``).
        causal: query i sees the keys up to its own position in the whole sequence.
        scale: the factor of the scores, by default 1 / sqrt(head_dim).
        ranks: number of simulated ranks, without a communicator.
        layout: ``"contiguous"`` or ``"zigzag"``, which balances the causal work of the ranks.
        communicator: an MPI communicator (mpi4py); all its ranks must make this call.

    Raises:
        ValueError: for queries and keys of different lengths.

    >>> import tinyattn as ta
    >>> q, v = ta.zeros((1, 3, 1)), ta.tensor([[[1.0], [2.0], [6.0]]])
    >>> ring_over_sequence(q, q, v, causal=True, ranks=2).tolist()
    [[[1.0], [1.5], [3.0]]]
    """
    if q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"ring attention got {q.shape[-2]} queries and {k.shape[-2]} keys: expected as many queries as keys"
        )
    scale = score_scale(q, scale)
    if communicator is None:
        return ring_attention(q, k, v, ranks=ranks, layout=layout, causal=causal, scale=scale)
    lengths = communicator.allgather(q.shape[-2])
    positions = shard_positions(sum(lengths), communicator.Get_size(), layout)
    if [len(part) for part in positions] != lengths:
        raise ValueError(
            f"the ranks have {lengths} positions, expected {[len(part) for part in positions]} for the {layout} "
            "layout: split the sequence with split_sequence()"
        )
    return distributed_ring_attention(
        q, k, v, communicator=communicator, positions=positions, causal=causal, scale=scale
    )


RING = AttentionKind(
    "ring",
    ring_over_sequence,
    options={
        "ranks": Option(2, "Simulated ranks that the sequence is split over [ranks].", 1),
        "layout": Option("zigzag", "Positions of each rank.", choices=("contiguous", "zigzag")),
        "communicator": Option(None, "MPI communicator; all its ranks make the same call."),
    },
    is_exact=True,
    needs_whole_sequence=True,
    unsupported=frozenset({"mask", "dropout"}),  # a mask would have to be split as well
)

register_kind(RING)
