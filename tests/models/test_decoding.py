"""Decoder: equal to the modules, and an error for models that it does not support."""

import gc
import weakref

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models, sampling
from tinyattn.backend import Random
from tinyattn.models.decoding import unsupported

LENGTH = 40  # longer than the initial capacity of a cache


def small(dtype="float64", **options):
    ta.manual_seed(0)
    options = {
        "vocabulary_size": 13,
        "block_size": LENGTH,
        "layers": 2,
        "heads": 2,
        "dim": 8,
    } | options
    model = models.GPT(models.GPTConfig.gpt2(**options)).to(dtype)
    generator = np.random.default_rng(1)
    for parameter in model.parameters():  # no bias at 0, no norm's weight at 1
        parameter.data = parameter._data + generator.normal(0, 0.2, parameter.shape)
    return model


@pytest.fixture
def ids(random):
    return random.integers(0, 13, (1, LENGTH))


def read(model, ids, chunks, cache=None):
    """The logits of all tokens, which the modules read in chunks, and the cache."""
    cache, parts = model.cache() if cache is None else cache, []
    start = cache.length
    with ta.no_grad():
        for length in chunks:
            parts.append(model(ids[:, start : start + length], cache=cache).numpy())
            start += length
    return np.concatenate(parts, axis=1), cache


def decode(model, ids, count, cache=None):
    """The logits of ``count`` tokens, which a decoder reads one by one, and the cache."""
    decoder, cache = models.Decoder(model), model.cache() if cache is None else cache
    start = cache.length
    return np.stack([decoder(token, cache) for token in ids[0, start : start + count]])[None], cache


@pytest.mark.parametrize("positions", ["none", "sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "qk_norm": True, "activation": "gelu_tanh"},
        {"norm": "post", "activation": "relu", "tie_head": False},
        {"norm_kind": "rms_norm", "activation": "relu_squared", "qk_norm": True},
        {"activation": "silu", "attention": "flash", "feed_forward_dim": 12},
        {"bigram_rows": 200},
        {"bigram_rows": 50, "norm": "post"},
        {"previous_embedding": True},
        {"previous_embedding": True, "bigram_rows": 50, "norm": "post"},
    ],
)
def test_every_setting_gives_the_logits_of_the_modules(positions, options, ids):
    model = small(positions=positions, **options)
    expected, _ = read(model, ids, [LENGTH])
    for prompt in (0, 3):
        cache = read(model, ids, [prompt])[1] if prompt else model.cache()
        found, _ = decode(model, ids, LENGTH - prompt, cache)
        np.testing.assert_allclose(found, expected[:, prompt:], rtol=0, atol=1e-10)
        assert cache.length == LENGTH


def test_modules_and_decoder_can_alternate_on_one_cache(ids):
    model = small(positions="rotary", previous_embedding=True)
    decoder, cache, parts = models.Decoder(model), model.cache(), []
    for chunk in (1, 1, 5, 1, 1, 20, 1, 10):
        if chunk == 1:
            parts.append(decoder(ids[0, cache.length], cache)[None, None])
        else:
            parts.append(read(model, ids, [chunk], cache)[0])
    expected, _ = read(model, ids, [LENGTH])
    np.testing.assert_allclose(np.concatenate(parts, axis=1), expected, rtol=0, atol=1e-10)


def test_one_decoder_reads_several_texts(ids):
    model = small()
    decoder, first, second = models.Decoder(model), model.cache(), model.cache()
    for token in ids[0, :4]:
        assert np.array_equal(decoder(token, first), decoder(token, second))


def test_float32_stays_float32_and_near_float64(ids):
    found, _ = decode(small("float32", positions="rotary", qk_norm=True), ids, LENGTH)
    assert found.dtype == np.float32
    exact, _ = decode(small(positions="rotary", qk_norm=True), ids, LENGTH)
    np.testing.assert_allclose(found, exact, atol=1e-4)


def test_a_cache_is_freed_with_its_last_reference(ids):
    gc.disable()
    try:
        _, cache = decode(small(), ids, 5)
        alive = weakref.ref(cache.layers[0])
        del cache
        assert alive() is None
    finally:
        gc.enable()


def test_a_changed_parameter_is_an_error(ids):
    model = small()
    decoder, cache = models.Decoder(model), model.cache()
    decoder(1, cache)
    model.blocks[1].norm1.weight.data[...] = 0
    with pytest.raises(RuntimeError, match="parameters have changed: create a new Decoder"):
        decoder(1, cache)
    assert cache.length == 1
    decoder = models.Decoder(model)
    model.embedding.weight.data = np.zeros((13, 8))
    with pytest.raises(RuntimeError, match="parameters have changed"):
        decoder(1, cache)


def test_large_scores_do_not_overflow(ids):
    model = small("float32", positions="rotary")
    for block in model.blocks:
        block.attention.query.weight.data = block.attention.query.weight._data * 1000
    assert np.all(np.isfinite(decode(model, ids, LENGTH)[0]))


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"positions": "alibi"}, r"its blocks\.0\.attention\.alibi is a ALiBi"),
        ({"attention": "window"}, r"its blocks\.0\.attention is not plain causal attention"),
        ({"attention": "linear"}, r"its blocks\.0\.attention is not plain causal attention"),
        ({"dtype": "float16"}, "not all float32 or all float64 on the CPU"),
    ],
)
def test_settings_it_does_not_support_are_refused_with_the_reason(options, reason):
    with pytest.raises(ValueError, match=rf"{reason}: use model\(ids, cache=cache\)"):
        models.Decoder(small(**options))


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


def normalize_queries(model):
    model.blocks[1].attention.qk_norm = True


def drop_a_bias(model):
    model.blocks[1].attention.key.bias = model.blocks[0].feed_forward.contract.bias = None


def untie_the_head(model):
    model.head = ta.nn.Linear(8, 13, bias=False).to("float64")


def add_a_hook(model):
    model.blocks[0].attention.weights.register_forward_hook(lambda module, args, output: None)


UNKNOWN = [
    replace_by_subclass,
    replace_norm,
    replace_eps,
    replace_forward,
    narrow_the_attention,
    add_a_hook,
]
CHANGES = [replace_activation, normalize_queries, drop_a_bias, untie_the_head]


@pytest.mark.parametrize("change", UNKNOWN)
def test_a_model_with_parts_it_does_not_know_is_refused(change):
    model = small()
    change(model)
    with pytest.raises(ValueError, match=r"its norm|blocks\.[01]\."):
        models.Decoder(model)


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_was_rebuilt_by_hand_is_decoded_as_it_is_now(change, ids):
    model = small()
    change(model)
    found, _ = decode(model, ids, 6)
    expected, _ = read(model, ids, [6])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_other_models_other_arrays_rules_and_anomaly_detection_are_refused():
    model = small()

    class Louder(models.GPT):
        pass

    assert unsupported(Louder(model.config)) == "it is a Louder, not a GPT"
    assert "not all float32" in unsupported(small().to("strict"))
    assert unsupported(model) is None
    for mode in (ta.reference, ta.detect_anomaly):
        with mode(), pytest.raises(ValueError, match="require its modules"):
            models.Decoder(model)


def test_ids_and_caches_it_cannot_read_are_refused_and_change_nothing(ids):
    model = small()
    decoder, cache = models.Decoder(model), model.cache()
    decoder(1, cache)
    for wrong in (13, -1):
        with pytest.raises(IndexError, match=f"got the id {wrong}: expected an integer in 0 .. 12"):
            decoder(wrong, cache)
    with pytest.raises(TypeError, match="float"):
        decoder(1.5, cache)
    assert cache.length == 1
    _, full = read(model, ids, [LENGTH])
    with pytest.raises(ValueError, match=f"1 tokens after {LENGTH} in the cache do not fit"):
        decoder(1, full)
    _, several = read(model, np.repeat(ids, 3, axis=0), [2])
    other_dtype = read(small("float32"), ids, [2])[1]
    for wrong in (several, other_dtype):
        with pytest.raises(ValueError, match="create a new cache"):
            decoder(1, wrong)
    for wrong in (small(layers=3).cache(), models.RNN(models.RNNConfig()).cache()):
        with pytest.raises(ValueError, match="not a cache of a model with 2 layers"):
            decoder(1, wrong)
    decoder(1, cache)
    with ta.no_grad():  # in a cache that the decoder has just read
        model(ids[:, :1], cache=cache, padding_mask=np.array([[True]]))
    with pytest.raises(ValueError, match="padding mask"):
        decoder(1, cache)


def test_a_recorded_cache_can_be_continued_by_the_decoder(ids):
    model = small()
    cache = model.cache()
    assert model(ids[:, :4], cache=cache).requires_grad
    found, _ = decode(model, ids, 4, cache)
    expected, _ = read(model, ids, [8])
    np.testing.assert_allclose(found, expected[:, 4:], rtol=0, atol=1e-10)


# ------------------------------------------------------------------------------------------------------ in generate


def written(model, length=12):
    return list(sampling.generate(model, [1, 2, 3], length, random=Random(5)))


def test_generate_makes_one_decoder_a_call_and_reads_single_tokens_with_it(monkeypatch):
    made, tokens = [], []

    class Counted(models.Decoder):
        def __init__(self, model):
            made.append(model)
            super().__init__(model)

        def __call__(self, token, cache):
            tokens.append(token)
            return super().__call__(token, cache)

    model = small(block_size=8)
    monkeypatch.setattr(sampling, "Decoder", Counted)
    text = list(sampling.generate(model, [1, 2, 3], 20, random=Random(5), slide=4))
    # After the contexts of 3, 5, 5, 5 and 5 characters, which the modules read at once.
    assert made == [model] and len(tokens) == 20 - 5
    with ta.reference():
        assert text == list(sampling.generate(model, [1, 2, 3], 20, random=Random(5), slide=4))
    assert made == [model]


@pytest.mark.parametrize("change", UNKNOWN)
def test_generate_runs_the_modules_of_a_model_that_the_decoder_does_not_support(change):
    model = small()
    change(model)
    text = written(model)
    assert text == list(sampling.generate(model, [1, 2, 3], 12, random=Random(5), use_cache=False))


def test_a_model_called_with_a_cache_runs_its_modules(ids):
    model = small()
    seen = []
    _, cache = read(model, ids, [4])
    model.register_forward_hook(lambda module, args, output: seen.append("model"))
    model.blocks[1].register_forward_hook(lambda module, args, output: seen.append("block"))
    found, _ = read(model, ids, [1, 1], cache)
    assert seen == ["block", "model"] * 2
    model.embedding.weight.data[...] = 0
    assert np.all(read(model, ids, [1], cache)[0] == 0)
    model = small()
    np.testing.assert_allclose(found, read(model, ids, [6])[0][:, 4:], rtol=0, atol=1e-10)


def test_dropout_is_off_in_generate_and_as_the_mode_says_in_the_modules(ids):
    model = small(dropout=0.5).train()
    assert written(model) == written(model.eval())
    caches = [read(model.eval(), ids, [4])[1] for _ in range(4)]
    first, second = (read(model.train(), ids, [1], cache)[0] for cache in caches[:2])
    assert not np.allclose(first, second)
    first, second = (read(model.eval(), ids, [1], cache)[0] for cache in caches[2:])
    assert np.array_equal(first, second)
