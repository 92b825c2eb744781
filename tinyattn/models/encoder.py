"""An encoder: a transformer whose tokens see each other in both directions, trained to fill in masked ones."""

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
    """Tokens to the logits of what each of them is, or was before it was masked.

    Args:
        config: an ``EncoderConfig``.

    Attributes:
        mask_id: the id of the mask token, the first after the vocabulary; it is read and never predicted.

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
            ids: integers (..., length), a tensor or an array of the model's device, or nested lists; ``mask_id`` where
                masked.
            padding_mask: booleans (..., length), True for real tokens and False for padding, which no token sees and
                which does not count as a position (a window of attention counts it). What comes out at padding has
                no meaning.

        Returns:
            (..., length, vocabulary_size).

        Raises:
            ValueError: if the tokens are more than ``block_size``.
            IndexError: for an id that is neither in the vocabulary nor ``mask_id``.
        """
        return self.logits(self.read(ids, padding_mask=padding_mask))


def mask_tokens(ids, *, vocabulary_size, share=0.15, random=None):
    """Hide some tokens for an encoder to find: what it reads, and what it should say.

    A ``share`` of the tokens, at least one, is chosen. Of these, 80 % become the mask token, 10 % any token, and 10 %
    stay, so that a token that is not masked must be looked at too.

    Args:
        ids: NumPy integers of any type and shape with at least one element.
        vocabulary_size: also the id of the mask token.
        share: between 0 and 1; a text of which none was drawn has one token hidden all the same.
        random: a ``tinyattn.backend.Random``; by default the default stream.

    Returns:
        ``(inputs, targets)``, int64 of the shape of ``ids``; targets are -100, which no loss counts, where no token
        was chosen.

    Raises:
        ValueError: for no ids, ids that are no integers, and a share out of range.

    Source: J. Devlin et al., "BERT" (2019), section 3.1.

    >>> inputs, targets = mask_tokens(np.arange(100), vocabulary_size=100)
    >>> bool((inputs[targets == -100] == np.arange(100)[targets == -100]).all())
    True
    """
    ids = host_array(ids)
    if not ids.size or ids.dtype.kind not in "iu":
        raise ValueError(
            f"cannot hide tokens of ids of shape {ids.shape} and dtype {ids.dtype}: expected integers, one at least"
        )
    if not 0 <= share <= 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    random = default_random() if random is None else random
    ids = ids.astype(
        np.int64
    )  # a vocabulary's own unsigned type holds neither the mask token nor -100
    chosen = random.uniform(size=ids.shape) < share
    if not chosen.any():
        chosen.flat[random.integers(ids.size)] = True
    fate = random.uniform(size=ids.shape)
    inputs = np.where(chosen & (fate < 0.8), vocabulary_size, ids)
    replace = chosen & (fate >= 0.9)
    inputs[replace] = random.integers(0, vocabulary_size, size=int(replace.sum()))
    return inputs, np.where(chosen, ids, IGNORE_INDEX)
