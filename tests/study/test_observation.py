"""``observe`` returns what the model computes, forward and backward."""

from types import SimpleNamespace

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.data import CharVocabulary
from tinyattn.models import GPT, Encoder, EncoderConfig, GPTConfig
from tinyattn.study import observe

VOCABULARY = "abcdefgh"
TEXT = "abcabhgfacb"


def make_model(**settings):
    ta.manual_seed(3)
    settings = {"layers": 2, "heads": 2, "dim": 16, "block_size": 12, **settings}
    model = GPT(GPTConfig.gpt2(vocabulary_size=len(VOCABULARY), **settings)).to("float64")
    for parameter in model.parameters():  # sharper than at the start of training
        if parameter.ndim == 2:
            parameter.data *= 8
    return model


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_weights_scores_and_gradients_satisfy_the_mathematics(positions):
    model = make_model(positions=positions)
    seen = observe(model, TEXT, vocabulary=VOCABULARY)
    P, dP, dS = seen.weights, seen.gradient, seen.score_gradient
    np.testing.assert_allclose(P.sum(axis=-1), 1, atol=1e-12)
    np.testing.assert_allclose(dS.sum(axis=-1), 0, atol=1e-12)
    e = np.exp(seen.scores - seen.scores.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(P, e / e.sum(axis=-1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(dS, P * (dP - (P * dP).sum(axis=-1, keepdims=True)), atol=1e-12)
    assert np.abs(dS).max() > 1e-4 and np.all(P[..., ~seen.allowed] == 0)


def test_the_gradient_of_a_score_is_the_change_of_the_loss():
    model = make_model()
    seen = observe(model, TEXT, vocabulary=VOCABULARY)
    layer, head, i, j = 0, 1, 6, 2
    step = 1e-5

    def loss(change):
        def push(module, args, output):
            bump = np.zeros(output.shape)
            bump[0, head, i, j] = change
            return output + ta.tensor(bump)

        handle = model.blocks[layer].attention.scores.register_forward_hook(push)
        try:
            return observe(model, TEXT, vocabulary=VOCABULARY, gradients=False).loss
        finally:
            handle.remove()

    numeric = (loss(step) - loss(-step)) / (2 * step)
    assert seen.score_gradient[layer, head, i, j] == pytest.approx(numeric, rel=1e-6)


def test_gradients_of_single_characters_average_to_that_of_the_mean_loss():
    seen = observe(make_model(), TEXT, vocabulary=VOCABULARY)
    last = len(TEXT) - 1
    total = sum(seen.gradient_of(position) for position in range(last)) / last
    np.testing.assert_allclose(total, seen.gradient, atol=1e-14)
    assert seen.loss == pytest.approx(np.nanmean(seen.losses))
    reached = np.flatnonzero(seen.gradient_of(4)[-1].any(axis=(0, 2)))
    assert reached.tolist() == [4], "in the last layer a character's loss reaches its own row only"
    with pytest.raises(ValueError, match="no target character"):
        seen.gradient_of(last)


def test_predictions_are_the_model_s():
    model = make_model()
    seen = observe(model, TEXT, vocabulary=VOCABULARY)
    ids = [VOCABULARY.index(character) for character in TEXT]
    with ta.no_grad():
        expected = ta.softmax(model(ta.tensor([ids])))[0].numpy()
    np.testing.assert_allclose(seen.probabilities, expected, atol=1e-12)
    assert seen.losses[3] == pytest.approx(-np.log(expected[3, ids[4]]))
    assert seen.expected == [*TEXT[1:], None]


def test_norms_by_layer_are_those_of_backward():
    model = make_model()
    seen = observe(model, TEXT, vocabulary=VOCABULARY)
    ids = [VOCABULARY.index(character) for character in TEXT]
    with model.record("blocks.*") as record:
        loss = model.loss(ta.tensor([ids[:-1]]), ta.tensor([ids[1:]]))
    loss.backward()
    series = {one["name"]: one["values"] for one in seen.norms["series"]}
    assert seen.norms["places"] == ["input", "0", "1"]
    for layer in range(2):
        stream = np.linalg.norm(record[f"blocks.{layer}"].gradient)
        assert series["residual stream"][1 + layer] == pytest.approx(stream)
        own = [p.grad.numpy().ravel() for p in model.blocks[layer].feed_forward.parameters()]
        assert series["feed-forward parameters"][1 + layer] == pytest.approx(
            np.linalg.norm(np.concatenate(own))
        )


def test_the_model_is_not_changed():
    model = make_model(dropout=0.5)
    model.train()
    before = model.state_dict()
    one, two = (observe(model, TEXT, vocabulary=VOCABULARY) for _ in range(2))
    assert one.loss == two.loss, "dropout is off"
    assert model.training and model.blocks[0].attention.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module.is_watched for module in model.modules())
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("frozen", ["embedding", "blocks", ""])
def test_gradients_include_frozen_parameters_which_stay_frozen(frozen):
    seen = observe(make_model(), TEXT, vocabulary=VOCABULARY)
    model = make_model()
    part = getattr(model, frozen) if frozen else model
    part.requires_grad_(False)
    found = observe(model, TEXT, vocabulary=VOCABULARY)
    np.testing.assert_array_equal(found.score_gradient, seen.score_gradient)
    np.testing.assert_array_equal(found.gradient_of(3), seen.gradient_of(3))
    assert found.norms["series"][0] == seen.norms["series"][0]
    assert not any(parameter.requires_grad for parameter in part.parameters())


def test_layers_are_shown_in_the_order_of_their_calls():
    class Crossed(ta.nn.Module):
        def __init__(self):
            self.embedding = ta.nn.Embedding(len(VOCABULARY), 8)
            self.second = ta.nn.MultiHeadAttention(8, 2)
            self.unused = ta.nn.MultiHeadAttention(8, 2)
            self.first = ta.nn.MultiHeadAttention(8, 2, kind="window", window=2, causal=True)
            self.head = ta.nn.Linear(8, len(VOCABULARY))

        def forward(self, ids):
            return self.head(self.second(self.first(self.embedding(ids))))

    seen = observe(Crossed(), TEXT, vocabulary=VOCABULARY)
    assert seen.scores.shape == (2, 2, len(TEXT), len(TEXT))
    assert np.isneginf(seen.scores[0]).any() and np.all(np.isfinite(seen.scores[1]))


def test_a_vocabulary_of_another_size_is_refused():
    with pytest.raises(ValueError, match="predicts 8 characters, and the vocabulary has 9"):
        observe(make_model(), TEXT, vocabulary=VOCABULARY + "z")


def test_window_attention_sees_its_band_and_global_tokens():
    model = make_model(attention="window", window=3, global_tokens=1)
    seen = observe(model, TEXT, vocabulary=VOCABULARY)
    i, j = np.indices(seen.allowed.shape)
    np.testing.assert_array_equal(seen.allowed, (j <= i) & ((j > i - 3) | (j == 0)))
    assert (seen.weights[..., seen.allowed] > 0).all() and not seen.weights[
        ..., ~seen.allowed
    ].any()
    with ta.no_grad():
        ids = [VOCABULARY.index(character) for character in TEXT]
        plain = ta.softmax(model(ta.tensor([ids])))[0].numpy()
    np.testing.assert_allclose(seen.probabilities, plain, atol=1e-12)


def test_masked_characters_are_the_targets_of_an_encoder():
    ta.manual_seed(0)
    config = EncoderConfig(vocabulary_size=8, block_size=12, layers=2, heads=2, dim=16, bias=True)
    model = Encoder(config).to("float64")
    seen = observe(model, TEXT, vocabulary=VOCABULARY)
    assert "".join(seen.characters) == "abc▯bhgfac▯"
    assert [i for i, one in enumerate(seen.expected) if one is not None] == [3, 10]
    assert (seen.expected[3], seen.expected[10]) == (TEXT[3], TEXT[10])
    assert seen.allowed.all()
    assert np.isfinite(seen.losses).sum() == 2 and seen.loss == pytest.approx(
        np.nanmean(seen.losses)
    )
    total = (seen.gradient_of(3) + seen.gradient_of(10)) / 2
    np.testing.assert_allclose(total, seen.gradient, atol=1e-14)


@pytest.mark.parametrize(
    ("settings", "text", "vocabulary", "words"),
    [
        ({}, "a", VOCABULARY, "at least 2"),
        ({}, "a" * 13, VOCABULARY, "13 characters: expected at most 12"),
        ({}, "abz", VOCABULARY, "'z'"),
        ({}, TEXT, None, "pass vocabulary="),
        ({"attention": "linear"}, TEXT, VOCABULARY, 'kind="linear"'),
    ],
)
def test_unsupported_models_and_texts_are_refused(settings, text, vocabulary, words):
    with pytest.raises(ValueError, match=words):
        observe(make_model(**settings), text, vocabulary=vocabulary)


def test_a_loaded_run_has_its_vocabulary():
    model = make_model()
    loaded = SimpleNamespace(model=model, vocabulary=CharVocabulary(VOCABULARY))
    seen = observe(loaded, TEXT)
    np.testing.assert_array_equal(seen.weights, observe(model, TEXT, vocabulary=VOCABULARY).weights)
