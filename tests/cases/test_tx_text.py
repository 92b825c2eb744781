"""Hard cases TX: text keeps every character through ids and windows, and input that is not text raises."""

import io
import sys

import numpy as np
import pytest

from tinyattn.backend import Random
from tinyattn.cli import main
from tinyattn.data import Batches, CharVocabulary, InputError, TextDataset, read_text


@pytest.fixture
def text_of(tmp_path):
    """``text_of(content)``: what ``read_text`` makes of a file with these bytes."""

    def read(content):
        path = tmp_path / "text"
        path.write_bytes(content)
        return read_text(path)

    return read


def test_TX_01_a_text_shorter_than_a_block_is_an_error_with_both_numbers():
    with pytest.raises(ValueError, match=r"10 tokens .* blocks of 16"):
        Batches(np.arange(10), 16, 4, Random(0))


@pytest.mark.parametrize(("length", "starts"), [(8, {0, 1, 2, 3}), (5, {0})])
def test_TX_02_every_window_can_be_drawn_and_no_other(length, starts):
    batches = Batches(np.arange(length), 4, 300, Random(0))
    inputs, targets = batches.draw()
    assert set(inputs[:, 0].tolist()) == starts
    last = inputs[:, 0].argmax()
    assert inputs[last].tolist() == list(range(max(starts), max(starts) + 4))
    assert targets[last].tolist() == list(range(max(starts) + 1, max(starts) + 5))


def test_TX_04_a_validation_part_that_is_too_short_is_found_before_training():
    with pytest.raises(InputError, match=r"10 for validation.*17"):
        TextDataset("abcdefghij" * 10, block_size=16)


def test_TX_05_a_character_that_is_not_known_is_named_with_its_position():
    with pytest.raises(InputError, match=r"'d' \(position 2\)"):
        CharVocabulary("abc").encode("abd")


def test_TX_07_a_byte_order_mark_is_no_character_at_the_beginning(text_of):
    assert CharVocabulary.from_text(text_of(b"\xef\xbb\xbfab")).characters == ("a", "b")
    assert text_of(b"a\xef\xbb\xbfb") == "a\ufeffb"


def test_TX_08_line_ends_are_kept_on_every_system(text_of):
    text = text_of(b"a\r\nb")
    vocabulary = CharVocabulary.from_text(text)
    assert set(vocabulary.characters) == {"\r", "\n", "a", "b"}
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_TX_10_emoji_and_surrogates_are_kept_and_escaped_where_a_terminal_cannot_show_them(
    tmp_path, monkeypatch
):
    with pytest.raises(InputError) as error:
        CharVocabulary("abc").encode("\udc9d")
    assert r"\udc9d" in str(error.value)
    str(error.value).encode("ascii")
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    for text, length in (("\U0001f600", 1), ("e\u0301", 2), (family, 5)):
        assert len(CharVocabulary.from_text(text).encode(text)) == length

    corpus = tmp_path / "text.txt"
    corpus.write_text(f"\U0001f600{family}e\u0301 " * 100, encoding="utf-8")
    words = "--layers 1 --heads 1 --dim 4 --block-size 4 --steps 1 --sample-length 20".split()
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["train", "--data", str(corpus), "--out", str(tmp_path / "run"), *words]) == 0
    assert main(["sample", str(tmp_path / "run"), "--prompt", "\U0001f600", "--length", "20"]) == 0
    terminal.flush()
    assert b"\\U0001f600" in terminal.buffer.getvalue()


def test_TX_11_an_empty_text_is_an_error_and_an_empty_prompt_starts_the_text(text_of):
    for content in (b"", b" \n\t \n"):
        with pytest.raises(InputError, match="give a file with text"):
            text_of(content)
    assert CharVocabulary.from_text("ab\n").start == "\n"
    assert CharVocabulary.from_text("ab").start == "a"
    assert CharVocabulary("ab").encode("").shape == (0,)


@pytest.mark.parametrize(("size", "dtype"), [(65536, "uint16"), (65537, "uint32"), (301, "uint16")])
def test_TX_13_ids_are_kept_exactly(size, dtype):
    vocabulary = CharVocabulary(map(chr, range(size)))
    ids = vocabulary.encode(chr(size - 1) + chr(0))
    assert ids.dtype == dtype
    assert ids.tolist() == [size - 1, 0]
