"""Characters and their numbers."""

import json
import operator

import numpy as np

from ..backend import listed
from .errors import InputError
from .json_text import parse_json


class CharVocabulary:
    """The characters of a text in the order of their code points, each with its position as its id.

    Sorted, so that every process gives a character the same id; a run keeps its vocabulary in
    ``vocab.json`` and reads it from there.

    Args:
        characters: distinct characters, in the order of their ids.

    >>> vocabulary = CharVocabulary.from_text("hello")
    >>> vocabulary.characters, vocabulary.encode("hole").tolist()
    (('e', 'h', 'l', 'o'), [1, 3, 2, 0])
    >>> vocabulary.decode([1, 0, 2, 2, 3])
    'hello'
    """

    def __init__(self, characters):
        self.characters = tuple(listed(characters, "characters"))
        self._ids = {character: index for index, character in enumerate(self.characters)}
        if not self.characters:
            raise InputError(
                "a vocabulary holds one character at least: the text or list given is empty"
            )
        if len(self._ids) != len(self.characters):
            raise InputError("a vocabulary holds each character once: the list given repeats some")
        if any(not isinstance(c, str) or len(c) != 1 for c in self.characters):
            raise InputError("a vocabulary is a list of single characters (one code point each)")

    @classmethod
    def from_text(cls, text):
        """The vocabulary of all characters in ``text``."""
        return cls(sorted(set(text)))

    def __len__(self):
        return len(self.characters)

    def __eq__(self, other):
        return isinstance(other, CharVocabulary) and self.characters == other.characters

    __hash__ = None

    @property
    def dtype(self):
        """The smallest unsigned integer type that holds every id (65,536 characters fit uint16)."""
        return np.min_scalar_type(max(len(self) - 1, 0))

    def encode(self, text, unknown="error"):
        """The ids of ``text``, an array of shape (length,) and of the vocabulary's dtype.

        Args:
            text: a string.
            unknown: ``"error"``, or ``"skip"`` to leave out the characters that have no id.

        Raises:
            InputError: where a character has no id; the message lists them with their positions.
            TypeError: for what is no string, such as bytes.

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
            self._refuse_unknown(text)
        ids = map(self._ids.get, text)
        return np.fromiter((i for i in ids if i is not None), dtype=self.dtype)

    def _refuse_unknown(self, text):
        missing = sorted(set(text) - self._ids.keys())
        if not missing:
            return
        listed = [f"{_readable(c)} (position {text.index(c)})" for c in missing[:10]]
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        known = "".join(self.characters[:200])
        raise InputError(
            f"no id for {', '.join(listed)}{more}; the vocabulary is {_readable(known)}"
        )

    def decode(self, ids):
        """The text of ``ids`` (whole numbers in 0 .. len - 1).

        Raises:
            IndexError: for an id outside the vocabulary; negative ones do not count from the end.
            TypeError: for what are no integers.
        """
        ids = [operator.index(i) for i in listed(ids, "ids")]  # which refuses 0.9 and "1"
        for i in ids:
            if not 0 <= i < len(self):
                raise IndexError(f"id {i} is not in a vocabulary of {len(self)} characters")
        return "".join(self.characters[i] for i in ids)

    @property
    def start(self):
        """The character that text begins with where nothing is given: a line break if there is one."""
        return "\n" if "\n" in self._ids else self.characters[0]

    def to_json(self):
        """The vocabulary as JSON: the list of its characters."""
        return json.dumps({"characters": list(self.characters)}, ensure_ascii=True, indent=0)

    @classmethod
    def from_json(cls, text):
        """The vocabulary that ``to_json`` wrote.

        Raises:
            InputError: where ``text`` is not such JSON.
        """
        try:
            return cls(parse_json(text, "the vocabulary")["characters"])
        except (KeyError, TypeError):
            raise InputError(
                'expected JSON of the form {"characters": ["a", "b"]} for a vocabulary'
            ) from None


def _readable(text):
    """``text`` in quotes, with escapes for the characters that a terminal cannot show."""
    return repr(text)  # escapes what is not printable, lone surrogates included
