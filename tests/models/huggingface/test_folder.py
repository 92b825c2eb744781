"""The folder of a GPT-2: what is saved is loaded bit-equal, and every fault of a folder is one sentence."""

import json
import pickle

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.data import InputError
from tinyattn.data.safetensors_file import map_tensors, write_tensors
from tinyattn.models import GPT, GPTConfig

SMALL = {"vocabulary_size": 11, "block_size": 8, "layers": 2, "heads": 2, "dim": 8}


def small(**settings):
    ta.manual_seed(0)
    return GPT(GPTConfig.gpt2(**{**SMALL, **settings}))


@pytest.fixture
def folder(tmp_path):
    """A folder with a small GPT-2."""
    path = tmp_path / "gpt2"
    small().save_pretrained(path)
    return path


def rewrite(folder, change):
    """Change the tensors in a folder: ``change`` gets a dict of names to arrays."""
    tensors = {
        name: array.copy() for name, array in map_tensors(folder / "model.safetensors").items()
    }
    change(tensors)
    write_tensors(folder / "model.safetensors", tensors)


def refused(folder):
    with pytest.raises(InputError) as error:
        GPT.from_pretrained(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("settings", [{}, {"tie_head": False}, {"feed_forward_dim": 12}])
def test_what_is_saved_is_loaded_bit_equal(dtype, settings, tmp_path):
    model = small(**settings).to(dtype)
    model.save_pretrained(tmp_path)
    again = GPT.from_pretrained(tmp_path)
    assert again.config == model.config and again.dtype == dtype and not again.training
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(dict(again.named_parameters())[name].numpy(), array, name)


def test_a_loaded_model_computes_on_every_device(device, folder):
    model = GPT.from_pretrained(folder, device=device, dtype="float64")
    assert (model.device, model.dtype) == (device, "float64")
    expected = small().to("float64")([[1, 2, 3]]).numpy()
    np.testing.assert_allclose(model([[1, 2, 3]]).numpy(), expected, rtol=1e-12)


def test_a_subclass_is_loaded_as_itself(folder):
    class Own(GPT):
        pass

    assert type(Own.from_pretrained(folder)) is Own


def test_loading_leaves_the_random_stream_alone(folder):
    ta.manual_seed(3)
    expected = ta.randn(2).tolist()
    ta.manual_seed(3)
    GPT.from_pretrained(folder)
    assert ta.randn(2).tolist() == expected


def test_weights_are_mapped_and_changes_stay_in_memory(folder):
    before = (folder / "model.safetensors").read_bytes()
    model = GPT.from_pretrained(folder)
    bases = {id(root(parameter._data)) for parameter in model.parameters()}
    assert len(bases) == 1, "the parameters are views of one mapped file"
    optimizer = ta.optim.SGD(model.parameters(), lr=0.1)
    model.loss([[1, 2, 3]], [[2, 3, 4]]).backward()
    optimizer.step()
    model.norm.weight.data[...] = 7
    assert (folder / "model.safetensors").read_bytes() == before


def root(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def test_a_model_can_be_saved_to_the_folder_it_was_loaded_from(folder):
    model = GPT.from_pretrained(folder)
    model.norm.weight.data[0] = 7
    model.save_pretrained(folder)
    assert GPT.from_pretrained(folder).norm.weight.numpy()[0] == 7


def test_fewer_positions_can_be_loaded(folder):
    model = GPT.from_pretrained(folder, block_size=3)
    np.testing.assert_array_equal(
        model([[1, 2, 3]]).numpy(), GPT.from_pretrained(folder)([[1, 2, 3]]).numpy()
    )
    with pytest.raises(ValueError, match="do not fit the block_size 3"):
        model([[1, 2, 3, 4]])


def test_the_causal_mask_of_older_versions_is_ignored(folder):
    def change(tensors):
        for name in ("transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias"):
            tensors[name] = np.ones((1, 1, 8, 8), np.float32)

    rewrite(folder, change)
    assert GPT.from_pretrained(folder).config.layers == 2


def test_names_without_prefix_and_a_copy_of_the_embedding_are_read(folder):
    def change(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["lm_head.weight"] = tensors["wte.weight"]

    rewrite(folder, change)
    np.testing.assert_array_equal(
        GPT.from_pretrained(folder).embedding.weight.numpy(), small().embedding.weight.numpy()
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.pop("transformer.h.1.ln_2.bias"), "h.1.ln_2.bias is missing"),
        (lambda t: t.update({"h.2.ln_1.bias": np.ones(8)}), "h.2.ln_1.bias is left over"),
        (
            lambda t: t.update({"transformer.wpe.weight": np.ones((8, 9))}),
            "wpe.weight has shape (8, 9), expected (8, 8)",
        ),
        (
            lambda t: t.update({"lm_head.weight": np.ones((11, 8))}),
            "lm_head.weight is not wte.weight",
        ),
        (
            lambda t: t.update({"wte.weight": np.ones((11, 8))}),
            "wte.weight, which was already read",
        ),
        (lambda t: [t.pop(name) for name in list(t)[:9]], "and 5 more"),
    ],
)
def test_every_tensor_is_accounted_for(folder, change, reason):
    rewrite(folder, change)
    assert reason in refused(folder)


def test_a_folder_without_weights_is_named(folder):
    (folder / "model.safetensors").unlink()
    assert f"{folder} has no weights" in refused(folder)
    assert "there is no folder" in refused(folder / "nowhere")
    (folder / "config.json").unlink()
    assert "config.json is missing" in refused(folder)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_is_named_and_never_read(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(folder / "ran")))
    assert "pytorch_model.bin, which is not read" in refused(folder)
    assert not (folder / "ran").exists()


def shard(folder, files):
    """Split the weights into ``files`` files, with an index."""
    tensors = map_tensors(folder / "model.safetensors")
    names = list(tensors)
    weight_map = {}
    for number in range(files):
        file = f"model-{number}.safetensors"
        part = {name: tensors[name] for name in names[number::files]}
        write_tensors(folder / file, part)
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    return index, weight_map


def test_several_files_are_read(folder):
    shard(folder, 3)
    np.testing.assert_array_equal(
        GPT.from_pretrained(folder)([[1, 2]]).numpy(), small().eval()([[1, 2]]).numpy()
    )


def test_a_missing_file_of_several_is_named(folder):
    shard(folder, 3)
    (folder / "model-1.safetensors").unlink()
    assert "model-1.safetensors is missing" in refused(folder)


def test_an_index_that_does_not_fit_is_named(folder):
    index, weight_map = shard(folder, 2)
    name = next(iter(weight_map))
    index.write_text(json.dumps({"weight_map": {**weight_map, name: "model-1.safetensors"}}))
    assert f"lacks the tensor {name}" in refused(folder)
    for bad in ({}, {"weight_map": {}}, {"weight_map": {name: "../x"}}, {"weight_map": {name: 3}}):
        index.write_text(json.dumps(bad))
        assert "is not an index" in refused(folder)


@pytest.mark.parametrize("kept", [0, 5, 200, -1])
def test_a_truncated_file_is_named(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert f"{path} is damaged or not a safetensors file" in refused(folder)


def test_a_changed_model_that_gpt2_does_not_have_is_refused(tmp_path):
    model = small()
    model.extra = ta.nn.Linear(2, 2)
    with pytest.raises(InputError, match="no parameter extra"):
        model.save_pretrained(tmp_path)
