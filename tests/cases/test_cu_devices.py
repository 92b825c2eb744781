"""Hard cases CU: a program gives the same results on another device.

CU-01, CU-02 and CU-04, how a device's arrays differ from NumPy's, are in tests/backend/test_strict_array.py; here
they are asked of the library on every device.
"""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import Random, use_random
from tinyattn.data import Batches
from tinyattn.sampling import generate
from tinyattn.train.storage.arrays import SavedArrays, arrays_from_bytes

CONFIG = ta.models.GPTConfig.gpt2(
    vocabulary_size=11, block_size=8, layers=2, heads=2, dim=8, dropout=0.25, positions="rotary"
)
IDS = np.random.default_rng(0).integers(0, 11, 200)


def make_model(device, seed=1):
    with ta.device(device), use_random(Random(seed)):
        return ta.models.GPT(CONFIG)


def step(model, device, optimizer, seed):
    inputs, targets = Batches(IDS, 8, 4, Random(seed)).draw()
    with use_random(Random(seed)):
        loss = model.loss(ta.tensor(inputs, device=device), ta.tensor(targets, device=device))
    model.zero_grad()
    loss.backward()
    norm = ta.optim.clip_grad_norm(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), norm


def same(actual, expected, tolerance):
    assert actual.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(
            actual[name], expected[name], rtol=tolerance, atol=tolerance, err_msg=name
        )


def test_CU_01_a_list_of_losses_on_the_device_becomes_an_array_by_asking_for_the_values(device):
    losses = [(ta.tensor([1.0, 2.0], device=device) * k).sum() for k in range(3)]
    assert np.array([loss.item() for loss in losses]).tolist() == [0, 3, 6]
    assert ta.stack(losses).tolist() == [0, 3, 6]
    if device != "cpu":
        with pytest.raises(TypeError, match=r"\.numpy\(\)"):
            np.asarray(losses[0])


@pytest.mark.parametrize(
    "operation",
    [
        lambda t: t / 123456,
        lambda t: t * np.float64(2),
        lambda t: np.float64(2) * t,
        lambda t: t + np.float64(0.5),
        lambda t: t**2,
        lambda t: 2**t,
        lambda t: t / np.sqrt(64),
        lambda t: t.sum() / t.size,
        lambda t: t.mean() * np.int64(3),
        lambda t: ta.where(t > np.float64(1.5), t, np.float64(0)),
        lambda t: ta.clip(t, np.float64(0), np.float64(1)),
    ],
)
def test_CU_02_no_scalar_turns_float32_into_float64(device, operation):
    t = ta.tensor(np.array([1, 2], np.float32), requires_grad=True, device=device)
    y = operation(t)
    assert y.dtype == np.float32
    y.sum().backward()
    assert t.grad.dtype == np.float32


@pytest.mark.parametrize("wrong", [-1.0, np.inf, np.nan, 3e9, 1.0])
def test_CU_04_a_float_is_never_cast_to_an_id(device, wrong):
    ids = ta.tensor(np.array([wrong], np.float32), device=device)
    weight = ta.tensor(np.ones((3, 2), np.float32), device=device)
    logits = ta.tensor(np.zeros((1, 3), np.float32), device=device)
    for use in (
        lambda: ta.embedding(ids, weight),
        lambda: weight[ids],
        lambda: ta.take(weight, ids, axis=0),
        lambda: ta.cross_entropy(logits, ids),
    ):
        with pytest.raises((TypeError, IndexError, ValueError), match="float"):
            use()


def test_CU_05_one_seed_means_the_same_weights_and_batches_on_every_device(device):
    on_device, on_host = make_model(device).state_dict(), make_model("cpu").state_dict()
    assert on_device.keys() == on_host.keys()
    for name, weight in on_host.items():
        assert np.array_equal(on_device[name], weight), name


def test_CU_05_one_seed_means_the_same_dropout_on_every_device(device):
    masks = []
    for name in (device, "cpu"):
        with use_random(Random(3)):
            x = ta.tensor(np.ones((50, 40)), requires_grad=True, device=name)
            y = ta.dropout(x, 0.3)
            y.backward(ta.tensor(np.ones((50, 40)), device=name))
        assert np.array_equal(y.numpy(), x.grad.numpy())
        masks.append(y.numpy())
    assert np.array_equal(masks[0], masks[1])


def test_CU_05_training_on_every_device_follows_the_cpu(device):
    reports = []
    for name in (device, "cpu"):
        model = make_model(name).to("float64")
        optimizer = ta.optim.AdamW(model.parameters(), lr=1e-2)
        reports.append(([step(model, name, optimizer, seed) for seed in range(3)], model))
    np.testing.assert_allclose(reports[0][0], reports[1][0], rtol=1e-10)
    same(reports[0][1].state_dict(), reports[1][1].state_dict(), 1e-9)


def test_CU_05_one_seed_means_the_same_text_on_every_device(device):
    texts = [
        list(generate(make_model(name), [1, 2, 3], 20, random=Random(7)))
        for name in (device, "cpu")
    ]
    assert texts[0] == texts[1]


def test_CU_07_a_checkpoint_of_one_device_is_loaded_on_any_other(device):
    model = make_model(device, seed=1)
    state = model.state_dict()
    assert all(type(array) is np.ndarray for array in state.values())
    stored = arrays_from_bytes(bytes(SavedArrays(state)))
    for there, back in (("cpu", device), ("strict", device), (device, "cpu")):
        other = make_model(there, seed=2)
        other.load_state_dict(stored)
        assert other.device == there
        again = make_model(back, seed=3)
        again.load_state_dict(other.state_dict())
        same(again.state_dict(), state, 0)


def test_CU_07_a_model_moves_between_devices_with_its_values(device):
    model = make_model("cpu")
    state = model.state_dict()
    moved = model.to(device)
    assert moved is model and model.device == device
    same(model.state_dict(), state, 0)
    assert model.to("cpu").device == "cpu"
    same(model.state_dict(), state, 0)
