"""Data: text corpora, tokenizers, batches of windows, n-gram baselines, and batches of arrays."""

from .array_batches import ArrayBatches
from .baselines import bigram_loss, unigram_loss
from .batches import Batches, evaluation_batches, split_text
from .corpus import CORPORA, load_corpus, read_text
from .dataset import TextDataset
from .errors import InputError, InputWarning
from .tokenizers import (
    TOKENIZERS,
    BytePairTokenizer,
    ByteTokenizer,
    CharVocabulary,
    Tokenizer,
    load_tokenizer,
)

__all__ = [
    "CORPORA",
    "TOKENIZERS",
    "ArrayBatches",
    "Batches",
    "BytePairTokenizer",
    "ByteTokenizer",
    "CharVocabulary",
    "InputError",
    "InputWarning",
    "TextDataset",
    "Tokenizer",
    "bigram_loss",
    "evaluation_batches",
    "load_corpus",
    "load_tokenizer",
    "read_text",
    "split_text",
    "unigram_loss",
]
