"""What every tokenizer provides: text to ids, ids to text, and an identity."""

import codecs
import operator
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from ...backend import listed
from ..errors import InputError

PIECE = 1 << 18  # characters that are encoded in one call


class Tokenizer(ABC):
    """A mapping between text and ids 0 .. len - 1; base class of all tokenizers.

    Attributes:
        kind: its name in ``TOKENIZERS``.
        unit: what one id stands for: "character", "byte" or "token".
        end_of_text: id of the token that separates documents, or None.

    >>> from tinyattn.data import ByteTokenizer
    >>> tokenizer = ByteTokenizer()
    >>> ids = tokenizer.encode("né")
    >>> ids.tolist(), tokenizer.decode(ids), tokenizer.symbols[110], tokenizer.symbols[0xC3]
    ([110, 195, 169], 'né', 'n', '\\\\xc3')
    """

    kind = None
    unit = "token"
    end_of_text = None

    @abstractmethod
    def __len__(self):
        """The number of ids."""

    @abstractmethod
    def encode(self, text, unknown="error"):
        """Convert ``text`` to ids, an array of shape (length,) and of the tokenizer's dtype.

        Args:
            text: a string.
            unknown: ``"error"``, or ``"skip"`` to skip characters without an id.

        Raises:
            InputError: for text that has no ids.
            TypeError: if ``text`` is not a string but, for example, bytes.
        """

    def pieces(self, text):
        """Split ``text`` into pieces whose ids, one after another, are the ids of ``text``.

        >>> from tinyattn.data import ByteTokenizer
        >>> [len(piece) for piece in ByteTokenizer().pieces("a" * 600_000)]
        [262144, 262144, 75712]
        """
        return (text[start : start + PIECE] for start in range(0, len(text), PIECE))

    @abstractmethod
    def token_bytes(self, index):
        """The UTF-8 bytes of one token; a token may be a part of a character."""

    @property
    @abstractmethod
    def identity(self):
        """A digest that differs for tokenizers that encode differently; a run stores it in its states."""

    @abstractmethod
    def files(self):
        """The files that ``load_tokenizer`` restores the tokenizer from: dict of name to text."""

    def __eq__(self, other):
        return isinstance(other, Tokenizer) and self.identity == other.identity

    __hash__ = None

    @property
    def dtype(self):
        """The smallest unsigned integer dtype for all ids (uint16 for up to 65,536 tokens)."""
        return np.min_scalar_type(len(self) - 1)

    def decode(self, ids):
        """Convert ``ids`` (integers in 0 .. len - 1) to text; bytes that are not UTF-8 become U+FFFD.

        Raises:
            IndexError: for an id outside the vocabulary, including negative ones.
            TypeError: for ids that are not integers.
        """
        content = b"".join(self.token_bytes(i) for i in self._checked(ids))
        return content.decode("utf-8", "replace")

    def _checked(self, ids):
        ids = [operator.index(i) for i in listed(ids, "ids")]  # raises for 0.9 and "1"
        for i in ids:
            if not 0 <= i < len(self):
                raise IndexError(f"id {i} is not in a vocabulary of {len(self)} {self.unit}s")
        return ids

    def stream(self, ids):
        """Decode an iterator of ids: yield text as soon as its characters are complete.

        >>> from tinyattn.data import ByteTokenizer
        >>> list(ByteTokenizer().stream(iter([110, 195, 169, 195])))
        ['n', 'é', '\ufffd']
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for i in ids:
            if text := decoder.decode(self.token_bytes(operator.index(i))):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    @cached_property
    def symbols(self):
        """How each token is shown alone, a tuple: its text, or its bytes (``\\\\xc3``) if they are no text."""
        return tuple(_symbol(self.token_bytes(i)) for i in range(len(self)))

    @cached_property
    def characters_per_token(self):
        """The number of characters (code points) that begin in each token, int64 of shape (len,).

        Its sum over the ids of a text is the number of the text's characters.

        >>> from tinyattn.data import ByteTokenizer
        >>> tokenizer = ByteTokenizer()
        >>> int(tokenizer.characters_per_token[tokenizer.encode("né")].sum())
        2
        """
        # The second and later bytes of a character in UTF-8 are 0b10xxxxxx.
        return np.array(
            [sum(byte & 0xC0 != 0x80 for byte in self.token_bytes(i)) for i in range(len(self))],
            np.int64,
        )

    @property
    def start(self):
        """The text before generated text without a prompt: the end of another text, or a line break."""
        return "\n" if self.end_of_text is None else self.token_bytes(self.end_of_text).decode()


def check_text(text):
    """Raise TypeError if ``text`` is not a string, InputError if it contains a lone surrogate."""
    if not isinstance(text, str):
        raise TypeError(f"a tokenizer encodes a string, got {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text has a lone surrogate, {text[error.start]!r}, at position {error.start}, which is no character: "
            f"remove it, or read the file as UTF-8"
        ) from None


def _symbol(content):
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in content)
