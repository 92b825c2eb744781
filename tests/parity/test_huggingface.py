"""GPT-2 in transformers and here: the same folder gives the same logits, loss, gradients and text."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models
from tinyattn.models.huggingface import layout

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)  # its threads cost these small products more than they give

VOCABULARY, BLOCK = 61, 40
CONFIGS = {
    "as published": {},
    "exact gelu": {"activation_function": "gelu"},
    "own output layer, narrow feed-forward": {"tie_word_embeddings": False, "n_inner": 24},
}


def their_model(**options):
    """A GPT-2 in float64 with random values in all parameters, biases and gains too."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=BLOCK,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
        **options,
    )
    model = transformers.GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, dtype=parameter.dtype)
    return model


def loaded_there(folder):
    return transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float64).eval()


@pytest.fixture(scope="module", params=CONFIGS.values(), ids=CONFIGS)
def pair(request, tmp_path_factory):
    """Their model, and ours loaded from its folder."""
    folder = tmp_path_factory.mktemp("gpt2")
    model = their_model(**request.param)
    model.save_pretrained(folder)
    return model, models.GPT.from_pretrained(folder)


@pytest.fixture
def ids(random):
    return random.integers(0, VOCABULARY, (3, 20))


def assert_equal(ours, theirs):
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-10, atol=1e-10)


def test_logits_are_equal(pair, ids):
    theirs, ours = pair
    with ta.no_grad():
        assert_equal(ours(ids).numpy(), theirs(torch.tensor(ids)).logits)


def test_the_loss_and_every_gradient_are_equal(pair, ids):
    theirs, ours = pair
    theirs.zero_grad()
    ours.zero_grad()
    # Their own loss rounds the logits to float32.
    logits = theirs(torch.tensor(ids[:, :-1])).logits
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.tensor(ids[:, 1:]).flatten()
    )
    expected.backward()
    loss = ours.loss(ids[:, :-1], ids[:, 1:])
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-10)
    gradients = {name: parameter.grad.numpy() for name, parameter in ours.named_parameters()}
    their_parameters = dict(theirs.named_parameters())
    for entry in layout(ours.config):
        name = entry.name if entry.name == "lm_head.weight" else f"transformer.{entry.name}"
        gradient = entry.join([gradients[part] for part in entry.parameters])
        assert_equal(gradient, their_parameters.pop(name).grad)
    assert not their_parameters


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_text_is_equal(pair, ids, use_cache):
    theirs, ours = pair
    prompt = ids[:1, :5]
    expected = theirs.generate(
        torch.tensor(prompt),
        max_new_tokens=20,
        do_sample=False,
        use_cache=use_cache,
        pad_token_id=0,
    )
    found = ta.generate(ours, prompt[0], length=20, temperature=0, use_cache=use_cache)
    assert list(found) == expected[0, 5:].tolist()


def test_logits_with_left_padding_are_equal(pair, ids):
    theirs, ours = pair
    mask = np.ones(ids.shape, bool)
    mask[0, :7] = mask[1, :1] = False
    positions = np.maximum(mask.cumsum(-1) - 1, 0)
    expected = theirs(
        torch.tensor(ids),
        attention_mask=torch.tensor(mask.astype(int)),
        position_ids=torch.tensor(positions),
    ).logits
    with ta.no_grad():
        assert_equal(ours(ids, padding_mask=mask).numpy()[mask], expected[torch.tensor(mask)])


def test_a_folder_written_here_is_loaded_there_with_equal_weights(pair, ids, tmp_path):
    theirs, ours = pair
    ours.save_pretrained(tmp_path)
    again = loaded_there(tmp_path)
    assert again.config.n_inner == theirs.config.n_inner
    expected = dict(theirs.named_parameters())
    for name, parameter in again.named_parameters():
        assert torch.equal(parameter, expected.pop(name)), name
    assert not expected
    assert torch.equal(again(torch.tensor(ids)).logits, theirs(torch.tensor(ids)).logits)


def test_a_model_without_biases_is_saved_with_biases_of_zero(ids, tmp_path):
    config = models.GPTConfig.gpt2(
        vocabulary_size=VOCABULARY, block_size=BLOCK, layers=2, heads=2, dim=16, bias=False
    )
    model = models.GPT(config).to("float64")
    model.save_pretrained(tmp_path)
    assert_equal(model(ids).numpy(), loaded_there(tmp_path)(torch.tensor(ids)).logits)


def test_several_files_with_an_index_are_read(ids, tmp_path):
    theirs = their_model()
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert_equal(
        models.GPT.from_pretrained(tmp_path)(ids).numpy(), theirs(torch.tensor(ids)).logits
    )


def test_the_model_without_output_layer_is_read(ids, tmp_path):
    theirs = their_model()
    theirs.transformer.save_pretrained(tmp_path)
    assert_equal(
        models.GPT.from_pretrained(tmp_path)(ids).numpy(), theirs(torch.tensor(ids)).logits
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_as_float32(dtype, tmp_path):
    theirs = their_model().to(getattr(torch, dtype))
    theirs.save_pretrained(tmp_path)
    ours = models.GPT.from_pretrained(tmp_path)
    assert ours.dtype == "float32"
    expected = theirs.transformer.wte.weight.float()
    np.testing.assert_array_equal(ours.embedding.weight.numpy(), expected.detach().numpy())
