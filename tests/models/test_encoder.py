"""The encoder: bidirectional, independent of padding, and able to learn masked language modeling."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models, optim
from tinyattn.backend import Random

POSITIONS = pytest.mark.parametrize(
    "positions", ["none", "sinusoidal", "learned", "rotary", "alibi"]
)


def small(device="cpu", dtype="float64", **options):
    ta.manual_seed(0)
    options = {
        "vocabulary_size": 13,
        "block_size": 10,
        "layers": 2,
        "heads": 2,
        "dim": 8,
        "bias": True,
        "positions": "learned",
        "qk_norm": False,
    } | options
    model = models.Encoder(models.EncoderConfig(**options)).to(dtype).to(device)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data = parameter._data * 10
    return model


def logits(model, ids, device, **options):
    with ta.no_grad():
        return model(ta.tensor(ids, device=device), **options).numpy()


@POSITIONS
@pytest.mark.parametrize("kind", ["auto", "dense", "linear"])
def test_every_token_sees_every_other(positions, kind, device, random):
    if (positions, kind) == ("alibi", "linear"):
        pytest.skip("linear attention has no scores to shift")
    model = small(device, positions=positions, attention=kind)
    ids = random.integers(0, 13, (1, 7))
    before = logits(model, ids, device)
    ids[0, 3] = (ids[0, 3] + 1) % 13
    assert np.all(np.abs(logits(model, ids, device) - before).max(axis=-1) > 1e-9)


@POSITIONS
@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_padding_on_either_side_changes_no_logit_of_a_real_token(
    positions, left, norm, device, random
):
    model = small(device, positions=positions, norm=norm)
    ids = random.integers(0, 13, (2, 6))
    padded = np.full((2, 9), 5)
    padded[:, left : left + 6] = ids
    mask = np.zeros((2, 9), bool)
    mask[:, left : left + 6] = True
    found = logits(model, padded, device, padding_mask=ta.tensor(mask, device=device))
    np.testing.assert_allclose(
        found[:, left : left + 6], logits(model, ids, device), rtol=0, atol=1e-10
    )


def test_the_mask_token_is_read_and_never_predicted(device):
    model = small(device)
    assert model.mask_id == 13
    assert logits(model, [[1, 13, 2]], device).shape == (1, 3, 13)
    with pytest.raises(IndexError, match="14"):
        logits(model, [[14]], device)


def test_it_is_post_norm_and_bidirectional_by_default():
    model = small()
    assert model.norm is None and model.blocks[0].norm == "post"
    assert not model.blocks[0].attention.causal


def test_it_learns_to_predict_masked_tokens(random):
    model = small(dtype="float32", dim=16)
    ids = (random.integers(0, 13, (16, 1)) + np.arange(10)) % 13
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    stream = Random(1)
    losses = []
    for _ in range(130):
        inputs, targets = models.mask_tokens(ids, vocabulary_size=13, random=stream)
        model.zero_grad()
        loss = model.loss(inputs, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-20:]) < 1.6 and losses[0] > 2.3


def test_masking_takes_the_shares_of_bert():
    ids = Random(0).integers(0, 50, (400, 100))
    inputs, targets = models.mask_tokens(ids, vocabulary_size=50, random=Random(1))
    chosen = targets != -100
    assert chosen.mean() == pytest.approx(0.15, abs=0.01)
    assert np.array_equal(targets[chosen], ids[chosen])
    assert np.array_equal(inputs[~chosen], ids[~chosen])
    assert (inputs[chosen] == 50).mean() == pytest.approx(0.8, abs=0.02)
    assert (inputs[chosen] == ids[chosen]).mean() == pytest.approx(0.1 + 0.1 / 50, abs=0.02)


def test_masking_takes_ids_in_the_type_of_a_vocabulary():
    ids = np.arange(250, dtype=np.uint8)
    inputs, targets = models.mask_tokens(ids, vocabulary_size=300, share=1.0, random=Random(0))
    assert np.array_equal(targets, np.arange(250)) and 300 in inputs
    _, targets = models.mask_tokens(ids, vocabulary_size=300, random=Random(0))
    assert -100 in targets


@pytest.mark.parametrize(
    "ids, share", [(np.zeros(0, int), 0.15), (np.zeros(3), 0.15), (np.zeros(3, int), 15)]
)
def test_masking_refuses_what_it_cannot_mask(ids, share):
    with pytest.raises(ValueError, match=r"expected at least one integer|between 0 and 1"):
        models.mask_tokens(ids, vocabulary_size=5, share=share)


def test_masking_chooses_at_least_one_token():
    inputs, targets = models.mask_tokens(np.zeros((2, 3), int), vocabulary_size=5, share=0.0)
    assert (targets != -100).sum() == 1
    assert inputs.shape == targets.shape == (2, 3)
