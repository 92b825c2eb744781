"""A run begins in a new directory, and a resumed run is bit-identical to one that was not interrupted."""

import shutil

import numpy as np
import pytest

from tinyattn.data import InputError
from tinyattn.train import begin, load_run, resume
from tinyattn.train.config import make_config
from tinyattn.train.parallel.forks import WorkerError
from tinyattn.train.session import new_directory
from tinyattn.train.storage.errors import DamagedFileError, RunWarning
from tinyattn.train.storage.metrics import read_metrics
from tinyattn.train.storage.run_directory import RunDirectory


def contents(path):
    run = RunDirectory.open(path)
    arrays = {**run.read("last").model, **run.read("last").optimizer}
    losses = [line["loss"] for line in read_metrics(path / "metrics.jsonl") if "loss" in line]
    state = run.read_state("last")
    return arrays, losses, state


def assert_equal_to_the_bit(first, second):
    arrays, losses, state = contents(first)
    other_arrays, other_losses, other_state = contents(second)
    assert arrays.keys() == other_arrays.keys()
    for name in arrays:
        assert np.array_equal(arrays[name], other_arrays[name]), name
    assert losses == other_losses
    for key in state.keys() - {"seconds"}:
        assert state[key] == other_state[key], key


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_a_run_resumed_twice_is_bit_identical(tmp_path, tiny, display, optimizer):
    tiny["optimizer"] = optimizer
    begin(make_config(tiny), tmp_path / "straight").train(display)
    first = begin(make_config(tiny, stop_after=5), tmp_path / "parts")
    assert not first.train(display)
    assert not resume(tmp_path / "parts", {"stop_after": 5}).train(display)
    assert resume(tmp_path / "parts").train(display)
    assert_equal_to_the_bit(tmp_path / "straight", tmp_path / "parts")


def test_a_stop_between_two_evaluations_does_not_change_the_run(tmp_path, tiny, display):
    tiny.update(sample_every=5, sample_length=4)
    begin(make_config(tiny), tmp_path / "straight").train(display)
    trainer = begin(make_config(tiny), tmp_path / "parts")
    trainer.train(display, should_stop=lambda: trainer.step == 7)
    assert RunDirectory.open(tmp_path / "parts").read_state("last")["step"] == 7
    resume(tmp_path / "parts").train(display)
    assert_equal_to_the_bit(tmp_path / "straight", tmp_path / "parts")
    assert display.samples[:3] == display.samples[3:]


def test_a_state_saved_at_a_sample_contains_the_sampling_stream(tmp_path, tiny, display):
    tiny.update(sample_every=5, sample_length=4)
    begin(make_config(tiny), tmp_path / "straight").train(display)
    begin(make_config(tiny, stop_after=5), tmp_path / "parts").train(display)
    resume(tmp_path / "parts").train(display)
    assert_equal_to_the_bit(tmp_path / "straight", tmp_path / "parts")
    assert display.samples[:3] == display.samples[3:]


def test_evaluations_and_samples_do_not_change_the_training(tmp_path, tiny, display):
    begin(make_config(tiny), tmp_path / "seldom").train(display)
    tiny.update(evaluate_every=1, sample_every=1, sample_length=5)
    begin(make_config(tiny), tmp_path / "often").train(display)
    first, second = contents(tmp_path / "seldom"), contents(tmp_path / "often")
    assert all(np.array_equal(first[0][name], second[0][name]) for name in first[0])
    assert first[1] == second[1]
    assert len(display.samples) == 15


def test_a_finished_run_resumes_with_more_steps(tmp_path, tiny, display):
    begin(make_config(tiny), tmp_path / "run").train(display)
    with pytest.raises(InputError, match="has done its 15 steps: ask for more with --steps"):
        resume(tmp_path / "run")
    trainer = resume(tmp_path / "run", {"steps": 18})
    assert trainer.train(display)
    assert trainer.step == 18
    assert RunDirectory.open(tmp_path / "run").config().run.steps == 18


def test_a_run_without_its_last_state_resumes_from_the_best(tmp_path, tiny, display):
    begin(make_config(tiny), tmp_path / "straight").train(display)
    begin(make_config(tiny, stop_after=7), tmp_path / "run").train(display)
    shutil.rmtree(tmp_path / "run" / "last")
    with pytest.warns(
        RunWarning, match="state 'last' of the run .* is missing: resuming from 'best'"
    ):
        trainer = resume(tmp_path / "run")
    assert trainer.step == 5
    assert trainer.train(display)
    assert_equal_to_the_bit(tmp_path / "straight", tmp_path / "run")


def test_a_damaged_last_state_is_an_error_that_explains_how_to_resume_from_the_best(
    tmp_path, tiny, display
):
    begin(make_config(tiny, stop_after=7), tmp_path / "run").train(display)
    (tmp_path / "run" / "last" / "state.json").write_text("{")
    with pytest.raises(
        DamagedFileError, match=r"'best' .*--resume uses it if you move .*last away"
    ):
        resume(tmp_path / "run")
    (tmp_path / "run" / "last").rename(tmp_path / "away")
    with pytest.warns(RunWarning):
        assert resume(tmp_path / "run").train(display)


@pytest.mark.parametrize("error", [WorkerError("worker process 1 was terminated"), MemoryError()])
def test_a_failed_step_loses_that_step_only(tmp_path, tiny, display, error):
    begin(make_config(tiny), tmp_path / "straight").train(display)
    trainer = begin(make_config(tiny), tmp_path / "parts")
    step_function = trainer.step_function

    class Failing:
        executor = step_function.executor

        def __call__(self, inputs, targets, key):
            if trainer.step == 7:
                raise error
            return step_function(inputs, targets, key)

    trainer.step_function = Failing()
    with pytest.raises(type(error)):
        trainer.train(display)
    assert RunDirectory.open(tmp_path / "parts").read_state("last")["step"] == 7
    assert resume(tmp_path / "parts").train(display)
    assert_equal_to_the_bit(tmp_path / "straight", tmp_path / "parts")


def test_partially_updated_weights_are_not_saved(tmp_path, tiny, display):
    trainer = begin(make_config(tiny), tmp_path / "run")
    update = trainer.optimizers.step

    def half(executor):
        if trainer.step == 7:
            raise WorkerError("worker process 1 was terminated")
        update(executor)

    trainer.optimizers.step = half
    with pytest.raises(WorkerError):
        trainer.train(display)
    assert RunDirectory.open(tmp_path / "run").read_state("last")["step"] == 5


def test_options_that_identify_the_run_cannot_change(tmp_path, tiny, display):
    begin(make_config(tiny, stop_after=2), tmp_path / "run").train(display)
    with pytest.raises(InputError, match="--dim cannot change on resumption"):
        resume(tmp_path / "run", {"dim": 32})
    resume(tmp_path / "run", {"dim": 16})


def test_a_changed_text_is_an_error(tmp_path, tiny, text_file, display):
    begin(make_config(tiny, stop_after=2), tmp_path / "run").train(display)
    text_file.write_text(text_file.read_text() + "more")
    with pytest.raises(InputError, match="no longer the text that the run began with"):
        resume(tmp_path / "run")


def test_a_saved_state_of_another_shape_is_an_error_with_name_and_shapes(tmp_path, tiny, display):
    begin(make_config(tiny, stop_after=2), tmp_path / "run").train(display)
    run = RunDirectory.open(tmp_path / "run")
    arrays = run.read("last").model
    arrays["blocks.0.norm1.weight"] = np.ones((1,), np.float32)
    run.write_states(["last"], arrays, run.read("last").optimizer, run.read_state("last"))
    with pytest.raises(
        InputError, match=r"'blocks\.0\.norm1\.weight' of shape \(1,\), and the model's is \(16,\)"
    ):
        resume(tmp_path / "run")
    with pytest.raises(InputError, match="norm1"):
        load_run(tmp_path / "run", "last")


def test_a_damaged_optimizer_file_is_an_error(tmp_path, tiny, display):
    begin(make_config(tiny, stop_after=2), tmp_path / "run").train(display)
    path = tmp_path / "run" / "last" / "optimizer.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFileError, match=r"optimizer\.safetensors is damaged"):
        resume(tmp_path / "run")


def test_weights_order_and_dropout_are_the_same_on_every_device(tmp_path, tiny, display, device):
    tiny.update(steps=2, evaluate_every=2)
    losses = {}
    for name in ("cpu", device):
        trainer = begin(make_config(tiny, device=name, dtype="float64"), tmp_path / name)
        losses[name, "start"] = trainer.model.state_dict()
        trainer.train(display)
        losses[name] = contents(tmp_path / name)[1]
        if name == device:
            break
    for array, other in zip(losses["cpu", "start"].values(), losses[device, "start"].values()):
        assert np.array_equal(array, other)
    assert losses["cpu"] == pytest.approx(losses[device], rel=1e-6)


def test_a_run_of_one_device_loads_on_another(tmp_path, tiny, display, device):
    begin(make_config(tiny, device=device, stop_after=2), tmp_path / "run").train(display)
    loaded = load_run(tmp_path / "run", "last", device="cpu")
    back = load_run(tmp_path / "run", "last", device=device)
    assert (loaded.model.device, back.model.device.split(":")[0]) == ("cpu", device)
    for name, array in loaded.model.state_dict().items():
        assert np.array_equal(array, back.model.state_dict()[name])


def test_a_text_that_is_too_short_is_an_error_before_a_directory_is_created(tmp_path, tiny):
    with pytest.raises(InputError, match="too short for blocks of 2000"):
        begin(make_config(tiny, block_size=2000), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_default_directory_is_a_new_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = []
    for _ in range(3):
        path = new_directory(make_config(data="some/text.txt"))
        assert path.is_dir()
        names.append(path.as_posix())
    assert names == ["runs/text-fast", "runs/text-fast-2", "runs/text-fast-3"]


def test_the_number_of_workers_is_stored(tmp_path, tiny):
    trainer = begin(make_config(tiny, workers=3), tmp_path / "run")
    assert trainer.step_function.executor.workers == 3
    del tiny["workers"]
    begin(make_config(tiny), tmp_path / "default")
    assert RunDirectory.open(tmp_path / "default").config().run.workers >= 1
