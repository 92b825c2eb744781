"""Reading single tokens in plain NumPy: equal to the modules, and left aside wherever they must run."""

import gc
import weakref

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models

LENGTH = 40  # beyond the room that a cache begins with


def small(dtype="float64", **options):
    ta.manual_seed(0)
    options = {
        "vocabulary_size": 13,
        "block_size": LENGTH,
        "layers": 2,
        "heads": 2,
        "dim": 8,
    } | options
    model = models.GPT(models.GPTConfig(**options)).to(dtype)
    generator = np.random.default_rng(1)
    for parameter in model.parameters():  # no bias at 0, no norm's weight at 1
        parameter.data = parameter._data + generator.normal(0, 0.2, parameter.shape)
    return model


@pytest.fixture
def ids(random):
    return random.integers(0, 13, (1, LENGTH))


def read(model, ids, chunks):
    """The logits of all tokens, read in chunks, and the cache."""
    cache, parts, start = model.cache(), [], 0
    with ta.no_grad():
        for length in chunks:
            parts.append(model(ids[:, start : start + length], cache=cache).numpy())
            start += length
    return np.concatenate(parts, axis=1), cache


@pytest.mark.parametrize("positions", ["none", "sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "qk_norm": True, "activation": "gelu_tanh"},
        {"norm": "post", "activation": "relu", "tie_head": False},
        {"normalisation": "rms_norm", "activation": "relu_squared", "qk_norm": True},
        {"activation": "silu", "attention": "flash", "feed_forward_dim": 12},
    ],
)
def test_every_setting_gives_the_logits_of_the_modules(positions, options, ids):
    model = small(positions=positions, **options)
    found, cache = read(model, ids, [3] + [1] * (LENGTH - 3))
    assert cache.decoder is not None
    with ta.no_grad():
        whole = model(ids).numpy()
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-10)
    assert cache.length == LENGTH


def test_chunks_and_single_tokens_may_follow_each_other(ids):
    model = small(positions="rotary")
    found, _ = read(model, ids, [1, 1, 5, 1, 1, 20, 1, 10])
    expected, _ = read(model, ids, [LENGTH])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_float32_stays_float32_and_near_float64(ids):
    model = small("float32", positions="rotary", qk_norm=True)
    found, cache = read(model, ids, [1] * LENGTH)
    assert found.dtype == np.float32 and cache.decoder is not None
    exact, _ = read(small(positions="rotary", qk_norm=True), ids, [1] * LENGTH)
    np.testing.assert_allclose(found, exact, atol=1e-4)


def test_a_cache_dies_with_its_last_reference(ids):
    gc.disable()
    try:
        _, cache = read(small(), ids, [4, 1])
        assert cache.decoder is not None
        alive = weakref.ref(cache.layers[0])
        del cache
        assert alive() is None
    finally:
        gc.enable()


def test_changed_weights_are_noticed(ids):
    model = small()
    _, cache = read(model, ids, [4, 1])
    first = cache.decoder
    with ta.no_grad():
        model(ids[:, 5:6], cache=cache)
        assert cache.decoder is first
        model.embedding.weight.data[...] = 0
        assert np.all(model(ids[:, 6:7], cache=cache).numpy() == 0)
    assert cache.decoder is not first


def test_hooks_are_called_and_may_change_the_result(ids):
    model = small()
    _, cache = read(model, ids, [4, 1])
    seen = []
    handle = model.blocks[0].attention.weights.register_forward_hook(
        lambda module, args, weights: seen.append(weights.shape)
    )
    with ta.no_grad():
        model(ids[:, 5:6], cache=cache)
        handle.remove()
        model(ids[:, 6:7], cache=cache)
    assert seen == [(1, 2, 1, 6)]


def test_dropout_in_training_is_not_forgotten(ids):
    model = small(dropout=0.5)

    def last(mode):
        model.eval()
        _, cache = read(model, ids, [4])
        with ta.no_grad():
            return model.train(mode)(ids[:, 4:5], cache=cache).numpy()

    ta.manual_seed(0)
    assert not np.array_equal(last(True), last(True))
    np.testing.assert_array_equal(last(False), last(False))


def test_large_scores_do_not_overflow(ids):
    model = small("float32", positions="rotary")
    for block in model.blocks:
        block.attention.query.weight.data = block.attention.query.weight._data * 1000
    found, cache = read(model, ids, [1] * LENGTH)
    assert cache.decoder is not None and np.all(np.isfinite(found))


@pytest.mark.parametrize(
    "options", [{"positions": "alibi"}, {"attention": "window"}, {"attention": "linear"}]
)
def test_what_it_does_not_know_is_left_to_the_modules(options, ids):
    assert read(small(**options), ids, [4, 1])[1].decoder is None


class Doubled(ta.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def replace_by_subclass(model):
    other = Doubled(8, 8).to("float64")
    other.load_state_dict(model.blocks[0].attention.query.state_dict())
    model.blocks[0].attention.query = other


def replace_norm(model):
    model.blocks[1].norm2 = ta.nn.Identity()


def replace_eps(model):
    model.norm = ta.nn.RMSNorm(8).to("float64")


def replace_forward(model):
    model.blocks[0].feed_forward.forward = lambda x: -x


def narrow_the_attention(model):
    model.blocks[0].attention.kind, model.blocks[0].attention.options = "window", {"window": 2}


def replace_activation(model):
    model.blocks[0].feed_forward.activation = ta.nn.Activation("relu")


def normalise_queries(model):
    model.blocks[1].attention.qk_norm = True


def drop_a_bias(model):
    model.blocks[1].attention.key.bias = model.blocks[0].feed_forward.contract.bias = None


def untie_the_head(model):
    model.head = ta.nn.Linear(8, 13, bias=False).to("float64")


UNKNOWN = [replace_by_subclass, replace_norm, replace_eps, replace_forward, narrow_the_attention]
CHANGES = [replace_activation, normalise_queries, drop_a_bias, untie_the_head]


@pytest.mark.parametrize("change", UNKNOWN + CHANGES)
@pytest.mark.parametrize("midway", [False, True])
def test_a_model_that_was_rebuilt_by_hand_is_read_as_it_is_now(change, midway, ids):
    model = small()
    if midway:
        _, cache = read(model, ids, [4, 1])
        assert cache.decoder is not None
        change(model)
        with ta.no_grad():
            found = model(ids[:, 5:6], cache=cache)
        # What the cache holds was computed before the change: the modules must go on from the same.
        _, other = read(small(), ids, [5])
        with ta.no_grad():
            expected = model(np.repeat(ids[:, 5:6], 2, axis=1), cache=other)[:, :1]
    else:
        change(model)
        found, cache = read(model, ids, [4, 1, 1])
        assert (cache.decoder is None) == (change in UNKNOWN)
        found = found[:, -1:]
        expected, _ = read(model, ids, [6])
        expected = expected[:, -1:]
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=0, atol=1e-10)


def test_a_subclass_of_gpt_computes_what_it_says(ids):
    class Louder(models.GPT):
        def logits(self, x):
            return 2 * super().logits(x)

    plain = small()
    model = Louder(plain.config).to("float64")
    model.load_state_dict(plain.state_dict())
    found, _ = read(model, ids, [4, 1, 1])
    expected, _ = read(plain, ids, [6])
    np.testing.assert_allclose(found, 2 * expected, rtol=0, atol=1e-10)


def test_rules_gradients_batches_and_padding_are_left_to_the_modules(ids):
    model = small()
    one = ids[:, :1]
    with ta.reference():
        assert read(model, ids, [4, 1])[1].decoder is None
    cache = model.cache()
    assert model(one, cache=cache).requires_grad
    assert model(one, cache=cache).requires_grad and cache.decoder is None
    with ta.no_grad():
        cache = model.cache()
        model(np.repeat(one, 3, axis=0), cache=cache)
        model(np.repeat(one, 3, axis=0), cache=cache)
        assert cache.decoder is None
        with pytest.raises(ValueError, match="begin a new cache"):
            model(one, cache=cache)
        cache = model.cache()
        model(one, cache=cache, padding_mask=np.array([[True]]))
        model(one, cache=cache)
        assert cache.decoder is None


def test_errors_are_those_of_the_modules(ids):
    model = small()
    _, cache = read(model, ids, [4, 1])
    with ta.no_grad():
        for wrong in (13, -1):
            with pytest.raises(IndexError, match=str(wrong)):
                model(np.array([[wrong]]), cache=cache)
        assert cache.length == 5
        _, cache = read(model, ids, [LENGTH])
        with pytest.raises(ValueError, match=f"1 tokens after {LENGTH} in the cache do not fit"):
            model(ids[:, :1], cache=cache)


def test_a_cache_that_was_recorded_goes_on_unrecorded(ids):
    model = small()
    cache = model.cache()
    assert model(ids[:, :4], cache=cache).requires_grad
    with ta.no_grad():
        parts = [model(ids[:, t : t + 1], cache=cache).numpy() for t in range(4, 8)]
        whole = model(ids[:, :8]).numpy()
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole[:, 4:], rtol=0, atol=1e-10)
