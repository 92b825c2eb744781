"""GPT: a decoder-only transformer that predicts the next token."""

from dataclasses import dataclass

from ..nn import ModelCache
from .ids import as_ids
from .transformer import Transformer, TransformerConfig


@dataclass(frozen=True, kw_only=True)
class GPTConfig(TransformerConfig):
    """Settings of a GPT; the defaults are those of ``tinyattn train``. See ``TransformerOptions`` for the fields.

    >>> GPTConfig(dim=64).head_dim
    16
    """

    @classmethod
    def gpt2(cls, **settings):
        """The settings of GPT-2, of 124 million parameters unless ``settings`` give another size.

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
            "normalisation": "layer_norm",
            "qk_norm": False,
            "tie_head": True,
        }
        return cls(**{**gpt2, **settings})


class GPT(Transformer):
    """Tokens to the logits of the next token: embedding, blocks of causal attention, norm, output layer.

    Args:
        config: a ``GPTConfig``.

    Weights start as in GPT-2: see ``initialise_like_gpt2``. They are drawn from the default random stream
    (``ta.manual_seed``), the same on every device.

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

    def forward(self, ids, *, cache=None, padding_mask=None):
        """The logits of the token that follows each of ``ids``.

        With a cache, a ``Decoder`` computes the same for one token at a time, faster and without recording.

        Args:
            ids: integers (..., length), a tensor or an array of the model's device, or nested lists.
            cache: what ``model.cache()`` made; the tokens before ``ids`` are taken from it, and ``ids`` added to it.
            padding_mask: booleans (..., length), True for real tokens and False for padding, which no token sees and
                which does not count as a position (a window of attention counts it). What comes out at padding has
                no meaning.

        Returns:
            (..., length, vocabulary_size).

        Raises:
            ValueError: if the tokens, those in the cache included, are more than ``block_size``; for a cache of another
                model.
            IndexError: for an id outside the vocabulary.
        """
        ids = as_ids(ids, self)
        if cache is not None:
            self.check_cache(cache)
        return self.logits(self.read(ids, cache, padding_mask))

    def cache(self):
        """An empty cache for ``model(ids, cache=cache)``, which then computes the new tokens only.

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
        """Raise ValueError for a cache that another kind of model made."""
        if len(getattr(cache, "layers", ())) != self.config.layers:
            raise ValueError(
                f"{cache!r} is no cache of a model with {self.config.layers} layers: expected what cache() of this "
                "model returned"
            )
