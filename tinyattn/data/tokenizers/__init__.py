"""Tokenizers: text as ids of characters, of bytes, or of byte pairs (BPE)."""

from .byte_pairs import BytePairTokenizer
from .bytes import ByteTokenizer
from .characters import CharVocabulary
from .files import load_tokenizer, parse_tokenizer
from .huggingface import huggingface_files
from .tokenizer import Tokenizer

TOKENIZERS = {
    tokenizer.kind: tokenizer for tokenizer in (CharVocabulary, ByteTokenizer, BytePairTokenizer)
}

__all__ = [
    "TOKENIZERS",
    "BytePairTokenizer",
    "ByteTokenizer",
    "CharVocabulary",
    "Tokenizer",
    "huggingface_files",
    "load_tokenizer",
    "parse_tokenizer",
]
