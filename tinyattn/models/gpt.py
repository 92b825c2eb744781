"""GPT: a decoder-only transformer that predicts the next token."""

from dataclasses import dataclass

import numpy as np

from ..autograd import Tensor
from ..nn import BigramEmbedding, Embedding, ModelCache
from ..nn.bigrams import previous_ids
from ..nn.initialization import reinitialize
from .config import GPTOptions
from .ids import as_ids
from .transformer import Transformer, TransformerConfig


@dataclass(frozen=True, kw_only=True)
class GPTConfig(GPTOptions, TransformerConfig):
    """Settings of a GPT; the defaults are those of ``tinyattn train``. See ``GPTOptions`` for the fields.

    >>> GPTConfig(dim=64).head_dim
    16
    """

    @classmethod
    def gpt2(cls, **settings):
        """The settings of GPT-2, by default of the model with 124 million parameters.

        Source: A. Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3.

        >>> medium = GPTConfig.gpt2(layers=24, heads=16, dim=1024)
        >>> medium.block_size, medium.positions, medium.bias
        (1024, 'learned', True)
        """
        gpt2 = {
            "vocabulary_size": 50257,
            "block_size": 1024,
            "layers": 12,
            "heads": 12,
            "dim": 768,
            "bias": True,
            "positions": "learned",
            "activation": "gelu_tanh",
            "norm": "pre",
            "norm_kind": "layer_norm",
            "qk_norm": False,
            "tie_head": True,
            "previous_embedding": False,
        }
        return cls(**{**gpt2, **settings})


class GPT(Transformer):
    """A decoder-only transformer, ids to the logits of the next token: embedding, causal blocks, norm, output layer.

    Args:
        config: a ``GPTConfig``.

    Weights are initialized as in GPT-2: see ``initialize_like_gpt2``. They are drawn from the default random stream
    (``ta.manual_seed``), independently of the device.

    Source: A. Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3; A. Vaswani et
    al., "Attention Is All You Need" (2017).

    >>> import tinyattn as ta
    >>> model = GPT(GPTConfig(vocabulary_size=10, block_size=8, layers=1, heads=2, dim=16))
    >>> ids = ta.tensor([[1, 2, 3]])
    >>> model(ids).shape
    (1, 3, 10)
    >>> model.loss(ids, ta.tensor([[2, 3, 4]])).backward()
    """

    def __init__(self, config):
        super().__init__(config, causal=True, norm="pre")
        self.bigrams = self.previous_embedding = None
        if config.bigram_rows:
            self.bigrams = BigramEmbedding(config.vocabulary_size, config.dim, config.bigram_rows)
        if config.previous_embedding:
            # The last row belongs to first tokens. Zeros: training starts from the vectors of single tokens.
            self.previous_embedding = Embedding(config.vocabulary_size + 1, config.dim)
            weight = self.previous_embedding.weight
            reinitialize(weight, np.zeros(weight.shape, np.float32))

    @classmethod
    def from_pretrained(cls, folder, *, dtype=None, device=None, **changes):
        """Load a GPT-2 from a folder in the format of Hugging Face; in eval mode.

        The folder has ``config.json`` and ``model.safetensors``, or several such files with an index. The weights are
        mapped, not copied: see ``data/safetensors_file.py``. A change to them stays in memory.

        Args:
            folder: a path.
            dtype: the dtype of the parameters; by default float64 if the files have it, otherwise float32.
            device: the device; the default device if None.
            changes: settings that replace those of the file: ``dropout``, ``attention`` or a smaller ``block_size``.

        Raises:
            InputError: a ValueError, if a file is missing or damaged, if a tensor is missing, left over or of another
                shape, and for another architecture.

        >>> GPT(GPTConfig.gpt2(layers=1, heads=2, dim=8, vocabulary_size=10)).save_pretrained("small")
        >>> GPT.from_pretrained("small").config.layers
        1
        """
        from .huggingface import load

        return load(cls, folder, dtype=dtype, device=device, **changes)

    def save_pretrained(self, folder, end_of_text=None):
        """Save the model to a folder that ``from_pretrained``, and the GPT-2 of ``transformers``, can load.

        Args:
            folder: a path; existing files of the same names are replaced.
            end_of_text: the id of the token that separates documents, which ``config.json`` records.

        Raises:
            InputError: a ValueError, if GPT-2 cannot express the model; the message lists the settings that would have
                to differ.
            OSError: if the files cannot be written.
        """
        from .huggingface import save

        save(self, folder, end_of_text)

    def forward(self, ids, *, cache=None, padding_mask=None):
        """The logits of the token that follows each of ``ids``.

        For decoding one token at a time with a cache, a ``Decoder`` computes the same faster, without a graph.

        Args:
            ids: integers (..., length), a tensor or an array of the model's device, or nested lists.
            cache: a ``model.cache()`` with the tokens before ``ids``; ``ids`` are added to it.
            padding_mask: booleans (..., length), True for real tokens and False for padding. No token attends to
                padding, and padding does not count as a position (except for window attention). The logits at padding
                are meaningless.

        Returns:
            (..., length, vocabulary_size).

        Raises:
            ValueError: for more than ``block_size`` tokens, including those in the cache; for a cache of another model.
            IndexError: for an id outside the vocabulary.
        """
        ids = as_ids(ids, self)
        if cache is not None:
            self.check_cache(cache)
        return self.logits(self.read(ids, cache, padding_mask))

    def embed(self, ids, padding_mask=None, cache=None):
        x = super().embed(ids)
        if self.bigrams is None and self.previous_embedding is None:
            return x
        before = None if cache is None else cache.last_ids
        previous, last = previous_ids(ids, self.config.vocabulary_size, padding_mask, before)
        if cache is not None:
            cache.last_ids = last
        if self.bigrams is not None:
            x = x + self.bigrams(ids, previous)
        if self.previous_embedding is not None:
            x = x + self.previous_embedding(Tensor._wrap(previous))
        return x

    def cache(self):
        """An empty key-value cache for ``model(ids, cache=cache)``, which then computes only the new tokens.

        >>> import tinyattn as ta
        >>> model = GPT(GPTConfig(vocabulary_size=10, block_size=8, layers=1, heads=2, dim=16))
        >>> cache = model.cache()
        >>> with ta.no_grad():
        ...     for ids in ([[1, 2, 3]], [[4]]):
        ...         logits = model(ta.tensor(ids), cache=cache)
        >>> logits.shape, cache.length
        ((1, 1, 10), 4)
        """
        return ModelCache(self.config.layers)

    def check_cache(self, cache):
        """Raise ValueError for a cache of another kind of model."""
        if len(getattr(cache, "layers", ())) != self.config.layers:
            raise ValueError(
                f"{cache!r} is not a cache of a model with {self.config.layers} layers: pass the result of "
                "cache() of this model"
            )
