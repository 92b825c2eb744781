"""Every tokenizer restores the text, counts its characters, decodes as a stream and refuses what is no text."""

import copy
import pickle

import numpy as np
import pytest

from tinyattn.data import TOKENIZERS, InputError, load_tokenizer

TEXT = (
    "the cat sat on the mat;\n\n  naïve café — 注意力 \U0001f642\U0001f469\u200d\U0001f467\tend\r\n"
    * 3
)


@pytest.fixture(params=TOKENIZERS, scope="module")
def tokenizer(request):
    if request.param == "bpe":
        pytest.importorskip("tokenizers")
        return TOKENIZERS["bpe"].from_text(TEXT, 300)
    return TOKENIZERS[request.param].from_text(TEXT)


def test_decoding_restores_the_text(tokenizer):
    ids = tokenizer.encode(TEXT)
    assert ids.dtype == tokenizer.dtype and ids.max() < len(tokenizer)
    assert tokenizer.decode(ids) == TEXT


def test_an_empty_text_has_no_ids(tokenizer):
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.decode([]) == ""


def test_a_stream_restores_the_text_and_never_splits_a_character(tokenizer):
    parts = list(tokenizer.stream(iter(tokenizer.encode(TEXT))))
    assert "".join(parts) == TEXT
    assert "\ufffd" not in parts


def test_the_characters_of_the_tokens_add_up_to_those_of_the_text(tokenizer):
    assert tokenizer.characters_per_token[tokenizer.encode(TEXT)].sum() == len(TEXT)


def test_symbols_are_text_where_the_token_is_text(tokenizer):
    assert len(tokenizer.symbols) == len(tokenizer)
    for i in tokenizer.encode(TEXT):
        symbol = tokenizer.symbols[i]
        assert symbol.encode() == tokenizer.token_bytes(i) or symbol.startswith("\\x")


def test_the_files_restore_the_tokenizer(tokenizer, tmp_path):
    for name, text in tokenizer.files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    restored = load_tokenizer(tmp_path)
    assert restored == tokenizer and restored.identity == tokenizer.identity
    assert restored.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()


def test_tokenizers_that_differ_have_different_identities(tokenizer):
    others = [kind.from_text(TEXT + "x" * 500 + "q!", 299) for kind in TOKENIZERS.values()]
    same = [other for other in others if other == tokenizer]
    assert len(same) == (tokenizer.kind == "bytes")  # bytes are the same for every text


def test_a_copy_is_equal(tokenizer):
    assert copy.deepcopy(tokenizer) == tokenizer
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer


def test_a_start_has_ids(tokenizer):
    assert len(tokenizer.encode(tokenizer.start)) == 1


@pytest.mark.parametrize("text", [b"ab", ["a"], 5])
def test_encoding_another_type_than_a_string_raises(tokenizer, text):
    with pytest.raises(TypeError, match=r"encodes a string, got (bytes|list|int)"):
        tokenizer.encode(text)


def test_a_lone_surrogate_is_refused(tokenizer):
    with pytest.raises(InputError) as caught:
        tokenizer.encode("the \udc9d")
    assert "'\\udc9d'" in str(caught.value) and "position" in str(caught.value)


@pytest.mark.parametrize(
    "ids, error", [([0.9], TypeError), ([-1], IndexError), ([10**6], IndexError)]
)
def test_decoding_what_is_no_id_raises(tokenizer, ids, error):
    with pytest.raises(error):
        tokenizer.decode(ids)


def test_incomplete_characters_become_replacement_characters(tokenizer):
    if tokenizer.kind != "characters":
        first = int(
            np.flatnonzero([tokenizer.token_bytes(i) == b"\xc3" for i in range(len(tokenizer))])[0]
        )
        assert tokenizer.decode([first]) == "\ufffd"
        assert tokenizer.symbols[first] == "\\xc3"
