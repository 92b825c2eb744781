"""``tinyattn export``."""

import json

import numpy as np
import pytest

from tinyattn.models import GPT
from tinyattn.train import load_run

from .conftest import TINY


@pytest.fixture(scope="session")
def gpt2_shaped(tmp_path_factory, text_file):
    """Directory of a tiny run whose model GPT-2 can express."""
    from tinyattn.cli import main

    path = tmp_path_factory.mktemp("runs") / "shaped"
    words = ["train", "--preset", "gpt2-shaped", "--data", str(text_file), "--out", str(path)]
    assert main([*words, "--steps", "5", *TINY]) == 0
    return path


def test_the_exported_model_and_tokenizer_are_those_of_the_run(call, gpt2_shaped):
    answer = call("export", gpt2_shaped, "--out", "out")
    assert answer.status == 0 and "30 characters" in answer.output, answer
    model, run = GPT.from_pretrained("out"), load_run(gpt2_shaped)
    ids = [run.vocabulary.encode("the fox")]
    np.testing.assert_array_equal(model(ids).numpy(), run.model(ids).numpy())


def test_the_folder_is_named_after_the_run_by_default(call, gpt2_shaped):
    assert call("export", gpt2_shaped).status == 0
    assert (gpt2_shaped.parent / "shaped-hf" / "tokenizer.json").exists()


def test_transformers_loads_it_and_writes_the_same_text(call, gpt2_shaped):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    call("export", gpt2_shaped, "--out", "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained("out")
    model = transformers.AutoModelForCausalLM.from_pretrained("out")
    run = load_run(gpt2_shaped)
    ids = tokenizer("the fox", return_tensors="pt").input_ids
    with torch.no_grad():
        np.testing.assert_allclose(
            model(ids).logits.numpy(), run.model(ids.numpy()).numpy(), atol=1e-5
        )
    assert tokenizer.decode(ids[0]) == "the fox"


def test_what_gpt2_cannot_express_is_refused_before_anything_is_written(refuse, trained, tmp_path):
    message = refuse("export", trained, "--out", "out")
    assert "positions learned instead of rotary" in message
    assert "qk_norm False instead of True" in message
    assert "--preset gpt2-shaped" in message
    assert not (tmp_path / "out").exists()


def test_another_kind_of_model_is_refused(call, refuse, text_file):
    call("train", "--model", "rnn", "--data", text_file, "--out", "r", "--steps", 1, *TINY)
    assert "a model of the kind rnn" in refuse("export", "r")


def test_a_folder_with_files_is_not_overwritten(refuse, gpt2_shaped):
    config = (gpt2_shaped / "config.json").read_text()
    assert "is not an empty folder" in refuse("export", gpt2_shaped, "--out", gpt2_shaped)
    assert json.loads((gpt2_shaped / "config.json").read_text()) == json.loads(config)


def test_a_folder_that_is_no_run_is_one_sentence(refuse):
    assert "nowhere" in refuse("export", "nowhere")
