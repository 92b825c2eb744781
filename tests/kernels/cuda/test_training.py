"""Training and sampling with simulated CUDA kernels equal those on the CPU."""

import numpy as np
import pytest

import tinyattn as ta
from tests.kernels.cuda.tools import need_compiler
from tinyattn.backend import Random, use_random
from tinyattn.backend.launches import recorded_launches
from tinyattn.kernels.cuda import simulated_kernels
from tinyattn.sampling import generate
from tinyattn.train import begin, load_run, resume
from tinyattn.train.build import build_model, build_optimizers, build_step
from tinyattn.train.config import make_config

need_compiler()

VOCABULARY = 30
SMALL = {"layers": 2, "heads": 2, "dim": 32, "block_size": 16, "batch_size": 2, "workers": 1}
RECIPES = {
    "muon, rotary positions, normalized queries and keys": {},
    "nanoGPT's, with dropout": {"preset": "nanogpt-gpu"},
    "rms_norm, biases": {
        "norm_kind": "rms_norm",
        "bias": True,
        "optimizer": "adamw",
        "learning_rate": 1e-3,
    },
}
IDS = np.random.default_rng(0).integers(0, VOCABULARY, (2, 17))


def prepared(device, **options):
    config = make_config({**options, **{k: v for k, v in SMALL.items() if k not in options}})
    with use_random(Random(3)), ta.device(device):
        model = build_model(config, VOCABULARY)
    optimizers = build_optimizers(model, config)
    return model, optimizers, build_step(model, config, optimizers)


def one_step(optimizers, step, number=0, ids=IDS):
    optimizers.set_learning_rate(number)
    loss = step(ids[:, :-1], ids[:, 1:], key=number)
    norm = optimizers.clip()
    optimizers.step(step.executor)
    return loss, norm


def launches_of_a_step(**options):
    with simulated_kernels():
        _, optimizers, step = prepared("strict", **options)
        one_step(optimizers, step)  # which makes tables and places
        with recorded_launches() as launches:
            one_step(optimizers, step, 1)
    return launches


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_step_on_kernels_equals_that_on_the_cpu(recipe):
    results = []
    for device in ("strict", "cpu"):
        with simulated_kernels():
            model, optimizers, step = prepared(device, **RECIPES[recipe])
            numbers = [float(number) for number in one_step(optimizers, step)]
            arrays = {f"gradient of {n}": p.grad.numpy() for n, p in model.named_parameters()}
            arrays.update(model.state_dict())
            numbers += [float(number) for i in (1, 2) for number in one_step(optimizers, step, i)]
        results.append((numbers, arrays))
    (found, arrays), (expected, expected_arrays) = results
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for name, array in expected_arrays.items():
        np.testing.assert_allclose(arrays[name], array, rtol=0, atol=1e-5, err_msg=name)


def test_a_step_does_not_synchronize():
    for options in RECIPES.values():
        assert "read" not in launches_of_a_step(**options)


def test_a_step_in_float16_synchronizes_once():
    """For the norm of the gradients: if it is not finite, there is no update."""
    launches = launches_of_a_step(precision="float16")
    assert launches.count("read") == 1 and launches.index("read") > launches.index("clip_factor")


def test_the_number_of_launches_per_block():
    """Forward, backward and update together: the difference between two layers and one."""
    counts = {}
    for name, options in {
        "nanoGPT's, with dropout": {"preset": "nanogpt-gpu"},
        "nanoGPT's, without dropout": {"preset": "nanogpt-gpu", "dropout": 0.0},
        "muon": {},
    }.items():
        one, two = (len(launches_of_a_step(**{**options, "layers": n})) for n in (1, 2))
        counts[name] = two - one
    assert counts == {
        "nanoGPT's, with dropout": 24,
        "nanoGPT's, without dropout": 22,
        "muon": 24,
    }


def test_in_a_training_step_an_id_out_of_range_is_an_error_when_the_loss_is_read():
    wrong = IDS.copy()
    wrong[0, 3] = VOCABULARY
    with simulated_kernels():
        _, optimizers, step = prepared("strict")
        loss, _ = one_step(optimizers, step, ids=wrong)
        with pytest.raises(IndexError, match=r"the id 30: expected integers in 0 \.\. 29"):
            float(loss)
        loss, _ = one_step(optimizers, step)
        assert np.isfinite(float(loss))


def test_outside_a_training_step_an_id_out_of_range_is_an_error_at_once():
    weight = ta.ones((3, 2), device="strict")
    logits = ta.ones((2, 3), device="strict")
    with simulated_kernels():
        with pytest.raises(IndexError, match=r"the id 3: expected integers in 0 \.\. 2"):
            ta.embedding(ta.tensor([0, 3], device="strict"), weight)
        with pytest.raises(IndexError, match=r"the target -1: expected integers in 0 \.\. 2"):
            ta.cross_entropy(logits, ta.tensor([-1, 1], device="strict"))
        assert ta.embedding(ta.tensor([0, 2], device="strict"), weight).shape == (2, 2)


def test_a_sample_with_a_cache_equals_that_of_the_cpu():
    texts = []
    for device in ("strict", "cpu"):
        with simulated_kernels(), recorded_launches() as launches:
            model, _, _ = prepared(device)
            texts.append(list(generate(model, [1, 2, 3], 20, random=Random(7))))
        assert ("attention_forward" in launches) == (device == "strict")
    assert texts[0] == texts[1]


def test_the_same_step_gives_the_same_bits():
    states = []
    for _ in range(2):
        with simulated_kernels():
            model, optimizers, step = prepared("strict", preset="nanogpt-gpu")
            one_step(optimizers, step)
        states.append(model.state_dict())
    for name, array in states[0].items():
        np.testing.assert_array_equal(states[1][name], array)


def test_a_run_is_saved_on_one_device_and_continued_on_another(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("to be, or not to be: that is the question. " * 40)
    options = {"steps": 4, "evaluate_every": 2, "sample_every": 4, "sample_length": 5}
    options = {**SMALL, **options, "data": str(text), "evaluate_characters": 100}
    ended = {}
    for first, second in (("strict", "cpu"), ("cpu", "strict"), ("cpu", "cpu")):
        run = tmp_path / f"{first}_{second}"
        with simulated_kernels(), recorded_launches() as launches:
            assert not begin(make_config(options, device=first, stop_after=2), run).train()
            assert load_run(run).model.device == "cpu"
            assert resume(run, {"device": second}).train()
        assert ("attention_forward" in launches) == ("strict" in (first, second))
        ended[first, second] = load_run(run).model.state_dict()
    expected = ended.pop(("cpu", "cpu"))
    for found in ended.values():
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-5, err_msg=name)
