"""The tensors of a GPT-2: their names and shapes there, and the parameters of ``GPT`` that they contain.

GPT-2 stores matrices as (in, out), as ``nn.Linear`` does here. One matrix contains the projections to queries, keys and
values side by side, so that each of them is a view of a third of its columns. Only an output layer that is not tied to
the embedding is stored transposed.
"""

import re
from dataclasses import dataclass

import numpy as np

PREFIX = "transformer."
HEAD = "lm_head.weight"
EMBEDDING = "wte.weight"
# Constants that older versions of transformers saved: the causal mask and the value of masked scores.
IGNORED = re.compile(r"h\.\d+\.attn\.(masked_)?bias")

_BLOCK = {
    "ln_1": ["norm1"],
    "attn.c_attn": ["attention.query", "attention.key", "attention.value"],
    "attn.c_proj": ["attention.project"],
    "ln_2": ["norm2"],
    "mlp.c_fc": ["feed_forward.expand"],
    "mlp.c_proj": ["feed_forward.contract"],
}


@dataclass(frozen=True)
class Entry:
    """One tensor of a GPT-2.

    Attributes:
        name: its name there, without ``PREFIX``.
        shape: its shape there.
        parameters: the names of the parameters here, side by side on its last axis.
        is_transposed: whether the parameter here is its transpose.
    """

    name: str
    shape: tuple
    parameters: list
    is_transposed: bool = False

    def split(self, array):
        """The arrays of the parameters, views of ``array``: a dict of names to arrays."""
        if self.is_transposed:
            array = array.T
        width = array.shape[-1] // len(self.parameters)
        return {
            name: array[..., i * width : (i + 1) * width] for i, name in enumerate(self.parameters)
        }

    def join(self, arrays):
        """The inverse of ``split``: the array of the tensor, from those of its parameters."""
        if self.is_transposed:
            arrays = [array.T for array in arrays]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)


def layout(config):
    """The tensors of the GPT-2 with the settings of a ``GPTConfig``, a list of ``Entry``.

    >>> from tinyattn.models import GPTConfig
    >>> [entry.name for entry in layout(GPTConfig.gpt2(layers=1))][:3]
    ['wte.weight', 'wpe.weight', 'h.0.ln_1.weight']
    """
    dim, hidden = config.dim, config.feed_forward_dim or 4 * config.dim
    matrices = {
        "attn.c_attn": (dim, 3 * dim),
        "attn.c_proj": (dim, dim),
        "mlp.c_fc": (dim, hidden),
        "mlp.c_proj": (hidden, dim),
    }
    entries = [
        Entry(EMBEDDING, (config.vocabulary_size, dim), ["embedding.weight"]),
        Entry("wpe.weight", (config.block_size, dim), ["positions.weight"]),
    ]
    for i in range(config.layers):
        for there, here in _BLOCK.items():
            shape = matrices.get(there, (dim,))
            for part, part_shape in (("weight", shape), ("bias", shape[-1:])):
                names = [f"blocks.{i}.{name}.{part}" for name in here]
                entries.append(Entry(f"h.{i}.{there}.{part}", part_shape, names))
    entries += [Entry(f"ln_f.{part}", (dim,), [f"norm.{part}"]) for part in ("weight", "bias")]
    if not config.tie_head:
        entries.append(Entry(HEAD, (config.vocabulary_size, dim), ["head.weight"], True))
    return entries
