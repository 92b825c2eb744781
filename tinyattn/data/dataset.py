"""A corpus as token ids, split for training and validation."""

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from .baselines import bigram_loss, unigram_loss
from .batches import TRAIN_FRACTION, check_parts, evaluation_batches
from .corpus import corpus_title, load_corpus
from .encoded import LONG, encoded_parts
from .errors import InputError
from .tokenizers import TOKENIZERS


class TextDataset:
    """A text as ids of its characters or tokens, split into training and validation parts.

    The text is split before it is encoded, so that the validation text is the same for every tokenizer.

    Args:
        text: the corpus.
        block_size: ids in a window; each part must have at least one window.
        vocabulary: the tokenizer; by default the characters of the text.
        name: the name of the corpus.
        keep: whether the ids of a long text are kept in the user's cache directory (encoded.py).
        watch: called with ``(done, total)``, numbers of characters, while a long text is encoded to be kept.

    >>> dataset = TextDataset("abracadabra" * 20, block_size=8)
    >>> dataset.train.shape, dataset.validation.shape, dataset.vocabulary.characters
    ((198,), (22,), ('a', 'b', 'c', 'd', 'r'))
    """

    def __init__(self, text, block_size, vocabulary=None, name="text", keep=False, watch=None):
        if vocabulary is None:
            vocabulary = make_tokenizer(text)
        self.vocabulary = vocabulary
        self.block_size = block_size
        cut = int(len(text) * TRAIN_FRACTION)
        parts, digest = (text[:cut], text[cut:]), _digest(text)
        if keep and len(text) >= LONG:
            self.train, self.validation = encoded_parts(parts, vocabulary, digest, watch)
        else:
            self.train, self.validation = map(vocabulary.encode, parts)
        check_parts(self.train, self.validation, block_size, vocabulary.unit)
        self.identity = {"name": name, "characters": len(text), "sha256": digest}
        self._evaluated = {}

    @classmethod
    def load(
        cls,
        data,
        block_size,
        identity=None,
        vocabulary=None,
        standard_input=None,
        *,
        tokenizer="characters",
        vocabulary_size=None,
        watch=None,
    ):
        """Load a corpus (see ``load_corpus``), with a ``vocabulary`` or a new one (see ``make_tokenizer``).

        The ids of a long text are kept in the user's cache directory.

        Raises:
            InputError: as ``load_corpus``; or if the text is not the one of ``identity``.
        """
        text = load_corpus(data, standard_input)
        if identity is not None and _digest(text) != identity["sha256"]:
            raise InputError(
                f"{corpus_title(data)} is no longer the text that the run began with "
                f"({identity['characters']} characters, now {len(text)}): "
                f"give that text with --data, or start a new run"
            )
        if vocabulary is None:
            vocabulary = make_tokenizer(text, tokenizer, vocabulary_size)
        return cls(text, block_size, vocabulary, corpus_title(data), keep=True, watch=watch)

    def set_block_size(self, block_size):
        """Change the number of ids in a window.

        Raises:
            InputError: if a part is shorter than one window.
        """
        check_parts(self.train, self.validation, block_size, self.vocabulary.unit)
        if block_size != self.block_size:
            self.block_size = block_size
            self._evaluated.clear()

    def evaluated(self, most=None):
        """The text that an evaluation of at most ``most`` ids of the validation part covers, an ``EvaluatedText``."""
        if most not in self._evaluated:
            self._evaluated[most] = self._measure(most)
        return self._evaluated[most]

    def _measure(self, most):
        batches = list(evaluation_batches(self.validation, self.block_size, 1024, most))
        inputs, targets = (
            np.concatenate([batch[i].ravel() for batch in batches]) for i in range(2)
        )
        size = len(self.vocabulary)
        return EvaluatedText(
            tokens=len(targets),
            characters=int(self.vocabulary.characters_per_token[targets].sum()),
            baselines={
                "unigram": unigram_loss(self.train, targets, size),
                "bigram": bigram_loss(self.train, targets, size, inputs),
            },
        )


@dataclass(frozen=True)
class EvaluatedText:
    """The part of a text that an evaluation covers.

    Attributes:
        tokens, characters: its size; both count predicted tokens only.
        baselines: unigram and bigram loss on it [nats per token].
    """

    tokens: int
    characters: int
    baselines: dict

    def bits_per_character(self, loss):
        """Convert a loss in nats per token to bits per character, which compares models with different tokens.

        >>> EvaluatedText(tokens=100, characters=400, baselines={}).bits_per_character(math.log(256))
        2.0
        """
        return bits_per_character(loss, self.tokens, self.characters)


def bits_per_character(loss, tokens, characters):
    """Convert the mean loss of ``tokens`` tokens, in nats, to bits for each of their ``characters``."""
    return loss * tokens / max(1, characters) / math.log(2)


def make_tokenizer(text, kind="characters", vocabulary_size=None):
    """Make the tokenizer ``kind`` of ``TOKENIZERS`` for a corpus.

    Byte pairs are learned from the training part only; characters are those of the whole text.

    Args:
        text: the corpus.
        kind: a key of ``TOKENIZERS``.
        vocabulary_size: largest number of tokens of ``"bpe"``.
    """
    if kind == "bpe":
        text = text[: int(len(text) * TRAIN_FRACTION)]
        return TOKENIZERS[kind].from_text(text, vocabulary_size or 1024)
    return TOKENIZERS[kind].from_text(text)


def _digest(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
