"""A long text is encoded once; its file is mapped afterwards, and written again if it is not what was written."""

import concurrent.futures
import multiprocessing
import os
import time
import warnings

import numpy as np
import pytest

from tinyattn.data import TOKENIZERS, InputWarning, TextDataset, dataset
from tinyattn.data.dataset import make_tokenizer
from tinyattn.data.tokenizers import byte_pairs, tokenizer

TEXT = "the naïve cat 注意 sat on the mat; 🙂 the end.\n" * 40


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache directory; a text of 1000 characters is long, and is encoded in pieces of 100."""
    monkeypatch.setenv("TINYATTN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(dataset, "LONG", 1000)
    for module in (byte_pairs, tokenizer):
        monkeypatch.setattr(module, "PIECE", 100)
    return tmp_path / "cache"


def load(kind="bytes", watch=None, text=TEXT):
    size = 300 if kind == "bpe" else None
    return TextDataset(text, 8, make_tokenizer(text, kind, size), keep=True, watch=watch)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_ids_of_the_file_are_those_of_the_tokenizer(folder, kind):
    if kind == "bpe":
        pytest.importorskip("tokenizers")
    progress = []
    for _ in range(2):
        found = load(kind, lambda *numbers: progress.append(numbers))
        cut = int(0.9 * len(TEXT))
        np.testing.assert_array_equal(found.train, found.vocabulary.encode(TEXT[:cut]))
        np.testing.assert_array_equal(found.validation, found.vocabulary.encode(TEXT[cut:]))
        assert found.train.dtype == found.vocabulary.dtype and not found.train.flags.writeable
    # The second time nothing is encoded.
    assert [done for done, _ in progress] == sorted({done for done, _ in progress})
    assert progress[-1] == (len(TEXT), len(TEXT)) and len(list(folder.iterdir())) == 1


def test_another_text_or_tokenizer_has_another_file(folder):
    for arguments in ({}, {"kind": "characters"}, {"text": TEXT + "."}):
        load(**arguments)
    assert len(list(folder.iterdir())) == 3


def truncate(content):
    return content[:-1]


def change_an_id(content):
    return bytes([content[0] ^ 1]) + content[1:]


def move_the_border(content):
    a, b = b'"lengths": [1', b'"lengths": [2'
    assert a in content
    return content.replace(a, b)


def remove_the_digest(content):
    return content.replace(b'"sha256"', b'"sha265"')


def empty(content):
    return b""


def replace(content):
    return b"\xff" * len(content)


@pytest.mark.parametrize(
    "damage", [truncate, change_an_id, move_the_border, remove_the_digest, empty, replace]
)
def test_a_damaged_file_is_written_again_with_one_notice(folder, damage):
    expected = load().train.tolist()
    (path,) = folder.iterdir()
    content = path.read_bytes()
    path.write_bytes(damage(content))
    with pytest.warns(
        InputWarning, match=r"\.ids is damaged \(.*\): the text is encoded again"
    ) as seen:
        assert load().train.tolist() == expected
    assert len(seen) == 1
    assert path.read_bytes() == content


def test_the_file_of_another_text_is_not_used(folder):
    load()
    (path,) = folder.iterdir()
    other = TEXT[::-1]
    load(text=other)
    (second,) = set(folder.iterdir()) - {path}
    path.replace(second)
    with pytest.warns(InputWarning, match="it is of another text"):
        found = load(text=other)
    assert bytes(found.train) + bytes(found.validation) == other.encode()


def test_without_a_cache_directory_the_ids_are_in_memory(folder):
    folder.write_text("a file")
    with pytest.warns(
        InputWarning, match="cannot be kept for the next time.*TINYATTN_CACHE"
    ) as seen:
        found = load()
    assert len(seen) == 1
    assert bytes(found.train) + bytes(found.validation) == TEXT.encode()


def test_a_short_text_has_no_file(folder):
    load(text=TEXT[:900])
    TextDataset(TEXT, 8)
    assert not folder.exists()


def load_in_process(number):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load().train.tolist()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_processes_that_encode_at_once_have_the_same_ids(folder):
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(4, context) as pool:
        results = list(pool.map(load_in_process, range(8)))
    assert all(ids == results[0] for ids in results)
    assert [path.suffix for path in folder.iterdir()] == [".ids"]


def test_temporary_files_of_killed_processes_are_removed_after_a_day(folder):
    folder.mkdir()
    old, new, other = (folder / name for name in (".a.ids.1.new", ".b.ids.2.new", ".c.txt.3.new"))
    for path, age in ((old, 90_000), (new, 80_000), (other, 90_000)):
        path.write_bytes(b"")
        os.utime(path, (time.time() - age,) * 2)
    load()
    assert not old.exists() and new.exists() and other.exists()


def test_a_stopped_encoding_leaves_no_file(folder):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(watch=stop)
    assert list(folder.iterdir()) == []
