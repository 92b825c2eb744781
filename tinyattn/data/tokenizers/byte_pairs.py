"""Byte-level byte pair encoding (BPE), GPT-2's tokenizer, through the ``tokenizers`` library.

A text is split into words, and the bytes of each word into tokens: beginning with single bytes, the pair that comes
first in a list of merges is joined, until no pair of the word is in the list. Training chooses the merges: it joins the
most frequent pair of the text, again and again (Sennrich et al. 2016, arXiv:1508.07909). With all 256 bytes as tokens,
every text has ids (Radford et al. 2019, section 2.2).

In the files each byte is written as a printable character: a space is ``Ġ``, a line break ``Ċ``.
"""

import numpy as np

from ..errors import InputError
from ..json_text import digest_of, parse_json
from .tokenizer import PIECE, Tokenizer, check_text

END_OF_TEXT = "<|endoftext|>"


class BytePairTokenizer(Tokenizer):
    """Byte-level BPE: frequent sequences of bytes as tokens.

    Args:
        text: the content of a ``tokenizer.json``, the format of the ``tokenizers`` library.

    Raises:
        InputError: if it is not a byte-level BPE, or if the ``tokenizers`` library is not installed.

    >>> tokenizer = BytePairTokenizer.from_text("the cat, the hat, the mat " * 9, size=260)
    >>> len(tokenizer), [tokenizer.symbols[i] for i in tokenizer.encode("the cat")]
    (260, ['the', ' ', 'c', 'at'])
    >>> tokenizer.decode(tokenizer.encode("any text: 🙂"))
    'any text: 🙂'
    """

    kind = "bpe"

    def __init__(self, text):
        library = _library()
        self._text = text
        values = parse_json(text, "the tokenizer")
        try:
            kind = values["model"].get("type", "BPE")
        except (KeyError, TypeError, AttributeError):
            raise InputError("expected a tokenizer with a model, as in tokenizer.json") from None
        if kind != "BPE":
            raise InputError(f"the tokenizer's model is {kind}: expected byte-level BPE")
        try:
            self._tokenizer = library.Tokenizer.from_str(text)
        except Exception as error:  # the library raises Exception itself
            raise InputError(f"the tokenizer cannot be read ({error})") from None
        self._identity = digest_of(values)
        self._splits_at_spaces = _splits_at_spaces(values.get("pre_tokenizer"))
        self._bytes = self._bytes_of_tokens(values)
        self.end_of_text = self._tokenizer.token_to_id(END_OF_TEXT)

    @classmethod
    def from_text(cls, text, size=1024):
        """Train on ``text``: the 256 bytes and at most ``size - 256`` merges.

        Raises:
            InputError: for a size below 257 or a text with a lone surrogate.
        """
        library = _library()
        check_text(text)
        if size < 257:
            raise InputError(
                f"a BPE vocabulary of {size} tokens has no merges: expected at least 257, 256 of which are the bytes"
            )
        tokenizer = _byte_level(library, library.models.BPE())
        trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(_pieces(text, PIECE), trainer)
        return cls(tokenizer.to_str())

    @classmethod
    def from_vocabulary_and_merges(cls, vocabulary, merges):
        """Restore a tokenizer from the texts of GPT-2's ``vocab.json`` and ``merges.txt``.

        Raises:
            InputError: if they do not fit each other.
        """
        library = _library()
        vocabulary = parse_json(vocabulary, "vocab.json")
        lines = [line for line in merges.splitlines() if line and not line.startswith("#version")]
        pairs = [tuple(line.split(" ")) for line in lines]
        if not isinstance(vocabulary, dict):
            raise InputError("vocab.json: expected an object of token and id")
        for pair in pairs:
            if len(pair) != 2 or any(part not in vocabulary for part in (*pair, "".join(pair))):
                raise InputError(
                    f"merges.txt does not fit vocab.json: {' '.join(pair)!r} is not a merge of two of its tokens "
                    f"into a third"
                )
        try:
            model = library.models.BPE(vocab=vocabulary, merges=pairs)
        except Exception as error:  # the library raises Exception itself
            raise InputError(f"vocab.json and merges.txt cannot be used ({error})") from None
        tokenizer = _byte_level(library, model)
        if END_OF_TEXT in vocabulary:
            tokenizer.add_special_tokens([END_OF_TEXT])
        return cls(tokenizer.to_str())

    def _bytes_of_tokens(self, values):
        """The bytes of each token, a list in the order of ids."""
        tokens = self._tokenizer.get_vocab()
        added = {token["content"] for token in values.get("added_tokens") or ()}
        missing = [byte for character, byte in BYTE_OF.items() if character not in tokens]
        if missing:
            raise InputError(
                f"the tokenizer has no token for byte 0x{missing[0]:02x}: expected byte-level BPE"
            )
        if sorted(tokens.values()) != list(range(len(tokens))):
            raise InputError(
                f"the ids of the tokenizer's {len(tokens)} tokens are not 0 .. {len(tokens) - 1}"
            )
        contents = [b""] * len(tokens)
        for token, i in tokens.items():
            try:
                contents[i] = token.encode() if token in added else bytes(BYTE_OF[c] for c in token)
            except KeyError as error:
                raise InputError(
                    f"the tokenizer's token {token!r} contains {error}, which stands for no byte: "
                    f"expected byte-level BPE"
                ) from None
        return contents

    def __len__(self):
        return len(self._bytes)

    def encode(self, text, unknown="error"):
        check_text(text)
        parts = [
            np.array(self._tokenizer.encode(piece, add_special_tokens=False).ids, self.dtype)
            for piece in self.pieces(text)
        ]
        return np.concatenate(parts) if parts else np.empty(0, self.dtype)

    def pieces(self, text):
        # The library uses about 100 bytes of memory for each character of a call.
        return _pieces(text, PIECE) if self._splits_at_spaces else iter([text])

    def token_bytes(self, index):
        return self._bytes[index]

    @property
    def identity(self):
        return self._identity

    def files(self):
        return {"tokenizer.json": self._text}

    def __reduce__(self):
        return type(self), (self._text,)


def _byte_level(library, model):
    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    return tokenizer


def _splits_at_spaces(pre_tokenizer):
    """Whether every space after another character begins a word, as in GPT-2's pattern of words."""
    return (
        isinstance(pre_tokenizer, dict)
        and pre_tokenizer.get("type") == "ByteLevel"
        and pre_tokenizer.get("use_regex", True)
        and not pre_tokenizer.get("add_prefix_space", True)
    )


def _pieces(text, size):
    """Split ``text`` before spaces that follow another character, so that no word is cut.

    >>> list(_pieces("to be or  not", 3))
    ['to be', ' or', '  not']
    """
    start = 0
    while start < len(text):
        end = start + size
        while end < len(text) and not (text[end].isspace() and not text[end - 1].isspace()):
            end += 1
        yield text[start:end]
        start = end


def _library():
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError:
        raise InputError(
            "byte pair encoding needs the tokenizers library: pip install 'tinyattn[tokenizers]'"
        ) from None
    return tokenizers


def _byte_of_characters():
    """The byte that each character of GPT-2's vocabulary file stands for.

    Printable characters of Latin-1 stand for their own code; the other bytes, in their order, for U+0100, U+0101, ...
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + n): byte for n, byte in enumerate(others)
    }


BYTE_OF = _byte_of_characters()
