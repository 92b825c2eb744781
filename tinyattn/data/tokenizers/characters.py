"""Character vocabulary: encode text as ids and decode ids."""

import json

import numpy as np

from ...backend import listed
from ..errors import InputError
from ..json_text import digest_of, parse_json
from .tokenizer import Tokenizer


class CharVocabulary(Tokenizer):
    """A mapping between characters and ids, the positions in a list of characters.

    ``from_text`` sorts the characters by code point, so that ids do not depend on the process. A run stores its
    vocabulary in ``vocab.json``.

    Args:
        characters: distinct characters, in the order of their ids.

    >>> vocabulary = CharVocabulary.from_text("hello")
    >>> vocabulary.characters, vocabulary.encode("hole").tolist()
    (('e', 'h', 'l', 'o'), [1, 3, 2, 0])
    >>> vocabulary.decode([1, 0, 2, 2, 3])
    'hello'
    """

    kind = "characters"
    unit = "character"

    def __init__(self, characters):
        self.characters = tuple(listed(characters, "characters"))
        self._ids = {character: index for index, character in enumerate(self.characters)}
        if not self.characters:
            raise InputError("a vocabulary needs at least one character: the text or list is empty")
        if len(self._ids) != len(self.characters):
            raise InputError("a vocabulary needs distinct characters: the list repeats some")
        if any(not isinstance(c, str) or len(c) != 1 for c in self.characters):
            raise InputError("a vocabulary is a list of single characters (one code point each)")

    @classmethod
    def from_text(cls, text, size=None):
        """The vocabulary of all characters in ``text``."""
        return cls(sorted(set(text)))

    def __len__(self):
        return len(self.characters)

    def encode(self, text, unknown="error"):
        """Convert ``text`` to ids, an array of shape (length,) and of the vocabulary's dtype.

        Args:
            text: a string.
            unknown: ``"error"``, or ``"skip"`` to skip characters without an id.

        Raises:
            InputError: for characters without an id; the message lists them with their positions.
            TypeError: if ``text`` is not a string but, for example, bytes.

        >>> CharVocabulary("a").encode("aad")
        Traceback (most recent call last):
            ...
        tinyattn.data.errors.InputError: no id for 'd' (position 2); the vocabulary is 'a'
        """
        if not isinstance(text, str):
            raise TypeError(f"a vocabulary encodes a string, got {type(text).__name__}")
        if unknown not in ("error", "skip"):
            raise ValueError(f'unknown={unknown!r}: expected "error" or "skip"')
        if unknown == "error":
            self._check_known(text)
        ids = map(self._ids.get, text)
        return np.fromiter((i for i in ids if i is not None), dtype=self.dtype)

    def _check_known(self, text):
        missing = sorted(set(text) - self._ids.keys())
        if missing:
            # repr escapes unprintable characters, including lone surrogates.
            first = [f"{c!r} (position {text.index(c)})" for c in missing[:10]]
            more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
            known = "".join(self.characters[:200])
            raise InputError(f"no id for {', '.join(first)}{more}; the vocabulary is {known!r}")

    def decode(self, ids):
        return "".join(self.characters[i] for i in self._checked(ids))

    def stream(self, ids):
        return (self.decode([i]) for i in ids)

    def token_bytes(self, index):
        return self.characters[index].encode("utf-8", "surrogatepass")

    @property
    def identity(self):
        return digest_of(self.characters)

    @property
    def start(self):
        """The first character of generated text without a prompt: a line break if the vocabulary has one."""
        return "\n" if "\n" in self._ids else self.characters[0]

    def files(self):
        return {"vocab.json": self.to_json()}

    def to_json(self):
        """The vocabulary as JSON: the list of its characters."""
        return json.dumps({"characters": list(self.characters)}, ensure_ascii=True, indent=0)

    @classmethod
    def from_json(cls, text):
        """Restore the vocabulary from the text of ``to_json``.

        Raises:
            InputError: if ``text`` is not such JSON.
        """
        try:
            return cls(parse_json(text, "the vocabulary")["characters"])
        except (KeyError, TypeError):
            raise InputError(
                'expected JSON of the form {"characters": ["a", "b"]} for a vocabulary'
            ) from None
