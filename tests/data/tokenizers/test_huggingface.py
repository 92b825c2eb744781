"""Tokenizers as files for transformers: the tokenizers library reads them, and encodes as the original."""

import json

import numpy as np
import pytest

from tinyattn.data import BytePairTokenizer, ByteTokenizer, CharVocabulary, InputError
from tinyattn.data.tokenizers import huggingface_files, load_tokenizer, parse_tokenizer

library = pytest.importorskip("tokenizers")

TEXT = "the cat\r\n\tsat  on\nthe mat — 東京, né\u0301e 🙂 <|x|>"
TOKENIZERS = {
    "characters": lambda: CharVocabulary.from_text(TEXT),
    "bytes": ByteTokenizer,
    "bpe": lambda: BytePairTokenizer.from_text(TEXT * 3, size=270),
}


@pytest.fixture(params=TOKENIZERS.values(), ids=TOKENIZERS)
def tokenizer(request):
    return request.param()


def test_the_library_encodes_and_decodes_as_the_original(tokenizer):
    theirs = library.Tokenizer.from_str(huggingface_files(tokenizer)["tokenizer.json"])
    assert theirs.get_vocab_size() == len(tokenizer)
    for text in (TEXT, "", "t", "\n\n  ", TEXT[::-1]):
        ids = tokenizer.encode(text).tolist()
        assert theirs.encode(text).ids == ids
        assert theirs.decode(ids) == text


def test_what_is_written_is_read_again(tokenizer, tmp_path):
    for name, text in huggingface_files(tokenizer).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    again = load_tokenizer(tmp_path)
    np.testing.assert_array_equal(again.encode(TEXT), tokenizer.encode(TEXT))
    assert again.symbols == tokenizer.symbols
    assert tokenizer.kind == "bytes" or again == tokenizer


def test_an_unknown_character_is_an_error_in_the_library_too():
    files = huggingface_files(CharVocabulary("ab"))
    with pytest.raises(Exception, match="UNK"):
        library.Tokenizer.from_str(files["tokenizer.json"]).encode("abc")


@pytest.mark.parametrize("vocabulary", [{"ab": 0}, {"a": 1}, {"a": "x"}, ["a"], None])
def test_words_of_several_characters_are_refused(vocabulary):
    values = json.loads(huggingface_files(CharVocabulary("ab"))["tokenizer.json"])
    values["model"]["vocab"] = vocabulary
    with pytest.raises(InputError):
        parse_tokenizer(json.dumps(values))


def test_words_that_are_split_at_spaces_are_refused():
    values = json.loads(huggingface_files(CharVocabulary("ab"))["tokenizer.json"])
    values["pre_tokenizer"] = {"type": "Whitespace"}
    with pytest.raises(InputError, match="expected byte-level BPE, or single characters"):
        parse_tokenizer(json.dumps(values))
