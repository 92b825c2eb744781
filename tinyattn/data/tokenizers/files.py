"""The files of tokenizers, in a run or in a folder of a pretrained model."""

from pathlib import Path

from ..errors import InputError
from ..json_text import parse_json
from ..paths import readable_file
from .byte_pairs import BytePairTokenizer
from .bytes import ByteTokenizer
from .characters import CharVocabulary
from .huggingface import characters_of_words, is_word_level

# In the order in which a folder is searched.
NAMES = ("tokenizer.json", "vocab.json")


def load_tokenizer(folder):
    """Load the tokenizer in ``folder``, of a run or of a pretrained GPT-2.

    ``tokenizer.json``, or ``vocab.json`` with ``merges.txt``, is a byte-level BPE; ``vocab.json`` alone is what
    ``tinyattn train`` writes. A ``tokenizer.json`` of characters is what ``tinyattn export`` writes.

    Raises:
        InputError: if there is none, or if it cannot be read; the message names the file.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "vocab.json").write_text(CharVocabulary("abc").to_json())
    >>> load_tokenizer(folder).encode("cab").tolist()
    [2, 0, 1]
    """
    folder = Path(folder)
    found = [folder / name for name in NAMES if (folder / name).is_file()]
    if not found:
        raise InputError(
            f"{folder} has no tokenizer: expected tokenizer.json, or vocab.json with merges.txt"
        )
    merges = folder / "merges.txt"
    if found[0].name == "vocab.json" and merges.is_file():
        texts = _read(found[0]), _read(merges)
        return _named(folder, BytePairTokenizer.from_vocabulary_and_merges, *texts)
    return _named(found[0], parse_tokenizer, _read(found[0]))


def parse_tokenizer(text):
    """Restore a tokenizer from the text of one of its ``files``.

    >>> parse_tokenizer('{"tokenizer": "bytes"}').kind
    'bytes'
    """
    values = parse_json(text, "the tokenizer")
    if is_word_level(values):
        return characters_of_words(values)
    if isinstance(values, dict) and "model" in values:
        return BytePairTokenizer(text)
    if isinstance(values, dict) and values.get("tokenizer") == ByteTokenizer.kind:
        return ByteTokenizer()
    return CharVocabulary.from_json(text)


def _read(path):
    try:
        return readable_file(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _named(path, function, *arguments):
    try:
        return function(*arguments)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
