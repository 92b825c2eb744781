"""Data: text corpora, character vocabulary, batches of windows, n-gram baselines, and batches of arrays."""

from .array_batches import ArrayBatches
from .baselines import bigram_loss, unigram_loss
from .batches import Batches, evaluation_batches, split_text
from .corpus import CORPORA, load_corpus, read_text
from .dataset import CharDataset
from .errors import InputError
from .vocabulary import CharVocabulary

__all__ = [
    "CORPORA",
    "ArrayBatches",
    "Batches",
    "CharDataset",
    "CharVocabulary",
    "InputError",
    "bigram_loss",
    "evaluation_batches",
    "load_corpus",
    "read_text",
    "split_text",
    "unigram_loss",
]
