"""A corpus as token ids, split for training and validation."""

import hashlib
from functools import cached_property

from .baselines import bigram_loss, unigram_loss
from .batches import split_text
from .corpus import corpus_title, load_corpus
from .errors import InputError
from .tokenizers import CharVocabulary


class CharDataset:
    """A text as ids of its characters, split into training and validation parts.

    Args:
        text: the corpus.
        block_size: characters in a window; each part must have at least one window.
        vocabulary: an existing vocabulary with all characters of the text; by default that of the text.
        name: the name of the corpus.

    >>> dataset = CharDataset("abracadabra" * 20, block_size=8)
    >>> dataset.train.shape, dataset.validation.shape, dataset.vocabulary.characters
    ((198,), (22,), ('a', 'b', 'c', 'd', 'r'))
    """

    def __init__(self, text, block_size, vocabulary=None, name="text"):
        self.vocabulary = CharVocabulary.from_text(text) if vocabulary is None else vocabulary
        ids = self.vocabulary.encode(text)
        self.train, self.validation = split_text(ids, block_size)
        self.identity = {"name": name, "characters": len(text), "sha256": _digest(text)}

    @classmethod
    def load(cls, data, block_size, identity=None, vocabulary=None, standard_input=None):
        """Load a corpus (see ``load_corpus``); raise InputError if it is not the one of ``identity``."""
        text = load_corpus(data, standard_input)
        if identity is not None and _digest(text) != identity["sha256"]:
            raise InputError(
                f"{corpus_title(data)} is no longer the text that the run began with "
                f"({identity['characters']} characters, now {len(text)}): "
                f"give that text with --data, or start a new run"
            )
        return cls(text, block_size, vocabulary, corpus_title(data))

    @cached_property
    def baselines(self):
        """The unigram and bigram losses on the validation part [nats per character]."""
        size = len(self.vocabulary)
        return {
            "unigram": unigram_loss(self.train, self.validation, size),
            "bigram": bigram_loss(self.train, self.validation, size),
        }


def _digest(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
