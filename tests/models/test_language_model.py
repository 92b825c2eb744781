"""Language models with a state per layer, RNN and CNN: causality, caches and receptive fields."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models, optim

BOTH = pytest.mark.parametrize("name", ["rnn", "cnn"])


def small(name, device="cpu", dtype="float64", **options):
    ta.manual_seed(0)
    if name == "rnn":
        options = {"vocabulary_size": 13, "layers": 2, "dim": 8, "bias": True} | options
        model = models.RNN(models.RNNConfig(**options))
    else:
        options = {
            "vocabulary_size": 13,
            "layers": 2,
            "dim": 8,
            "bias": True,
            "dilation": 1,
        } | options
        model = models.CNN(models.CNNConfig(**options))
    return model.to(dtype).to(device)


def logits(model, ids, device, **options):
    with ta.no_grad():
        return model(ta.tensor(ids, device=device), **options).numpy()


@BOTH
def test_without_biases_there_are_none(name):
    assert not [path for path, _ in small(name, bias=False).named_parameters() if "bias" in path]


@BOTH
def test_a_later_token_changes_no_earlier_logit(name, device, random):
    model = small(name, device)
    ids = random.integers(0, 13, (2, 8))
    before = logits(model, ids, device)
    ids[:, 4] = (ids[:, 4] + 1) % 13
    after = logits(model, ids, device)
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert np.all(np.abs(before[:, 4] - after[:, 4]).max(axis=-1) > 1e-6)


@pytest.mark.parametrize("dilation", [1, 2])
def test_a_cnn_sees_its_receptive_field_and_nothing_beyond(dilation, device, random):
    model = small("cnn", device, dilation=dilation)
    field = model.config.receptive_field
    assert field == {1: 5, 2: 7}[dilation]
    ids = random.integers(0, 13, (1, 12))
    before = logits(model, ids, device)
    ids[0, 2] = (ids[0, 2] + 1) % 13
    changed = np.abs(logits(model, ids, device) - before).max(axis=-1)[0] > 0
    assert changed.tolist() == [2 <= position < 2 + field for position in range(12)]


def test_an_rnn_sees_all_the_past(device, random):
    model = small("rnn", device)
    ids = random.integers(0, 13, (1, 30))
    before = logits(model, ids, device)
    ids[0, 0] = (ids[0, 0] + 1) % 13
    assert np.all(np.abs(logits(model, ids, device) - before).max(axis=-1) > 0)


@BOTH
@pytest.mark.parametrize("chunks", [(4, 4), (1, 1, 6), (8,)])
def test_a_cache_changes_no_logit(name, chunks, device, random):
    model = small(name, device)
    ids = random.integers(0, 13, (2, 8))
    whole = logits(model, ids, device)
    cache, start = model.cache(), 0
    for length in chunks:
        part = logits(model, ids[:, start : start + length], device, cache=cache)
        np.testing.assert_allclose(part, whole[:, start : start + length], rtol=0, atol=1e-12)
        start += length
    assert cache.length == 8


@BOTH
def test_it_learns_a_rule_by_heart(name, random):
    model = small(name, dtype="float32", dim=16)
    ids = (random.integers(0, 13, (16, 1)) + np.arange(6)) % 13
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    first = model.loss(ids[:, :-1], ids[:, 1:]).item()
    for _ in range(60):
        model.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5 < first


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (models.GPT, models.GPTConfig),
        (models.Encoder, models.EncoderConfig),
        (models.RNN, models.RNNConfig),
        (models.CNN, models.CNNConfig),
    ],
)
def test_nested_lists_are_read_on_the_models_device(kind, config, device):
    model = kind(config(vocabulary_size=5, layers=1, dim=8)).to(device)
    loss = model.loss([[1, 2, 3]], [[2, 3, -100]])
    assert loss.device == device and loss.shape == ()


@BOTH
def test_float32_stays_float32(name, device):
    model = small(name, device, "float32")
    model.loss(
        ta.tensor([[1, 2, 3]], device=device), ta.tensor([[2, 3, 4]], device=device)
    ).backward()
    dtypes = {parameter.grad.dtype for parameter in model.parameters()}
    assert dtypes == {np.dtype("float32")}


@pytest.mark.parametrize(("name", "parts"), [("rnn", [3]), ("cnn", [1])])
def test_muon_takes_the_matrices_of_the_blocks(name, parts):
    groups, rest = models.split_for_muon(small(name))
    assert [group["parts"] for group in groups] == parts
    taken = [parameter for group in groups for _, parameter in group["params"]]
    assert all(parameter.ndim == 2 for parameter in taken)
    assert len(taken) + len(rest) == len(small(name).parameters())
    optim.Muon(groups)
