"""Byte tokenizer: the 256 bytes of UTF-8 as ids."""

import json

import numpy as np

from ..json_text import digest_of
from .tokenizer import Tokenizer, check_text


class ByteTokenizer(Tokenizer):
    """The bytes of a text's UTF-8 encoding as ids: 256 ids for text in any script.

    >>> ByteTokenizer().encode("é").tolist()
    [195, 169]
    """

    kind = "bytes"
    unit = "byte"

    @classmethod
    def from_text(cls, text, size=None):
        """The byte tokenizer, which is the same for every text."""
        check_text(text)
        return cls()

    def __len__(self):
        return 256

    def encode(self, text, unknown="error"):
        check_text(text)
        return np.frombuffer(text.encode("utf-8"), np.uint8)

    def token_bytes(self, index):
        return bytes([index])

    @property
    def identity(self):
        return digest_of({"tokenizer": self.kind})

    def files(self):
        return {"vocab.json": json.dumps({"tokenizer": self.kind})}
