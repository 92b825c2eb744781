"""Encoder: a bidirectional transformer, trained to predict masked tokens."""

from dataclasses import dataclass

import numpy as np

from ..backend import default_random, host_array
from ..ops.losses import IGNORE_INDEX
from .transformer import Transformer, TransformerConfig


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(TransformerConfig):
    """Settings of an encoder, which is post-norm by default. See ``TransformerOptions`` for the fields.

    >>> EncoderConfig(dim=64).head_dim
    16
    """


class Encoder(Transformer):
    """A bidirectional transformer: ids to the logits of each token, masked tokens included.

    Args:
        config: an ``EncoderConfig``.

    Attributes:
        mask_id: the id of the mask token, the first after the vocabulary; it is read but never predicted.

    Source: J. Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2019), sections 3 and 3.1.

    >>> import tinyattn as ta
    >>> model = Encoder(EncoderConfig(vocabulary_size=10, block_size=8, layers=1, heads=2, dim=16))
    >>> model(ta.tensor([[1, model.mask_id, 3]])).shape
    (1, 3, 10)
    """

    def __init__(self, config):
        super().__init__(config, causal=False, norm="post", special_tokens=1)
        self.mask_id = config.vocabulary_size

    def forward(self, ids, *, padding_mask=None):
        """The logits of each token.

        Args:
            ids: integers (..., length), a tensor or an array of the model's device, or nested lists; ``mask_id`` for
                masked tokens.
            padding_mask: booleans (..., length), True for real tokens and False for padding. No token attends to
                padding, and padding does not count as a position (except for window attention). The logits at padding
                are meaningless.

        Returns:
            (..., length, vocabulary_size).

        Raises:
            ValueError: for more than ``block_size`` tokens.
            IndexError: for an id that is neither in the vocabulary nor ``mask_id``.
        """
        return self.logits(self.read(ids, padding_mask=padding_mask))


def mask_tokens(ids, *, vocabulary_size, share=0.15, random=None):
    """Mask random tokens for training an encoder (masked language modeling).

    A ``share`` of the tokens, at least one, is selected. Of these, 80 % are replaced by the mask token, 10 % by a
    random token, and 10 % are kept, so that the encoder must also predict tokens that are not masked.

    Args:
        ids: NumPy integers of any type and shape, with at least one element.
        vocabulary_size: the size of the vocabulary, which is also the id of the mask token.
        share: between 0 and 1; at least one token is selected in any case.
        random: a ``tinyattn.backend.Random``; by default the default stream.

    Returns:
        ``(inputs, targets)``, int64 of the shape of ``ids``; targets are -100, which the losses ignore, for tokens that
        were not selected.

    Raises:
        ValueError: for empty ids, ids that are not integers, and a share out of range.

    Source: J. Devlin et al., "BERT" (2019), section 3.1.

    >>> inputs, targets = mask_tokens(np.arange(100), vocabulary_size=100)
    >>> bool((inputs[targets == -100] == np.arange(100)[targets == -100]).all())
    True
    """
    ids = host_array(ids)
    if not ids.size or ids.dtype.kind not in "iu":
        raise ValueError(
            f"cannot mask ids of shape {ids.shape} and dtype {ids.dtype}: expected at least one integer"
        )
    if not 0 <= share <= 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    random = default_random() if random is None else random
    # The unsigned dtype of a vocabulary can represent neither the mask token nor -100.
    ids = ids.astype(np.int64)
    chosen = random.uniform(size=ids.shape) < share
    if not chosen.any():
        chosen.flat[random.integers(ids.size)] = True
    fate = random.uniform(size=ids.shape)
    inputs = np.where(chosen & (fate < 0.8), vocabulary_size, ids)
    replace = chosen & (fate >= 0.9)
    inputs[replace] = random.integers(0, vocabulary_size, size=int(replace.sum()))
    return inputs, np.where(chosen, ids, IGNORE_INDEX)
