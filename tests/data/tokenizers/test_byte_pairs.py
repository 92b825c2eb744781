"""Byte pair encoding gives the ids of the ``tokenizers`` library, and reads only what it understands."""

import json
import subprocess
import sys

import pytest

tokenizers = pytest.importorskip("tokenizers")

from tinyattn.data import BytePairTokenizer, InputError, load_tokenizer  # noqa: E402
from tinyattn.data.tokenizers import byte_pairs  # noqa: E402

TEXT = (
    "def attend(query, key):\n    return softmax(query @ key.T)\n\nthe cat, the hat — 注意力 🙂\n"
    * 8
)


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairTokenizer.from_text(TEXT, 300)


@pytest.fixture(scope="module")
def library(tokenizer):
    """The same tokenizer in the library alone."""
    return tokenizers.Tokenizer.from_str(tokenizer.files()["tokenizer.json"])


def generated_texts(random, count):
    """Texts of words, code, emoji, CJK, long runs of spaces, and arbitrary code points."""
    pieces = [
        *"the cat the hat attend query key softmax".split(),
        *[
            "def f(x):\n\treturn x",
            "x += 1;",
            "'s",
            "don't",
            "1234567",
            "\r\n",
            "\n\n\n",
            " " * 40,
            "\t\t",
        ],
        *[
            "注意力",
            "機械学習",
            "🙂",
            "👩\u200d👧",
            "é",
            "e\u0301",
            "\u00a0",
            "\u2028",
            "\x00",
            "<|endoftext|>",
        ],
    ]
    for _ in range(count):
        chosen = [pieces[i] for i in random.integers(len(pieces), size=random.integers(1, 12))]
        points = random.integers(1, 0xD800, size=3)
        chosen += [chr(point) for point in points] + [chr(random.integers(0x10000, 0x110000))]
        random.shuffle(chosen)
        yield random.choice(["", " ", "\n"]).join(chosen)


def test_the_ids_of_1000_texts_are_those_of_the_library(tokenizer, library, random):
    for text in generated_texts(random, 1000):
        ids = tokenizer.encode(text)
        assert ids.tolist() == library.encode(text).ids
        assert tokenizer.decode(ids) == text


def test_encoding_in_pieces_gives_the_same_ids(tokenizer, library, random, monkeypatch):
    monkeypatch.setattr(byte_pairs, "PIECE", 7)
    for text in generated_texts(random, 100):
        assert tokenizer.encode(text).tolist() == library.encode(text).ids


def test_training_gives_the_same_merges_in_another_process(tokenizer):
    program = (
        "import sys; from tinyattn.data import BytePairTokenizer;"
        "print(BytePairTokenizer.from_text(sys.stdin.buffer.read().decode(), 300).identity)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], input=TEXT.encode(), capture_output=True, check=True
    )
    assert result.stdout.decode().strip() == tokenizer.identity


def test_a_vocabulary_is_at_most_as_large_as_asked(tokenizer):
    assert len(tokenizer) == 300
    assert len(BytePairTokenizer.from_text("ab", 1000)) < 260
    with pytest.raises(InputError, match=r"256 tokens has no merges.*at least 257"):
        BytePairTokenizer.from_text(TEXT, 256)


@pytest.fixture
def gpt2_files(tokenizer, tmp_path):
    """The tokenizer as vocab.json and merges.txt, with an end-of-text token as GPT-2 has."""
    model = json.loads(tokenizer.files()["tokenizer.json"])["model"]
    vocabulary = {**model["vocab"], "<|endoftext|>": len(tokenizer)}
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (tmp_path / "merges.txt").write_text(
        "\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8"
    )
    return tmp_path


def test_vocabulary_and_merges_give_the_same_ids_and_an_end_of_text(tokenizer, gpt2_files):
    loaded = load_tokenizer(gpt2_files)
    assert loaded.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()
    assert loaded.end_of_text == len(tokenizer)
    assert loaded.encode("a<|endoftext|>").tolist()[-1] == loaded.end_of_text
    assert loaded.encode(loaded.start).tolist() == [loaded.end_of_text]
    assert loaded.symbols[-1] == "<|endoftext|>"


def test_merges_of_other_tokens_are_refused(gpt2_files):
    with open(gpt2_files / "merges.txt", "a", encoding="utf-8") as file:
        file.write("qq zz\n")
    with pytest.raises(InputError, match=r"merges.txt does not fit vocab.json: 'qq zz'"):
        load_tokenizer(gpt2_files)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda values: values["model"].update(type="Unigram"),
            "model is Unigram: expected byte-level BPE",
        ),
        (lambda values: values.pop("model"), 'form {"characters"'),
        (lambda values: values["model"]["vocab"].pop("Ġ"), "no token for byte 0x20"),
        (lambda values: values["model"]["vocab"].update(Ġ=999), "are not 0 .. 299"),
        (lambda values: values["model"].update(vocab=3), "cannot be read"),
    ],
)
def test_another_tokenizer_is_refused(tokenizer, tmp_path, change, message):
    values = json.loads(tokenizer.files()["tokenizer.json"])
    values["model"]["merges"] = []
    change(values)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_tokenizer(tmp_path)
    assert str(caught.value).startswith(str(path)) and message in str(caught.value)


def test_a_token_of_characters_that_are_no_bytes_is_refused(tokenizer):
    values = json.loads(tokenizer.files()["tokenizer.json"])
    values["model"]["vocab"]["▁the"] = len(tokenizer)
    with pytest.raises(InputError, match="'▁the' contains '▁', which stands for no byte"):
        BytePairTokenizer(json.dumps(values))


def test_without_the_library_it_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"pip install 'tinyattn\[tokenizers\]'"):
        BytePairTokenizer.from_text(TEXT)


def test_the_characters_that_stand_for_bytes_are_those_of_the_library():
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    assert sorted(byte_pairs.BYTE_OF) == sorted(alphabet)
    assert sorted(byte_pairs.BYTE_OF.values()) == list(range(256))
    for byte in range(0x80):
        [(word, _)] = tokenizers.pre_tokenizers.ByteLevel(
            add_prefix_space=False, use_regex=False
        ).pre_tokenize_str(chr(byte))
        assert byte_pairs.BYTE_OF[word] == byte
