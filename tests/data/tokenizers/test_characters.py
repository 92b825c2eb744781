"""A character has the same id in every process, and unknown characters are listed."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tinyattn.data import CharVocabulary, InputError


@pytest.mark.parametrize("seed", ["1", "2"])
def test_order_does_not_depend_on_the_hash_seed(seed):
    program = (
        "from tinyattn.data import CharVocabulary;"
        "print(''.join(CharVocabulary.from_text('the quick brown fox').characters))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == " bcefhiknoqrtuwx\n"


def test_every_unknown_character_is_listed_with_its_first_position():
    with pytest.raises(InputError, match=r"'d' \(position 2\), 'é' \(position 4\)"):
        CharVocabulary("abc").encode("abdaéd")


def test_unknown_characters_can_be_skipped():
    assert CharVocabulary("abc").encode("adbé", unknown="skip").tolist() == [0, 1]


def test_the_vocabulary_is_shown_legibly_next_to_a_line_break():
    with pytest.raises(InputError, match=r"the vocabulary is '\\n\\u200d注'"):
        CharVocabulary("\n\u200d注").encode("x")


def test_a_lone_surrogate_is_named_without_breaking_the_message():
    with pytest.raises(InputError) as caught:
        CharVocabulary("abc").encode("\udc9d")
    assert r"'\udc9d' (position 0)" in str(caught.value)
    str(caught.value).encode("utf-8")


@pytest.mark.parametrize("size, dtype", [(256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")])
def test_ids_fit_their_dtype(size, dtype):
    vocabulary = CharVocabulary(map(chr, range(size)))
    last = vocabulary.encode(chr(size - 1))
    assert last.dtype == np.dtype(dtype)
    assert last.tolist() == [size - 1]


def test_characters_are_code_points():
    for text, length in [("\U0001f600", 1), ("e\u0301", 2), ("👨‍👩‍👧", 5)]:
        vocabulary = CharVocabulary.from_text(text)
        assert len(vocabulary.encode(text)) == length
        assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("text", [b"ab", ["a"], 5])
def test_encoding_another_type_than_a_string_raises(text):
    with pytest.raises(TypeError, match=r"encodes a string, got (bytes|list|int)"):
        CharVocabulary("ab").encode(text)


@pytest.mark.parametrize("ids", [[0.9], "01", np.zeros((1, 2), int)])
def test_decoding_numbers_that_are_not_integers_raises(ids):
    with pytest.raises(TypeError):
        CharVocabulary("ab").decode(ids)


def test_an_empty_vocabulary_is_refused():
    with pytest.raises(InputError, match="at least one character"):
        CharVocabulary.from_text("")


def test_from_json_restores_the_vocabulary():
    vocabulary = CharVocabulary.from_text('a"\\\n\U0001f600\ufeff')
    assert CharVocabulary.from_json(vocabulary.to_json()) == vocabulary


@pytest.mark.parametrize("text", ["", "[]", '{"characters": 3}', '{"characters": ["ab"]}'])
def test_json_of_something_else_is_refused(text):
    with pytest.raises(InputError):
        CharVocabulary.from_json(text)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_id_outside_is_an_error_and_never_counts_from_the_end(wrong):
    with pytest.raises(IndexError, match=f"id {wrong} "):
        CharVocabulary("abc").decode([0, wrong])
