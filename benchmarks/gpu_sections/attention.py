"""Causal attention on a GPU, forward and backward, against PyTorch's SDPA."""

import numpy as np

import tinyattn as ta

LENGTHS = (1024, 2048, 4096, 8192, 16384)
HEAD_DIM = 64


def attention(session):
    """Causal attention, forward and backward, heads of 64, against PyTorch's SDPA in the same precision."""
    found = {}
    for length in (16, 24) if session.rehearse else LENGTHS:
        heads = 1 if session.rehearse else max(4, 2**26 // length**2)
        random = np.random.default_rng(0)
        arrays = [
            random.standard_normal((1, heads, length, HEAD_DIM), np.float32) for _ in range(4)
        ]
        row = found[length] = {"heads": heads}
        for dtype in ("float32", "float16"):
            for name, make in (("tinyattn", own_attention), ("torch_sdpa", torch_sdpa)):
                label = f"{name}_{dtype}"
                if session.left <= 0:
                    row[label] = {"left_out": "the budget was spent"}
                    continue
                try:
                    call, synchronize = make(session, [array.astype(dtype) for array in arrays])
                    row[label] = session.milliseconds(call, synchronize, rounds=3, calls=5)
                except ImportError as error:
                    row[label] = {"missing": str(error)}
    return {"lengths": found}


def own_attention(session, arrays):
    *leaves, cotangent = (ta.tensor(array, device=session.device) for array in arrays)
    for leaf in leaves:
        leaf.requires_grad = True

    def call():
        for leaf in leaves:
            leaf.grad = None
        ta.scaled_dot_product_attention(*leaves, causal=True).backward(cotangent)

    return call, session.backend.synchronize


def torch_sdpa(session, arrays):
    import torch

    place = "cpu" if session.rehearse else session.device
    torch.backends.cuda.matmul.allow_tf32 = False
    *leaves, cotangent = (torch.from_numpy(array).to(place) for array in arrays)
    for leaf in leaves:
        leaf.requires_grad_()

    def call():
        for leaf in leaves:
            leaf.grad = None
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
        out.backward(cotangent)

    return call, lambda: None if session.rehearse else torch.cuda.synchronize()
