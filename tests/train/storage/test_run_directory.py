"""RunDirectory: rejects other directories, and never loads part of a state."""

import json

import numpy as np
import pytest

from tinyattn.data import CharVocabulary, InputError
from tinyattn.train.config import make_config
from tinyattn.train.storage.arrays import check_arrays, check_finite
from tinyattn.train.storage.errors import DamagedFileError
from tinyattn.train.storage.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path / "run", make_config(steps=7), CharVocabulary("abc"))
    run.unlock()  # as the system does when its process ends
    return run


def write(run, step, names=("best", "last")):
    run.write_states(names, {"w": np.full((2, 2), step)}, {"m": np.zeros(3)}, {"step": step})


def test_configuration_vocabulary_and_states_round_trip(run):
    write(run, 3)
    write(run, 5, ["last"])
    again = RunDirectory.open(run.path)
    assert again.config() == make_config(steps=7)
    assert again.vocabulary() == CharVocabulary("abc")
    assert again.read_state("best")["step"] == 3
    assert again.read_state("last")["step"] == 5
    assert again.read("last").model["w"].tolist() == [[5, 5], [5, 5]]
    assert again.read("last").optimizer["m"].tolist() == [0, 0, 0]


def test_a_run_contains_the_documented_files(run):
    write(run, 3)
    files = sorted(str(p.relative_to(run.path)) for p in run.path.rglob("*") if p.is_file())
    state = ["model.safetensors", "optimizer.safetensors", "state.json"]
    expected = [f"{name}/{file}" for name in ("best", "last") for file in state]
    assert files == sorted([*expected, "config.json", "vocab.json"])


def test_a_directory_with_a_saved_state_is_not_overwritten(run):
    write(run, 1)
    with pytest.raises(InputError, match="already contains a run"):
        RunDirectory.create(run.path, make_config(), CharVocabulary("xyz"))
    assert run.vocabulary() == CharVocabulary("abc")


def test_a_run_killed_before_its_first_state_can_be_created_again(run):
    again = RunDirectory.create(run.path, make_config(steps=9), CharVocabulary("xyz"))
    assert again.vocabulary() == CharVocabulary("xyz")


def test_a_path_without_a_run_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for path, message in [
        (tmp_path / "nowhere", "there is no directory"),
        (tmp_path / "file", "there is no directory"),
        (tmp_path, "is not a run"),
    ]:
        with pytest.raises(InputError, match=message):
            RunDirectory.open(path)
    with pytest.raises(InputError, match="is a file"):
        RunDirectory.create(tmp_path / "file", make_config(), CharVocabulary("a"))


def test_a_run_without_a_state_is_an_error(run):
    with pytest.raises(InputError, match="no state 'best': it stopped before"):
        run.read("best")


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("keep", [0, 10, 0.5, -1])
def test_a_truncated_file_is_an_error_that_suggests_the_other_state(run, file, keep):
    write(run, 3)
    path = run.path / "last" / file
    content = path.read_bytes()
    # The newline that ends state.json may go; a byte of what it says may not.
    content = content.rstrip() if file == "state.json" else content
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(DamagedFileError, match=rf"{file} is damaged.*'best' may be intact"):
        run.read("last")


def test_a_missing_file_is_an_error(run):
    write(run, 3)
    (run.path / "last" / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors is missing"):
        run.read("last")


@pytest.mark.parametrize(
    "expected, given, message",
    [
        ({"w": (3, 4)}, {"w": (1, 4)}, r"'w' of shape \(1, 4\), and the model's is \(3, 4\)"),
        ({"w": ()}, {"w": (1,)}, r"'w' of shape \(1,\), and the model's is \(\)"),
        ({"w": ()}, {"w": (32000,)}, r"\(32000,\)"),
        ({"w": (2,), "b": (2,)}, {"w": (2,)}, "no tensor 'b'"),
        ({"w": (2,)}, {"w": (2,), "b": (2,)}, "a tensor 'b' that the model does not have"),
    ],
)
def test_arrays_of_another_shape_are_rejected_not_broadcast(expected, given, message):
    expected, given = ({name: np.zeros(s) for name, s in one.items()} for one in (expected, given))
    with pytest.raises(InputError, match=message):
        check_arrays(expected, given, "the file")


@pytest.mark.parametrize("dtype", ["int64", "int8", "bool", "float16", "float64"])
def test_arrays_of_another_dtype_are_rejected_not_cast(dtype):
    expected = {"w": np.zeros(2, np.float32)}
    check_arrays(expected, {"w": np.ones(2, np.float32)}, "the file")
    with pytest.raises(InputError, match=f"'w' of dtype {dtype}, and the model's is float32"):
        check_arrays(expected, {"w": np.ones(2, dtype)}, "the file")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_arrays_that_are_not_finite_are_rejected(value):
    with pytest.raises(InputError, match="the file has 'w' with values that are not finite"):
        check_finite({"v": np.zeros(2), "w": np.array([1, value])}, "the file")


def test_a_state_that_json_cannot_represent_is_rejected_before_the_old_one_is_changed(run):
    write(run, 3)
    for state in ({"step": 4, "loss": float("nan")}, {"step": 4, "callback": print}):
        with pytest.raises((TypeError, ValueError)):
            run.write_states(["last"], {"w": np.zeros(2)}, {}, state)
    with pytest.raises(TypeError, match="cannot save 'w'"):
        run.write_states(["last"], {"w": None}, {}, {"step": 4})
    assert run.read_state("last")["step"] == 3


def test_snapshots_are_listed_in_order_and_round_trip(run):
    for step in (100, 0, 20):
        run.write_snapshot(step, {"w": np.full(2, step)})
    assert run.snapshot_steps() == [0, 20, 100]
    assert run.read_snapshot(20)["w"].tolist() == [20, 20]


def test_other_files_are_not_listed_as_snapshots(run):
    run.write_snapshot(20, {"w": np.zeros(2)})
    for name in (
        "step-abc.safetensors",
        "step-.safetensors",
        "step-1",
        ".step-000030.safetensors.17.new",
    ):
        (run.path / "snapshots" / name).write_text("")
    assert run.snapshot_steps() == [20]


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_an_invalid_run_path_is_an_error(path):
    for function in (RunDirectory.open, lambda path: RunDirectory.create(path, None, None)):
        with pytest.raises(InputError, match="the run's path contains a"):
            function(path)


def test_a_missing_best_state_is_an_error_that_names_the_last(run):
    write(run, 3, ["last"])
    with pytest.raises(InputError, match="no state 'best': it has 'last'"):
        run.read("best")


def test_reading_a_state_that_keeps_changing_terminates(run, monkeypatch):
    write(run, 3)
    (run.path / "last" / "model.safetensors").unlink()
    identities = iter(range(1000))
    monkeypatch.setattr("tinyattn.data.atomic._identity", lambda directory: next(identities))
    with pytest.raises(InputError, match=r"model\.safetensors is missing"):
        run.read("last")


def test_an_invalid_vocabulary_file_is_rejected(run):
    (run.path / "vocab.json").write_text(json.dumps(["a"]))
    with pytest.raises(InputError, match=r"vocab\.json is damaged: .* vocabulary"):
        run.vocabulary()
