"""Generation with a KV cache equals generation without one, within and beyond the context."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import Random, use_random
from tinyattn.models import CNN, GPT, RNN, CNNConfig, GPTConfig, RNNConfig
from tinyattn.sampling import ContextReader, context_start, generate

SIZE, BLOCK = 11, 8


def make(positions="rotary", **options):
    config = GPTConfig.gpt2(
        vocabulary_size=SIZE,
        block_size=BLOCK,
        layers=2,
        heads=2,
        dim=16,
        positions=positions,
        dropout=0.3,
        **options,
    )
    with use_random(Random(3)):
        model = GPT(config).to("float64")
    # Larger weights than a fresh model's, so that a character at the wrong place is seen in the logits.
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data *= 10.0
    return model.eval()


@pytest.mark.parametrize("slide", [1, 3, 4, 8])
@pytest.mark.parametrize("positions", ["rotary", "learned", "sinusoidal", "alibi", "none"])
def test_cached_logits_are_those_of_the_context_alone(random, positions, slide, device):
    model = make(positions)
    ids = random.integers(0, SIZE, 3 * BLOCK).tolist()
    wanted = []
    for length in range(1, len(ids) + 1):
        start = context_start(length, BLOCK, slide)
        with ta.no_grad():
            wanted.append(model(np.array([ids[start:length]]))[0, -1].numpy())
    model.to(device)
    reader = ContextReader(model, BLOCK, slide)
    with ta.no_grad():
        for length in range(1, len(ids) + 1):
            logits = reader.logits(ids[:length])
            assert np.abs(logits - wanted[length - 1]).max() < 1e-10
    assert np.abs(np.diff(wanted, axis=0)).max() > 0.1


def test_by_default_the_context_is_the_last_block(random):
    model = make()
    ids = random.integers(0, SIZE, 2 * BLOCK).tolist()
    reader = ContextReader(model, BLOCK)
    with ta.no_grad():
        logits = reader.logits(ids)
        assert np.abs(logits - model(np.array([ids[-BLOCK:]]))[0, -1].numpy()).max() < 1e-12


def test_a_cached_character_needs_one_query():
    model = make()
    lengths = []
    model.register_forward_hook(lambda module, args, output: lengths.append(args[0].shape[-1]))
    list(generate(model, [1, 2, 3], 13, slide=4))
    assert lengths == [3, 1, 1, 1, 1, 1, 5, 1, 1, 1, 5, 1, 1]


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0}, {"top_k": 3}, {"top_p": 0.7}])
def test_the_text_is_the_same_with_and_without_a_cache(sampling):
    model = make("learned")
    texts = [
        list(generate(model, [1, 2], 20, random=Random(5), use_cache=use_cache, **sampling))
        for use_cache in (True, False)
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 20


def test_a_seed_gives_the_same_text_on_every_device(device):
    text = list(generate(make(), [1], 12, random=Random(5)))
    assert list(generate(make().to(device), [1], 12, random=Random(5))) == text


def test_dropout_is_off_and_the_train_mode_is_restored_after_each_character():
    model = make().train()
    made = []
    for i in generate(model, [1, 2], 6, random=Random(1)):
        made.append(i)
        assert all(module.training for module in model.modules())
    assert made == list(generate(model.eval(), [1, 2], 6, random=Random(1)))


@pytest.mark.parametrize(
    "model",
    [
        RNN(RNNConfig(vocabulary_size=SIZE, block_size=BLOCK, layers=1, dim=8, bias=True)),
        CNN(CNNConfig(vocabulary_size=SIZE, block_size=BLOCK, layers=2, dim=8, bias=True)),
    ],
    ids=["rnn", "cnn"],
)
def test_other_language_models_generate_text(model):
    texts = [
        list(generate(model.to("float64"), [1], 20, random=Random(5), use_cache=use_cache, slide=4))
        for use_cache in (True, False)
    ]
    assert texts[0] == texts[1]


def test_arguments_are_refused_before_the_first_character():
    model = make()
    for words, message in [
        ({"ids": []}, "the prompt is empty"),
        ({"length": -1}, "length must be at least 0"),
        ({"temperature": -1}, "temperature must be"),
        ({"top_k": 0}, "top_k must be"),
        ({"top_p": 2}, "top_p must be"),
        ({"slide": 0}, "slide must be between 1 and the block size 8"),
    ]:
        arguments = {"ids": [1], "length": 3, **words}
        with pytest.raises(ValueError, match=message):
            generate(model, arguments.pop("ids"), arguments.pop("length"), **arguments)


def test_arguments_of_a_wrong_type_are_named():
    for words, message in [
        ({"ids": [1.7]}, "an id must be a whole number, given 1.7"),
        ({"ids": [[1, 2]]}, r"an id must be a whole number, given \[1, 2\]"),
        ({"ids": "ab"}, "an id must be a whole number, given 'a'"),
        ({"length": 2.5}, "length must be a whole number, given 2.5"),
        ({"random": 5}, r"such as Random\(5\)"),
        ({"model": ta.nn.Linear(2, 3)}, r"Linear has no cache\(\)"),
    ]:
        arguments = {"model": make(), "ids": [1], "length": 3, **words}
        with pytest.raises(TypeError, match=message):
            generate(
                arguments.pop("model"), arguments.pop("ids"), arguments.pop("length"), **arguments
            )


def test_ids_may_be_a_tensor_and_top_k_a_float():
    text = list(generate(make(), [1, 2], 5, random=Random(1), top_k=2))
    assert text == list(generate(make(), ta.tensor([1, 2]), 5, random=Random(1), top_k=2.0))


def test_nan_logits_are_an_error():
    model = make()
    model.embedding.weight.data[...] = np.nan
    with pytest.raises(ValueError, match="cannot be sampled from"):
        next(generate(model, [1], 3))


def test_generation_ends_before_the_id_that_stops_it():
    model = make()
    ids = list(generate(model, [1], 30, random=Random(5)))
    stop = ids[10]
    assert list(generate(model, [1], 30, random=Random(5), stop=stop)) == ids[: ids.index(stop)]
    assert list(generate(model, [stop], 3, random=Random(5), stop=SIZE)) != []
