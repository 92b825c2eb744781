"""GPT: initial loss, causality, caches, padding, limits, and that it learns."""

import copy
import dataclasses
import json
import math

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models, nn, optim

POSITIONS = pytest.mark.parametrize(
    "positions", ["none", "sinusoidal", "learned", "rotary", "alibi"]
)


NANOGPT = {"vocabulary_size": 65, "block_size": 64, "layers": 4, "heads": 4, "dim": 128}


def small(device="cpu", dtype="float64", **options):
    ta.manual_seed(0)
    # Some models have embeddings of previous tokens too.
    bigram_rows = 200 if options.get("positions") == "rotary" else 0
    previous_embedding = options.get("positions") in ("learned", "rotary")
    options = {"bigram_rows": bigram_rows, "previous_embedding": previous_embedding, **options}
    options = {"vocabulary_size": 13, "block_size": 10, "layers": 2, "heads": 2, "dim": 8} | options
    model = models.GPT(models.GPTConfig.gpt2(**options)).to(dtype).to(device)
    # Larger weights than the initial ones, so that a fault is larger than rounding.
    for _, parameter in model.named_parameters():
        if parameter.ndim == 2:
            parameter.data = parameter._data * 10
    for table in (model.bigrams, model.previous_embedding):  # whose initial vectors are 0
        if table is not None:
            table.weight.data = np.random.default_rng(0).normal(0, 0.2, table.weight.shape)
    return model


@pytest.fixture
def ids(device, random):
    return ta.tensor(random.integers(0, 13, (3, 9)), device=device)


def logits(model, ids, **options):
    with ta.no_grad():
        return model(ids, **options).numpy()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_initial_loss_is_that_of_a_uniform_distribution(seed, random):
    ta.manual_seed(seed)
    model = models.GPT(models.GPTConfig(vocabulary_size=65))
    ids, targets = random.integers(0, 65, (2, 8, 64))
    assert model.loss(ids, targets).item() == pytest.approx(math.log(65), rel=0.02)


def test_initial_weights_are_gpt2s():
    ta.manual_seed(0)
    model = models.GPT(models.GPTConfig.gpt2(**NANOGPT | {"layers": 8}))
    for name, parameter in model.named_parameters():
        values = parameter.numpy()
        if name.endswith("bias"):
            assert np.all(values == 0)
        elif parameter.ndim == 1:
            assert np.all(values == 1)
        else:
            small = name.endswith(("project.weight", "contract.weight"))
            expected = 0.02 / math.sqrt(16) if small else 0.02
            assert values.std() == pytest.approx(expected, rel=0.05), name
            assert abs(values.mean()) < 0.05 * expected


def test_nanogpts_small_model_has_its_number_of_parameters():
    model = models.GPT(models.GPTConfig.gpt2(**NANOGPT, bias=False))
    assert model.parameter_count() == 65 * 128 + 64 * 128 + 4 * (12 * 128 * 128 + 2 * 128) + 128


def test_initial_weights_depend_on_the_seed_and_not_on_the_device(device):
    config = models.GPTConfig(layers=1, heads=2, dim=8)
    ta.manual_seed(3)
    with ta.device(device):
        model = models.GPT(config)
    ta.manual_seed(3)
    other = models.GPT(config).state_dict()
    assert model.device == device
    assert all(np.array_equal(array, other[name]) for name, array in model.state_dict().items())


@POSITIONS
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("chunks", [(9,), (4, 1, 1, 3)])
def test_a_cache_changes_no_logit(positions, norm, chunks, device, ids):
    model = small(device, positions=positions, norm=norm, qk_norm=norm == "pre")
    whole = logits(model, ids)
    cache, start = model.cache(), 0
    for length in chunks:
        part = logits(model, ids[:, start : start + length], cache=cache)
        np.testing.assert_allclose(part, whole[:, start : start + length], rtol=0, atol=1e-10)
        start += length
    assert cache.length == 9


@POSITIONS
@pytest.mark.parametrize("kind", ["auto", "dense", "window", "linear"])
def test_a_later_token_changes_no_earlier_logit(positions, kind, device, ids):
    if (positions, kind) == ("alibi", "linear"):
        pytest.skip("linear attention has no scores to shift")
    model = small(device, positions=positions, attention=kind, window=4)
    before = logits(model, ids)
    host = ids.numpy()
    host[:, 5] = (host[:, 5] + 1) % 13
    after = logits(model, ta.tensor(host, device=device))
    np.testing.assert_array_equal(before[:, :5], after[:, :5])
    assert np.all(np.abs(before[:, 5] - after[:, 5]).max(axis=-1) > 1e-6)


@POSITIONS
def test_left_padding_changes_no_logit_of_a_real_token(positions, device, ids):
    model = small(device, positions=positions)
    host = ids.numpy()
    padded = np.concatenate([np.full((3, 1), 12), host], axis=1)
    padded[1, :4] = 12
    mask = np.ones((3, 10), bool)
    mask[:, 0] = False
    mask[1, :4] = False
    found = logits(
        model, ta.tensor(padded, device=device), padding_mask=ta.tensor(mask, device=device)
    )
    whole = logits(model, ids)
    np.testing.assert_allclose(found[[0, 2], 1:], whole[[0, 2]], rtol=0, atol=1e-10)
    short = logits(model, ta.tensor(host[1:2, 3:], device=device))
    np.testing.assert_allclose(found[1, 4:], short[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["auto", "dense", "linear"])
@POSITIONS
@pytest.mark.parametrize("cached", [False, True])
def test_padding_within_a_text_does_not_count_as_a_position(cached, positions, kind, device, ids):
    if (positions, kind) == ("alibi", "linear"):
        pytest.skip("linear attention has no scores to shift")
    model = small(device, positions=positions, attention=kind)
    whole = logits(model, ids[:, :7])
    host = ids.numpy()
    padding = np.full((3, 2), 12)
    padded = ta.tensor(np.concatenate([host[:, :4], padding, host[:, 4:7]], axis=1), device=device)
    mask = np.array([[True] * 4 + [False] * 2 + [True] * 3] * 3)
    cache = model.cache() if cached else None
    parts = [slice(0, 6), slice(6, 7), slice(7, 9)] if cached else [slice(0, 9)]
    found = [
        logits(
            model,
            padded[:, part],
            padding_mask=ta.tensor(mask[:, part], device=device),
            cache=cache,
        )
        for part in parts
    ]
    found = np.concatenate(found, axis=1)[:, mask[0]]
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_an_error_leaves_a_cache_with_padding_unchanged(positions, device, ids):
    model = small(device, positions=positions)
    mask = ta.tensor([[False, True, True]], device=device)
    whole = logits(model, ids[:1, :4], padding_mask=[[False, True, True, True]])
    cache = model.cache()
    logits(model, ids[:1, :3], cache=cache, padding_mask=mask)
    with pytest.raises(IndexError, match="99"):
        logits(model, ta.tensor([[99]], device=device), cache=cache)
    rest = logits(model, ids[:1, 3:4], cache=cache)
    np.testing.assert_allclose(rest, whole[:, 3:], rtol=0, atol=1e-10)


def test_a_padding_mask_of_numbers_or_of_another_shape_is_refused(device, ids):
    model = small(device)
    with pytest.raises(TypeError, match="int64: expected booleans"):
        model(ids, padding_mask=ta.tensor(np.ones((3, 9), int), device=device))
    with pytest.raises(ValueError, match=r"shape \(1, 3\) and the ids \(3, 9\)"):
        model(ids, padding_mask=ta.tensor([[True] * 3], device=device))


@pytest.mark.parametrize("shape", [(), (2, 0)])
def test_ids_without_a_token_are_refused(shape, device):
    with pytest.raises(ValueError, match="at least one token"):
        small(device)(ta.zeros(shape, dtype=int, device=device))


def test_ring_attention_continues_from_a_cache(device, ids):
    model = small(device, attention="ring")
    whole = logits(model, ids)
    cache = model.cache()
    found = [
        logits(model, ids[:, part], cache=cache) for part in (slice(0, 4), slice(4, 5), slice(5, 9))
    ]
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["auto", "window", "linear"])
@POSITIONS
def test_left_padding_and_a_cache_go_together(positions, kind, device, ids):
    if (positions, kind) == ("alibi", "linear"):
        pytest.skip("linear attention has no scores to shift")
    model = small(device, positions=positions, attention=kind, window=4)
    mask = np.ones((3, 9), bool)
    mask[0, :2] = False
    whole = logits(model, ids, padding_mask=ta.tensor(mask, device=device))
    cache = model.cache()
    logits(model, ids[:, :5], cache=cache, padding_mask=ta.tensor(mask[:, :5], device=device))
    rest = logits(model, ids[:, 5:], cache=cache)
    np.testing.assert_allclose(rest, whole[:, 5:], rtol=0, atol=1e-10)


def test_more_tokens_than_the_block_size_are_refused_with_both_numbers(device):
    model = small(device)
    with pytest.raises(ValueError, match="11 tokens do not fit the block_size 10"):
        model(ta.zeros((1, 11), dtype=int, device=device))
    cache = model.cache()
    logits(model, ta.zeros((1, 8), dtype=int, device=device), cache=cache)
    with pytest.raises(ValueError, match="3 tokens after 8 in the cache do not fit"):
        model(ta.zeros((1, 3), dtype=int, device=device), cache=cache)


def test_an_id_outside_the_vocabulary_is_refused(device):
    with pytest.raises(IndexError, match="13"):
        small(device)(ta.tensor([[1, 13]], device=device))


@pytest.mark.parametrize("shape", [(0, 5), (4,), (1, 1), (2, 3, 4)])
def test_any_leading_axes_are_kept(shape, device):
    model = small(device)
    assert model(ta.zeros(shape, dtype=int, device=device)).shape == (*shape, 13)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@POSITIONS
def test_it_overfits_a_simple_rule(positions, optimizer, random):
    model = small(dtype="float32", positions=positions, qk_norm=True, dim=16)
    ids = (
        random.integers(0, 13, (16, 1)) + np.arange(10)
    ) % 13  # each token is the one before plus 1
    named = model.named_parameters()
    optimizers = [optim.AdamW(named, lr=1e-2)]
    if optimizer == "muon":
        groups, rest = models.split_for_muon(model)
        optimizers = [optim.Muon(groups, lr=0.02), optim.AdamW(rest, lr=1e-2)]
    first = model.loss(ids[:, :-1], ids[:, 1:]).item()
    for _ in range(30):
        model.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        for one in optimizers:
            one.step()
    assert loss.item() < 0.5 < first


def test_dropout_acts_in_training_and_not_in_evaluation(device, ids):
    model = small(device, dropout=0.5)
    assert not np.array_equal(logits(model, ids), logits(model, ids))
    with nn.evaluating(model):
        expected = logits(model, ids)
        assert np.array_equal(logits(model, ids), expected)
        np.testing.assert_allclose(logits(small(device), ids), expected)
    assert model.training


def test_dropout_follows_the_seed(device, ids):
    model = small(device, dropout=0.5)
    ta.manual_seed(1)
    first = logits(model, ids)
    ta.manual_seed(1)
    np.testing.assert_array_equal(logits(model, ids), first)


def test_targets_of_minus_100_do_not_count(device, ids):
    model = small(device)
    targets = ids.numpy()
    targets[1:] = -100
    whole = model.loss(ids, ta.tensor(targets, device=device)).item()
    assert whole == pytest.approx(model.loss(ids[:1], ids[:1]).item(), abs=1e-12)


def test_kernels_and_rules_give_the_same_loss_and_gradients(ids, device):
    model = small(device, positions="rotary", qk_norm=True)

    def gradients():
        model.zero_grad()
        model.loss(ids, ids).backward()
        return [parameter.grad.numpy() for parameter in model.parameters()]

    fast = gradients()
    with ta.reference():
        for one, other in zip(fast, gradients()):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)


def test_weights_of_any_layer_can_be_recorded_without_changing_the_loss(device, ids):
    model = small(device)
    plain = model.loss(ids, ids).item()
    with model.record("attention.weights") as record:
        watched = model.loss(ids, ids)
    assert watched.item() == pytest.approx(plain, abs=1e-12)
    assert list(record.shapes.values()) == [(3, 2, 9, 9)] * 2


def test_a_copy_is_trained_independently(device, ids):
    model = small(device)
    expected = logits(model, ids)
    copied = copy.deepcopy(model)
    optimizer = optim.SGD(copied.parameters(), lr=1.0)
    copied.loss(ids, ids).backward()
    optimizer.step()
    assert not np.array_equal(logits(copied, ids), expected)
    np.testing.assert_array_equal(logits(model, ids), expected)
    assert model.embedding.weight.grad is None


def test_a_state_moves_between_models(device, ids):
    model = small(device, tie_head=False)
    ta.manual_seed(9)
    other = models.GPT(model.config).to("float64").to(device)
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(logits(other, ids), logits(model, ids))
    with pytest.raises(ValueError, match=r"head\.weight is not a parameter"):
        small(device).load_state_dict(model.state_dict())


def test_the_config_survives_json():
    config = models.GPTConfig(positions="rotary", activation="gelu_tanh", dropout=0.1)
    assert models.GPTConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layers": 0}, "layers must be at least 1, given 0"),
        ({"heads": 3}, "dim 128 is not a multiple of heads 3"),
        ({"positions": "spiral"}, "positions must be one of rotary.*'spiral'"),
        ({"activation": "tan"}, "activation must be one of"),
        ({"norm": "middle"}, "norm must be one of pre, post"),
        ({"norm_kind": "batch"}, "norm_kind must be"),
        ({"attention": "fast"}, "unknown attention kind 'fast': expected one of .*dense"),
        (
            {"positions": "rotary", "heads": 128},
            "head_dim, got 1: choose dim and heads with an even quotient",
        ),
        ({"feed_forward_dim": 0}, "feed_forward_dim must be at least 1"),
        ({"attention": "window", "window": 0}, "window must be at least 1"),
    ],
)
def test_impossible_settings_are_refused_when_the_configuration_is_made(options, words):
    with pytest.raises(ValueError, match=words):
        models.GPTConfig(**options)


def test_repr_shows_what_differs_from_the_defaults():
    text = repr(models.GPT(models.GPTConfig(layers=3, heads=2, dim=8)))
    assert text.startswith("GPT(layers=3, dim=8, heads=2\n  embedding: Embedding(65, 8)\n")
    assert "0 to 2: TransformerBlock" in text


def test_padding_may_begin_after_the_first_tokens_of_a_cache(device, ids):
    model = small(device, positions="learned")
    mask = np.ones((3, 9), bool)
    mask[1, 5:7] = False
    whole = logits(model, ids, padding_mask=ta.tensor(mask, device=device))
    cache = model.cache()
    logits(model, ids[:, :4], cache=cache)
    later = ta.tensor(mask[:, 4:], device=device)
    rest = logits(model, ids[:, 4:], cache=cache, padding_mask=later)
    np.testing.assert_allclose(rest, whole[:, 4:], rtol=0, atol=1e-10)


def test_a_cache_is_of_this_model_and_of_its_type(device, ids):
    model = small(device)
    other = models.GPT(dataclasses.replace(model.config, layers=1)).cache()
    for wrong in (other, models.RNN(models.RNNConfig(layers=2)).cache(), []):
        with pytest.raises(ValueError, match=r"not a cache of a model with 2 layers"):
            model(ids, cache=wrong)
        with ta.no_grad(), pytest.raises(ValueError, match="not a cache of a model"):
            model(ids[:1, :1], cache=wrong)
    cache = model.cache()
    logits(model, ids[:, :4], cache=cache)
    model.to("float32")
    with pytest.raises(ValueError, match=r"float64 keys .* got float32 keys .* create a new cache"):
        logits(model, ids[:, 4:5], cache=cache)


def test_a_dict_is_rejected_as_configuration():
    with pytest.raises(TypeError, match=r"got dict: write GPT\(GPTConfig\(\.\.\.\)\)"):
        models.GPT({"layers": 1})
