"""The commands on the folder of a GPT-2: sample, explore, train --from; a bad folder is one sentence."""

import json
import pickle
import shutil
import signal

import pytest

import tinyattn as ta
from tinyattn.data import BytePairTokenizer
from tinyattn.data.tokenizers import huggingface_files
from tinyattn.models import GPT, GPTConfig
from tinyattn.train import begin, make_config

from .conftest import TEXT, command


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    """A folder with a small GPT-2 of byte pairs; read-only."""
    pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("pretrained") / "gpt2"
    tokenizer = BytePairTokenizer.from_text(TEXT, size=280)
    ta.manual_seed(0)
    config = GPTConfig.gpt2(vocabulary_size=280, block_size=16, layers=2, heads=2, dim=16)
    GPT(config).save_pretrained(path)
    for name, text in huggingface_files(tokenizer).items():
        (path / name).write_text(text)
    return path


@pytest.fixture
def folder(gpt2, tmp_path):
    """A copy of that folder, to be damaged."""
    return shutil.copytree(gpt2, tmp_path / "gpt2")


def test_a_folder_is_sampled(call, gpt2):
    words = ["sample", gpt2, "--prompt", "the dog", "--seed", 1, "--length"]
    answer = call(*words, 5)
    assert answer.status == 0 and answer.output.startswith("the dog") and answer.error == ""
    assert call(*words, 40).status == 0, "beyond the context of 16 tokens"


def test_text_ends_at_gpt2s_end_of_text_token(call, folder):
    values = json.loads((folder / "tokenizer.json").read_text())["model"]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in values["merges"]]
    (folder / "tokenizer.json").unlink()
    vocabulary = {**values["vocab"], "<|endoftext|>": 280}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    model = GPT(GPTConfig.gpt2(vocabulary_size=281, block_size=16, layers=1, heads=1, dim=4))
    model.norm.weight.data[...] = 0  # the logits are the embedding times the bias
    model.norm.bias.data[...] = 1
    model.embedding.weight.data[280] = 9
    model.save_pretrained(folder)
    assert call("sample", folder, "--prompt", "the dog", "--length", 9).output == "the dog\n"
    assert call("sample", folder, "--length", 9).output == "\n"


def test_a_text_beyond_a_long_context_is_announced_in_a_sentence(call, folder):
    config = json.loads((folder / "config.json").read_text())
    config["n_positions"] = 300
    model = GPT(GPTConfig.gpt2(vocabulary_size=280, block_size=300, layers=1, heads=1, dim=4))
    model.save_pretrained(folder)
    answer = call("sample", folder, "--length", 299, "--prompt", "the ", "--seed", 0)
    assert answer.status == 0 and answer.error.count("\n") == 1
    assert "the context has 300 tokens" in answer.error and "the last 151 to 300" in answer.error
    assert call("sample", folder, "--length", 290, "--prompt", "the ").error == ""
    assert call("sample", folder, "--length", 299, "--prompt", "the ", "--slide", 300).error == ""


def test_a_folder_is_explored(call, refuse, gpt2):
    answer = call("explore", gpt2, "--text", "the quick dog", "-o", "page.html")
    assert answer.status == 0 and "2 layers of 2 heads" in answer.output
    assert "give one" in refuse("explore", gpt2)


def test_a_run_is_finetuned_from_a_folder_and_sampled(call, gpt2, text_file):
    words = ["--data", text_file, "--steps", 4, "--workers", 1, "--out", "run"]
    answer = call("train", "--from", gpt2, *words, "--sample-length", 5)
    assert answer.status == 0 and f"from   {gpt2}" in answer.output
    assert call("sample", "run", "--length", 5).status == 0
    assert call("train", "--resume", "run", "--steps", 6).status == 0
    assert call("train", "--from", "run", *words[:-1], "again").status == 0


def test_a_run_killed_before_its_first_state_starts_again_from_the_folder(call, gpt2, text_file):
    options = {"from_": str(gpt2), "data": str(text_file), "steps": 2, "workers": 1}
    begin(make_config(options, sample_every=0), "run").run.unlock()
    answer = call("train", "--config", "run/config.json", "--out", "run")
    assert answer.status == 0 and f"from   {gpt2}" in answer.output


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is POSIX")
def test_a_killed_run_is_loaded_and_resumed_without_the_folder(call, folder, text_file, tmp_path):
    words = ["--steps", 100_000, "--evaluate-every", 1, "--sample-every", 0, "--workers", 1]
    process = command(
        "train", "--from", folder, "--data", text_file, "--out", "run", *words, cwd=tmp_path
    )
    for _ in range(3):
        while b"validation " not in process.stdout.readline():
            assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    shutil.rmtree(folder)
    assert call("sample", "run", "--length", 5).status == 0
    assert call("train", "--resume", "run", "--stop-after", 1).status == 0


def damage_index(folder):
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))


def damage_pickle(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))


def damage_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def damage_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def damage_merges(folder):
    values = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(values["vocab"]))
    (folder / "merges.txt").write_text("#version: 0.2\nq q\n")


BAD = {
    "a missing shard": (damage_index, "model-2.safetensors is missing"),
    "a pickle": (damage_pickle, "pytorch_model.bin, which is not read"),
    "another shape": (lambda f: damage_config(f, n_positions=15), "wpe.weight has shape (16, 16)"),
    "another architecture": (lambda f: damage_config(f, model_type="opt"), "model_type 'opt'"),
    "another activation": (
        lambda f: damage_config(f, activation_function="mish"),
        "activation_function 'mish'",
    ),
    "another computation": (
        lambda f: damage_config(f, scale_attn_by_inverse_layer_idx=True),
        "scale_attn_by_inverse_layer_idx",
    ),
    "a truncated file": (damage_weights, "truncated"),
    "merges that do not fit": (damage_merges, "merges.txt does not fit vocab.json"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "has no tokenizer"),
    "no configuration": (lambda f: (f / "config.json").unlink(), "config.json is missing"),
    "a damaged configuration": (lambda f: (f / "config.json").write_text("{"), "is not JSON"),
}


@pytest.mark.parametrize(("damage", "message"), BAD.values(), ids=BAD)
def test_a_bad_folder_is_one_sentence_in_every_command(refuse, folder, text_file, damage, message):
    damage(folder)
    assert message in refuse("sample", folder)
    assert message in refuse("explore", folder, "--text", "the dog")
    assert message in refuse("train", "--from", folder, "--data", text_file)


def test_export_and_gradcheck_need_a_run(refuse, gpt2):
    assert "is a pretrained model, not a run" in refuse("export", gpt2)
    assert "is a pretrained model, not a run" in refuse("gradcheck", gpt2)
