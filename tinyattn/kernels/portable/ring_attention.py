"""Ring attention: each rank has a shard of the sequence, and keys and values are passed around the ring of ranks.

Trade-offs: more communication for less memory, since a rank stores its own shard and one other at a time. The algorithm
of a rank is a coroutine that yields the message to send and receives the message that arrived. ``run_together`` runs
all ranks in one process, for study and tests; ``run_on`` runs one rank of an MPI ring.

Source: H. Liu, M. Zaharia and P. Abbeel, "Ring Attention with Blockwise Transformers" (2023). The zigzag layout, which
balances the work of a causal mask, is that of W. Brandon et al., "Striped Attention" (2023), in its two-chunk form.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend import array_namespace, backend_of
from .tiles import merge, tile_backward, tile_forward


def shard_positions(length, ranks, layout):
    """The positions in the sequence of each rank's shard: a list of ``ranks`` integer arrays.

    ``"contiguous"``: rank r has the r-th chunk. With a causal mask, the last rank then has most of the work.
    ``"zigzag"``: of twice as many chunks, rank r has the r-th from the front and the r-th from the back.
    ``length`` need not be a multiple of the number of chunks.

    >>> shard_positions(8, 2, "zigzag")
    [array([0, 1, 6, 7]), array([2, 3, 4, 5])]
    """
    if layout == "contiguous":
        return np.array_split(np.arange(length), ranks)
    if layout == "zigzag":
        chunks = np.array_split(np.arange(length), 2 * ranks)
        return [np.concatenate([chunks[r], chunks[2 * ranks - 1 - r]]) for r in range(ranks)]
    raise ValueError(f'unknown layout {layout!r}: expected "contiguous" or "zigzag"')


def _allowed(like, rows, columns, causal):
    """The causal mask between the positions of two ranks: None if nothing is masked, False if everything is."""
    if not causal:
        return None
    allowed = columns <= rows[:, None]
    if allowed.all():
        return None
    if not allowed.any():
        return False
    return backend_of(like).asarray(allowed)


def forward_on_rank(rank, q, k, v, positions, causal, scale):
    """The forward pass of one rank, a coroutine that returns its output and log-sum-exp."""
    xp = array_namespace(q)
    out = xp.zeros((*q.shape[:-1], v.shape[-1]), dtype=q.dtype)
    result = out, xp.full((*q.shape[:-1], 1), -xp.inf, dtype=q.dtype)
    for step in range(len(positions)):
        source = (rank - step) % len(positions)
        allowed = _allowed(q, positions[rank], positions[source], causal)
        if allowed is not False and k.shape[-2]:
            result = merge(result, tile_forward(q, k, v, allowed, scale))
        k, v = yield k, v
    return result


def backward_on_rank(rank, g, q, k, v, out, lse, positions, causal, scale):
    """The backward pass of one rank, a coroutine; dk and dv are passed on with k and v, and return to their rank."""
    xp = array_namespace(q)
    delta = xp.sum(g * out, axis=-1, keepdims=True)
    dq, dk, dv = xp.zeros_like(q), xp.zeros_like(k), xp.zeros_like(v)
    for step in range(len(positions)):
        source = (rank - step) % len(positions)
        allowed = _allowed(q, positions[rank], positions[source], causal)
        if allowed is not False and k.shape[-2]:
            parts = tile_backward(g, q, k, v, lse, delta, allowed, scale)
            dq, dk, dv = dq + parts[0], dk + parts[1], dv + parts[2]
        k, v, dk, dv = yield k, v, dk, dv
    return dq, dk, dv


def run_together(coroutines):
    """Run the coroutines of all ranks in one process: messages go to the next rank."""
    coroutines = list(coroutines)
    results = [None] * len(coroutines)
    messages = [None] * len(coroutines)
    running = set(range(len(coroutines)))
    while running:
        sent = [None] * len(coroutines)
        for rank in sorted(running):
            try:
                sent[rank] = coroutines[rank].send(messages[rank])
            except StopIteration as stop:
                results[rank] = stop.value
                running.discard(rank)
        messages = [sent[rank - 1] for rank in range(len(coroutines))]
    return results


class SelfCommunicator:
    """A communicator with one rank, like ``MPI.COMM_SELF``, that does not need MPI."""

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 1

    def allgather(self, value):
        return [value]

    def __repr__(self):
        return "one rank"


def run_on(communicator, coroutine):
    """Run the coroutine of one rank; messages go to the next rank of an MPI communicator (mpi4py's interface)."""
    rank, size = communicator.Get_rank(), communicator.Get_size()
    message = None
    while True:
        try:
            sent = coroutine.send(message)
        except StopIteration as stop:
            return stop.value
        if size == 1:
            message = sent
            continue
        backends = [backend_of(array) for array in sent]
        hosts = [
            np.ascontiguousarray(backend.to_host(array))
            for backend, array in zip(backends, sent, strict=True)
        ]
        received = communicator.sendrecv(hosts, dest=(rank + 1) % size, source=(rank - 1) % size)
        message = tuple(
            backend.asarray(host) for backend, host in zip(backends, received, strict=True)
        )


def forward(q, k, v, *, ranks, layout, causal, scale):
    """The forward pass of all ranks in one process."""
    if not (q.shape[:-1] == k.shape[:-1] == v.shape[:-1]):
        return NotImplemented
    backend = backend_of(q)
    positions = shard_positions(q.shape[-2], ranks, layout)
    owns = [backend.asarray(own) for own in positions]
    results = run_together(
        forward_on_rank(
            rank, *(array[..., own, :] for array in (q, k, v)), positions, causal, scale
        )
        for rank, own in enumerate(owns)
    )
    out = backend.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    for own, (part, _) in zip(owns, results, strict=True):
        out[..., own, :] = part
    log_sum_exps = [lse for _, lse in results]
    return out, (q, k, v, out, log_sum_exps, positions, owns, causal, scale)


def backward(g, residuals):
    """The backward pass of all ranks in one process."""
    q, k, v, out, log_sum_exps, positions, owns, causal, scale = residuals
    xp = array_namespace(q)
    results = run_together(
        backward_on_rank(
            rank,
            *(array[..., own, :] for array in (g, q, k, v, out)),
            log_sum_exps[rank],
            positions,
            causal,
            scale,
        )
        for rank, own in enumerate(owns)
    )
    gradients = xp.empty_like(q), xp.empty_like(k), xp.empty_like(v)
    for own, parts in zip(owns, results, strict=True):
        for gradient, part in zip(gradients, parts, strict=True):
            gradient[..., own, :] = part
    return gradients


def distributed_forward(q, k, v, *, communicator, positions, causal, scale):
    """The forward pass of this rank of an MPI ring."""
    rank = communicator.Get_rank()
    out, lse = run_on(communicator, forward_on_rank(rank, q, k, v, positions, causal, scale))
    return out, (q, k, v, out, lse, communicator, positions, causal, scale)


def distributed_backward(g, residuals):
    """The backward pass of this rank of an MPI ring."""
    q, k, v, out, lse, communicator, positions, causal, scale = residuals
    rank = communicator.Get_rank()
    return run_on(
        communicator, backward_on_rank(rank, g, q, k, v, out, lse, positions, causal, scale)
    )


for _kind in ("cpu", "strict", "cuda"):
    register_kernel("ring_attention", _kind, forward, backward)
    register_kernel("distributed_ring_attention", _kind, distributed_forward, distributed_backward)
