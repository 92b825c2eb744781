"""A run with damaged files loads exactly as it was saved, or is rejected in one line."""

import json
import os
import shutil
import warnings

import numpy as np
import pytest

from tinyattn.data import InputError
from tinyattn.train import begin, load_run, make_config, resume
from tinyattn.train.config import GROUPS
from tinyattn.train.storage.digests import add_digest
from tinyattn.train.storage.errors import RunWarning
from tinyattn.train.storage.metrics import marked_part, read_metrics
from tinyattn.train.storage.run_directory import RunDirectory

CASES = 2000
FILES = (
    "config.json",
    "vocab.json",
    "metrics.jsonl",
    "last/state.json",
    "last/model.safetensors",
    "last/optimizer.safetensors",
)
TINY = {"layers": 1, "heads": 1, "dim": 4, "block_size": 4, "batch_size": 2, "sample_every": 0}
VALUES = [
    *(None, True, False, 0, 1, -1, 2, 10**30, 1.5, -0.0, float("nan"), float("inf")),
    *("", "x", "fast", "cpu", "\0", "\ud800", [], ["fast"], {}, {"step": 1}),
]
DEEP = b"[" * 100_000 + b"]" * 100_000


def train(folder, **options):
    text = folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 4)
    config = make_config(TINY, data=str(text), workers=1, evaluate_every=2, **options)
    begin(config, folder / "run").train()
    return folder / "run"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run that was stopped, and others: of another seed, and of one step more."""
    first = train(tmp_path_factory.mktemp("first"), steps=4, stop_after=2)
    seed = train(tmp_path_factory.mktemp("seed"), steps=4, stop_after=2, seed=2)
    later = tmp_path_factory.mktemp("later") / "run"
    shutil.copytree(first, later)
    resume(later, {"stop_after": 1}).train()
    return first, [seed, later]


def everything(path):
    """All that is read of a run, as what can be compared."""
    run = RunDirectory.open(path)
    trainer = resume(path)
    trainer.run.unlock()
    trainer.step_function.executor.close()
    arrays, settings = trainer.optimizers.state()
    loaded = load_run(path, "last")
    run.read_metrics()
    mark = run.read("last").metrics
    return (
        run.config(),
        run.vocabulary().characters,
        _bytes(loaded.model.state_dict()),
        _bytes(trainer.model.state_dict()),
        _bytes(arrays),
        settings,
        trainer.state(),
        marked_part((path / "metrics.jsonl").read_bytes(), mark, path),  # resumption appends to it
    )


def _bytes(arrays):
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


def damaged(content, others, random):
    """``content`` with one thing wrong with it."""
    content = bytearray(content)
    kind = random.integers(12)
    start, end = sorted(random.integers(len(content) + 1, size=2))
    place = int(random.integers(len(content)))
    if kind <= 2:
        content[place] ^= 1 << int(random.integers(8))
    elif kind == 3:
        content[place] = int(random.integers(256))
    elif kind == 4:
        del content[end:]
    elif kind == 5:
        del content[start:end]
    elif kind == 6:
        content[place:place] = content[start:end]
    elif kind == 7:
        content[start:end] = bytes(end - start)
    elif kind == 8:
        return others[random.integers(len(others))]
    elif kind == 9 and random.integers(10) == 0:
        return [b"", DEEP, b"null", b"[]", b"{}", b"\xff\xfe"][random.integers(6)]
    else:
        return _other_value(bytes(content), random)
    return bytes(content)


def _other_value(content, random):
    """JSON with a value replaced, a key removed or renamed, or a digit changed; of metrics, in one of the lines."""
    lines = content.split(b"\n")
    try:
        value = json.loads(content)
    except ValueError:
        number = int(random.integers(len(lines)))
        try:
            value = json.loads(lines[number])
        except ValueError:
            content = bytearray(content)
            content[random.integers(min(400, len(content)))] = random.integers(48, 58)
            return bytes(content)
        lines[number] = _changed(value, random)
        return b"\n".join(lines)
    return _changed(value, random)


def _changed(value, random):
    places = list(_places(value))
    holder, key = places[random.integers(len(places))]
    kind = random.integers(4)
    if kind == 0 and isinstance(holder, dict):
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif kind == 2 and isinstance(holder[key], int | float):
        holder[key] += 1
    else:
        holder[key] = VALUES[random.integers(len(VALUES))]
    return json.dumps(value).encode()


def _places(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


@pytest.mark.parametrize("part", range(4))
def test_damaged_files_load_unchanged_or_are_rejected(saved, tmp_path, monkeypatch, part):
    first, others = saved
    path = tmp_path / "run"
    shutil.copytree(first, path)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # thousands would take a while
    expected = everything(path)
    originals = {name: (path / name).read_bytes() for name in FILES}
    random = np.random.default_rng([2026, part])
    refused = dict.fromkeys(FILES, 0)
    for case in range(CASES // 4):
        name = FILES[case % len(FILES)]
        swapped = [(other / name).read_bytes() for other in others]
        (path / name).write_bytes(damaged(originals[name], swapped, random))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RunWarning)
                result = everything(path)
        except InputError as error:
            refused[name] += 1
            assert str(error) and "\n" not in str(error)
        else:
            assert result == expected, (case, name)
        finally:
            (path / name).write_bytes(originals[name])
    assert everything(path) == expected
    assert min(refused.values()) > CASES // 4 // len(FILES) // 2


@pytest.mark.parametrize("name", FILES[3:])
def test_a_file_of_another_state_or_run_is_rejected(saved, tmp_path, name):
    first, others = saved
    for number, other in enumerate(others):
        path = tmp_path / f"run{number}"
        shutil.copytree(first, path)
        shutil.copy(other / name, path / name)
        with pytest.raises(InputError, match=str(path)):
            resume(path)


@pytest.mark.parametrize("name", ["vocab.json", "config.json"])
def test_a_permuted_vocabulary_and_changed_options_are_rejected(saved, tmp_path, name):
    path = tmp_path / "run"
    shutil.copytree(saved[0], path)
    content = json.loads((path / name).read_text())
    if name == "vocab.json":
        content["characters"].reverse()
    else:
        content["run"]["seed"] = 7
    (path / name).write_text(json.dumps(content))
    for function in (resume, load_run):
        with pytest.raises(
            InputError, match=rf"{name.replace('.', '[.]')} is damaged or was changed"
        ):
            function(path)


def test_options_of_another_run_are_rejected(saved, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(saved[0], path)
    shutil.copy(saved[1][0] / "config.json", path)
    with pytest.raises(
        InputError, match=r"has --seed 2, and .*state\.json belongs to a run with 1337"
    ):
        load_run(path)


def without_digests(path):
    """Make a run what it was before there were digests."""
    for file in (path / "config.json", path / "last" / "state.json", path / "best" / "state.json"):
        content = json.loads(file.read_text())
        content.pop("sha256")
        content.pop("belongs_to", None)
        if "evaluated_step" in content:
            content["looked_at"] = content.pop("evaluated_step")
        file.write_text(json.dumps(content))


def test_a_run_without_digests_resumes_with_one_warning(saved, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(saved[0], path)
    expected = everything(path)
    without_digests(path)
    for function in (resume, load_run):
        with pytest.warns(RunWarning, match="before states had digests") as caught:
            result = function(path)
        assert len({str(one.message) for one in caught}) == 1
        if function is resume:
            assert result.train()
            without_digests(path)
    shutil.rmtree(path)
    shutil.copytree(saved[0], path)
    without_digests(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        trainer = resume(path)
        assert _bytes(trainer.model.state_dict()) == expected[3]
        trainer.train()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_run(path, "last")  # saved again, with digests
    assert loaded.step == 4
    steps = [line["step"] for line in read_metrics(path / "metrics.jsonl") if "loss" in line]
    assert steps == [1, 2, 3, 4]


@pytest.mark.parametrize("value", [None, "x", -1, True, 1.5, [1], {}, 10**30])
@pytest.mark.parametrize(
    "key", ["step", "best_loss", "smoothed_loss", "corpus", "random", "optimizer"]
)
@pytest.mark.filterwarnings("ignore::tinyattn.train.storage.errors.RunWarning")
def test_an_invalid_state_without_digest_is_reported_in_one_line(saved, tmp_path, key, value):
    path = tmp_path / "run"
    shutil.copytree(saved[0], path)
    without_digests(path)
    file = path / "last" / "state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    try:
        resume(path).run.unlock()
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert key == "best_loss"


def without_option(path, name):
    """Rewrite a run as a version of tinyattn without the option would have written it."""
    for file in ("config.json", "last/state.json", "best/state.json"):
        content = json.loads((path / file).read_text())
        del content["sha256"]
        settings = content.get("belongs_to", {}).get("settings", {})
        for options in (*(content.get(group, {}) for group in GROUPS), settings):
            options.pop(name, None)
        assert name not in json.dumps(content)
        (path / file).write_text(json.dumps(add_digest(content)))


@pytest.mark.parametrize("name", ["rotary_base", "beta2", "evaluate_characters"])
@pytest.mark.filterwarnings("error")
def test_a_run_written_before_an_option_was_added_loads_and_resumes(saved, tmp_path, name):
    path = tmp_path / "run"
    shutil.copytree(saved[0], path)
    expected = everything(path)
    without_option(path, name)
    assert everything(path) == expected
    assert resume(path).train()
    assert load_run(path, "last").step == 4


@pytest.mark.filterwarnings("error")
def test_an_option_added_to_a_preset_later_has_its_default_in_earlier_runs(tmp_path):
    path = train(tmp_path, steps=4, stop_after=2, preset="nanogpt-cpu", final_share=0.0)
    expected = everything(path)
    without_option(path, "final_share")  # the preset's is another
    assert everything(path) == expected


def test_a_file_whose_digest_was_removed_is_rejected(saved, tmp_path):
    for name in ("config.json", "last/state.json"):
        path = tmp_path / name.replace("/", "-")
        shutil.copytree(saved[0], path)
        content = json.loads((path / name).read_text())
        del content["sha256"]
        (path / name).write_text(json.dumps(content))
        with pytest.raises(InputError, match="digest"):
            load_run(path, "last")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize(
    "name",
    ["config.json", "vocab.json", "metrics.jsonl", "last/state.json", "last/model.safetensors"],
)
def test_a_named_pipe_in_place_of_a_file_is_refused_and_does_not_block(saved, tmp_path, name):
    path = tmp_path / "run"
    shutil.copytree(saved[0], path)
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(InputError, match="is a pipe, a socket or a device: expected a file"):
        resume(path).train()
