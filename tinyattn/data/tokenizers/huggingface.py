"""A tokenizer as the files that ``transformers`` reads: ``tokenizer.json`` and ``tokenizer_config.json``.

Every tokenizer has an exact equivalent there: a byte-level BPE is stored as it is; bytes are a byte-level BPE without
merges; characters are a word-level vocabulary whose words are single characters.
"""

import json

from ..errors import InputError
from .byte_pairs import BYTE_OF, BytePairTokenizer
from .bytes import ByteTokenizer
from .characters import CharVocabulary
from .tokenizer import check_text

_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}


def huggingface_files(tokenizer):
    """The files of ``tokenizer`` for ``transformers``: a dict of name to text.

    Raises:
        InputError: for a kind of tokenizer that has no equivalent, or a character that has no UTF-8.

    >>> sorted(huggingface_files(CharVocabulary("ab")))
    ['tokenizer.json', 'tokenizer_config.json']
    """
    if isinstance(tokenizer, BytePairTokenizer):
        text = tokenizer.files()["tokenizer.json"]
    elif isinstance(tokenizer, ByteTokenizer):
        text = json.dumps(_bytes_as_byte_pairs(), indent=1)
    elif isinstance(tokenizer, CharVocabulary):
        text = json.dumps(_characters_as_words(tokenizer), indent=1)
    else:
        raise InputError(f"transformers has no equivalent of a {type(tokenizer).__name__}")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,  # decode exactly what was encoded
    }
    if tokenizer.end_of_text is not None:
        settings["eos_token"] = tokenizer.token_bytes(tokenizer.end_of_text).decode()
    return {
        "tokenizer.json": text,
        "tokenizer_config.json": json.dumps(settings, indent=2) + "\n",
    }


def _bytes_as_byte_pairs():
    model = {"type": "BPE", "vocab": BYTE_OF, "merges": []}
    return _tokenizer(model, _BYTE_LEVEL, _BYTE_LEVEL)


def _characters_as_words(vocabulary):
    check_text("".join(vocabulary.characters))
    words = {character: i for i, character in enumerate(vocabulary.characters)}
    # An unknown character is an error: the token for unknown words is none of them.
    model = {"type": "WordLevel", "vocab": words, "unk_token": "<unknown>"}
    every_character = {
        "type": "Split",
        "pattern": {"Regex": r"[\s\S]"},
        "behavior": "Isolated",
        "invert": False,
    }
    return _tokenizer(model, every_character, {"type": "Fuse"})


def _tokenizer(model, pre_tokenizer, decoder):
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }


def is_word_level(values):
    """Whether the content of a ``tokenizer.json`` is a word-level vocabulary."""
    model = values.get("model") if isinstance(values, dict) else None
    return isinstance(model, dict) and model.get("type") == "WordLevel"


def characters_of_words(values):
    """The inverse for characters: the ``CharVocabulary`` in the content of a word-level ``tokenizer.json``.

    Raises:
        InputError: if its words are not single characters with the ids 0, 1, 2, ...

    >>> text = huggingface_files(CharVocabulary("ab"))["tokenizer.json"]
    >>> characters_of_words(json.loads(text)).characters
    ('a', 'b')
    """
    vocabulary = values["model"].get("vocab")
    try:
        characters = sorted(vocabulary, key=vocabulary.get)
        in_order = [vocabulary[c] for c in characters] == list(range(len(characters)))
    except (TypeError, AttributeError):
        in_order = False
    expected = in_order and _characters_as_words(CharVocabulary(characters))
    if not in_order or values.get("pre_tokenizer") != expected["pre_tokenizer"]:
        raise InputError(
            "the tokenizer's model is WordLevel: expected byte-level BPE, or single characters with the ids "
            "0, 1, 2, ..."
        )
    return CharVocabulary(characters)
