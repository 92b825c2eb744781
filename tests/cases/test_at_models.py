"""Hard cases AT of models: a text longer than the block size raises, and left padding does not change the logits."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models
from tinyattn.sampling import ContextReader, generate

POSITIONS = pytest.mark.parametrize(
    "positions", ["none", "sinusoidal", "learned", "rotary", "alibi"]
)
BLOCK = 6


def model_of(device, positions, encoder=False):
    ta.manual_seed(0)
    kind, config = (
        (models.Encoder, models.EncoderConfig) if encoder else (models.GPT, models.GPTConfig)
    )
    model = kind(
        config(
            vocabulary_size=9,
            block_size=BLOCK,
            layers=2,
            heads=2,
            dim=8,
            positions=positions,
            bias=True,
            qk_norm=False,
        )
    )
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data = parameter._data * 10
    return model.to("float64").to(device).eval()


def logits(model, ids, **options):
    with ta.no_grad():
        return model(ta.tensor(ids, device=model.device), **options).numpy()


@POSITIONS
@pytest.mark.parametrize("use_cache", [True, False])
def test_AT_13_a_text_longer_than_the_block_is_read_from_its_last_block(
    device, positions, use_cache, random
):
    model = model_of(device, positions)
    prompt = random.integers(0, 9, BLOCK + 5).tolist()
    reader = ContextReader(model, BLOCK, use_cache=use_cache)
    with ta.no_grad():
        found = reader.logits(prompt)
    np.testing.assert_allclose(found, logits(model, [prompt[-BLOCK:]])[0, -1], rtol=0, atol=1e-10)
    long = list(generate(model, prompt, 4, temperature=0, use_cache=use_cache))
    short = list(generate(model, prompt[-BLOCK:], 4, temperature=0, use_cache=use_cache))
    assert long == short


@POSITIONS
@pytest.mark.parametrize("encoder", [False, True])
def test_AT_13_the_model_itself_refuses_more_tokens_than_its_block(device, positions, encoder):
    model = model_of(device, positions, encoder)
    logits(model, [[1] * BLOCK])
    with pytest.raises(ValueError, match=f"{BLOCK + 1} tokens do not fit the block_size {BLOCK}"):
        logits(model, [[1] * (BLOCK + 1)])


@POSITIONS
@pytest.mark.parametrize("encoder", [False, True])
def test_AT_14_padding_on_the_left_changes_nothing(device, positions, encoder):
    model = model_of(device, positions, encoder)
    mask = ta.tensor([[False, False, True, True]], device=device)
    found = logits(model, [[7, 7, 3, 5]], padding_mask=mask)
    expected = logits(model, [[3, 5]])
    np.testing.assert_allclose(found[:, 2:], expected, rtol=0, atol=1e-10)
    assert np.abs(logits(model, [[7, 7, 3, 5]])[:, 2:] - expected).max() > 1e-3
