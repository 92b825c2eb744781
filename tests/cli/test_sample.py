"""``tinyattn sample``: generated text, and errors in one sentence."""

import dataclasses
import inspect
import os
import signal

import numpy as np
import pytest

from tinyattn.cli.sample import SampleOptions
from tinyattn.train import load_run
from tinyattn.train.storage.run_directory import RunDirectory

from .conftest import TEXT, TINY, command


def test_a_sample_continues_the_prompt_for_the_length(call, trained):
    answer = call("sample", trained, "--prompt", "the ", "--length", 30, "--seed", 1)
    assert answer.status == 0
    assert answer.output.startswith("the ") and answer.output.endswith("\n")
    assert len(answer.output) == len("the ") + 30 + 1
    assert set(answer.output) <= set(TEXT)


def test_a_seed_gives_the_same_text_and_another_seed_another(call, trained):
    first = call("sample", trained, "--seed", 1, "--length", 40).output
    assert call("sample", trained, "--seed", 1, "--length", 40).output == first
    assert call("sample", trained, "--seed", 2, "--length", 40).output != first


def test_python_generates_the_same_text_with_the_same_defaults(call, trained):
    run = load_run(trained)
    expected = call("sample", trained, "--prompt", "the ", "--seed", 1).output
    assert run.generate("the ", seed=1) + "\n" == expected
    pieces = list(run.stream("the ", 3, seed=1))
    assert pieces == ["the ", *expected[4:7]]
    assert len(run.generate(length=5)) == 5
    parameters = inspect.signature(run.stream).parameters
    for one in dataclasses.fields(SampleOptions):
        if one.name not in ("state", "device"):
            assert parameters[one.name].default == one.default


def test_invalid_arguments_are_refused_before_the_first_character(trained):
    run = load_run(trained)
    for options, message in [
        ({"prompt": "☃"}, "no id for '☃'"),
        ({"prompt": "☃", "unknown": "skip"}, "no character of the prompt is known"),
        ({"slide": 9}, "slide must be between 1 and the block size 8"),
        ({"top_p": 2}, "top_p must be between 0 and 1"),
        ({"length": -1}, "length must be at least 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            run.stream(**options)
    with pytest.raises(TypeError, match="a vocabulary encodes a string, got int"):
        run.generate(3)


def test_temperature_zero_is_top_k_one(call, trained):
    greedy = call("sample", trained, "--temperature", 0, "--length", 40, "--prompt", "q").output
    one = call("sample", trained, "--top-k", 1, "--length", 40, "--prompt", "q").output
    none = call("sample", trained, "--top-p", 0, "--length", 40, "--prompt", "q").output
    assert greedy == one == none


def test_the_last_state_can_be_sampled_on_another_device(call, trained):
    words = ["sample", trained, "--state", "last", "--seed", 3, "--length", 20]
    assert call(*words).output == call(*words, "--device", "strict").output


def test_an_unknown_character_is_listed_or_skipped(call, refuse, trained):
    message = refuse("sample", trained, "--prompt", "the \N{SNOWMAN} Q")
    assert "'Q' (position 6)" in message and "'☃' (position 4)" in message
    answer = call("sample", trained, "--prompt", "the ☃", "--unknown", "skip", "--length", 3)
    assert answer.status == 0 and answer.output.startswith("the ")
    message = refuse("sample", trained, "--prompt", "☃", "--unknown", "skip")
    assert "no character of the prompt is known" in message


def test_an_empty_prompt_begins_a_line(call, trained):
    answer = call("sample", trained, "--prompt", "", "--length", 5, "--seed", 0)
    assert answer.status == 0 and len(answer.output) == 6


def test_a_prompt_may_begin_with_a_hyphen(call, refuse, trained):
    message = refuse("sample", trained, "--prompt", "-the", "--length", 3)
    assert "no id for '-' (position 0)" in message
    answer = call("sample", trained, "--unknown", "skip", "--prompt", "--the", "--length", 3)
    assert answer.status == 0 and answer.output.startswith("the")


def test_a_lone_surrogate_is_one_sentence(refuse, trained):
    assert r"'\udc9d' (position 0)" in refuse("sample", trained, "--prompt", "\udc9d")


@pytest.mark.parametrize(
    "words, message",
    [
        (["--temperature", "-1"], "--temperature must be at least 0, given -1"),
        (["--temperature", "nan"], "--temperature must be"),
        (["--temperature", "inf"], "--temperature must be a finite number, at least 0, given inf"),
        (["--length", "2.5"], "--length must be a whole number, given 2.5"),
        (["--length", "1e3"], "--length must be a whole number, given 1e3"),
        (["--length", "a"], 'unable to convert "a" into int'),
        (["--top-k", "0"], "--top-k must be at least 1, given 0"),
        (["--top-p", "1.1"], "--top-p must be at least 0 and at most 1, given 1.1"),
        (["--length", "-3"], "--length must be at least 1, given -3"),
        (["--slide", "9"], "--slide must be at most the block size 8, given 9"),
        (["--state", "first"], "best"),
        (["--device", "tpu"], "unknown device 'tpu'"),
    ],
)
def test_an_option_out_of_range_is_refused(refuse, trained, words, message):
    assert message in refuse("sample", trained, *words)


def test_a_directory_without_a_run_is_refused(refuse, tmp_path):
    assert "there is no directory" in refuse("sample", tmp_path / "nowhere")
    assert "is not a run" in refuse("sample", tmp_path)
    assert "requires an argument" in refuse("sample")


def test_a_damaged_checkpoint_is_one_sentence(refuse, trained, tmp_path):
    import shutil

    shutil.copytree(trained, tmp_path / "run")
    path = tmp_path / "run" / "best" / "model.safetensors"
    content = path.read_bytes()
    for damaged in (b"", content[:10], content[: len(content) // 2], content[:-1]):
        path.write_bytes(damaged)
        assert "is damaged" in refuse("sample", tmp_path / "run")
    path.unlink()
    assert "is missing" in refuse("sample", tmp_path / "run")


def test_a_checkpoint_of_another_model_names_the_tensor_and_both_shapes(refuse, trained, tmp_path):
    import shutil

    shutil.copytree(trained, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    arrays = run.read("best").model
    arrays["embedding.weight"] = np.zeros((30, 32), np.float32)
    run.write_states(["best"], arrays, run.read("best").optimizer, run.read_state("best"))
    message = refuse("sample", tmp_path / "run")
    assert "'embedding.weight' of shape (30, 32), and the model's is (30, 16)" in message


def test_a_modified_config_is_one_sentence(refuse, trained, tmp_path):
    import shutil

    shutil.copytree(trained, tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    path.write_text(path.read_text().replace('"heads": 2', '"heads": 4'))
    assert "config.json is damaged or was changed" in refuse("sample", tmp_path / "run")


def run_with_weights(trained, path, value):
    """A copy of a run with ``value`` in its embedding, and finite weights that overflow elsewhere."""
    import shutil

    shutil.copytree(trained, path)
    run = RunDirectory(path)
    arrays = run.read("best").model
    arrays["embedding.weight"][:] = 5
    arrays["embedding.weight"][:, ::2] = value
    arrays["norm.weight"][:] = 3e38  # logits are then sums of inf and -inf
    for name in ("best", "last"):
        run.write_states([name], arrays, run.read(name).optimizer, run.read_state(name))
    return path


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_weights_are_one_sentence_in_every_command(refuse, trained, tmp_path, value):
    path = run_with_weights(trained, tmp_path / "run", value)
    for words in (["sample", path], ["gradcheck", path], ["explore", path, "--text", "quick"]):
        assert "'embedding.weight' with values that are not finite" in refuse(*words)
    words = ["train", "--resume", path, "--steps", 30]
    assert "'embedding.weight' with values that are not finite" in refuse(*words)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_logits_that_overflow_are_one_sentence(refuse, trained, tmp_path):
    path = run_with_weights(trained, tmp_path / "run", 10)
    assert "cannot generate text: " in refuse("sample", path)
    words = ["explore", path, "--text", "quick", "-o", tmp_path / "page.html"]
    assert "values on this text that are not finite" in refuse(*words)
    assert not (tmp_path / "page.html").exists()


def test_the_best_state_is_never_silently_the_last(call, refuse, text_file, tmp_path):
    words = ["train", "--data", text_file, "--steps", 8, "--out", "run", *TINY]
    assert call(*words, "--stop-after", 3).status == 0
    assert "has no state 'best': it has 'last'" in refuse("sample", "run", "--state", "best")
    answer = call("sample", "run", "--length", 5)
    assert answer.status == 0
    assert answer.error == (
        "tinyattn: the run run was not evaluated yet and has no state 'best': using 'last'\n"
    )
    assert call("sample", "run", "--length", 5, "--state", "last").error == ""


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_that_cannot_show_a_character_gets_an_escape(tmp_path, encoding):
    from tinyattn.cli import main

    text = tmp_path / "text.txt"
    text.write_text("☃\U0001f600 → " * 100, encoding="utf-8")
    words = "--layers 1 --heads 1 --dim 4 --block-size 4 --steps 1 --sample-every 0".split()
    assert main(["train", "--data", str(text), "--out", str(tmp_path / "run"), *words]) == 0
    process = command(
        *("sample", tmp_path / "run", "--prompt", "☃", "--length", 20, "--temperature", 5),
        env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
    )
    output, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
    assert output.startswith(b"\\u2603")


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_an_interruption_is_reported_on_a_separate_line(trained):
    process = command("sample", trained, "--length", 1_000_000)
    process.stdout.read(5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, b"\ninterrupted\n")


def test_a_closed_pipe_is_not_an_error(trained):
    process = command("sample", trained, "--length", 5000)
    process.stdout.read(5)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0
