"""Hard cases CK of modules and optimizers: a saved state is restored exactly, and copies share no memory."""

import copy

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models, nn, optim


class Holder(nn.Module):
    """One parameter, of the shape that a case needs."""

    def __init__(self, values, device):
        self.value = nn.Parameter(np.array(values, np.float64), device=device)


@pytest.mark.parametrize(("saved", "own"), [((1, 4), (3, 4)), ((1,), ()), ((32000,), ())])
def test_CK_05_an_array_of_another_shape_is_refused_before_anything_is_changed(device, saved, own):
    model = nn.Sequential(Holder(np.ones(2), device), Holder(np.zeros(own), device))
    state = {"0.value": np.zeros(2), "1.value": np.ones(saved)}
    with pytest.raises(ValueError) as error:
        model.load_state_dict(state)
    assert f"1.value has shape {saved}, the module's is {own}" in str(error.value)
    assert model[0].value.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("restore", [True, False])
def test_CK_08_the_step_count_is_part_of_the_state(leaf, restore):
    p = leaf(1.0)
    adam = optim.AdamW([p], lr=0.1, weight_decay=0.0)
    for gradient in (1.0, -2.0):
        p.grad = ta.tensor(np.array(gradient), device=p.device)
        adam.step()
    state = adam.state_dict()
    if not restore:  # the mistake that the case is about, to show that it is seen
        state["settings"]["steps"] = {"0": 0}
    q = leaf(p.item())
    other = optim.AdamW([q], lr=0.1, weight_decay=0.0)
    other.load_state_dict(state)
    q.grad = ta.tensor(np.array(0.5), device=q.device)
    other.step()
    expected = 0.9502794197 if restore else 0.9580079353
    assert q.item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.0, 2.0], [3.0, 4.0]]).T,
        np.arange(8.0).reshape(2, 4)[:, ::2],
        np.array(3.0),
        np.zeros((0, 3)),
    ],
    ids=["transposed", "every other column", "no axes", "empty"],
)
def test_CK_10_the_layout_in_memory_does_not_matter(device, array):
    parameter = nn.Parameter(np.zeros(array.shape), device=device)
    # Put the layout itself into the parameter, which the constructor would make contiguous.
    parameter._data = ta.backend.get_backend(device).asarray(array)
    model = nn.Module()
    model.value = parameter
    saved = model.state_dict()["value"]
    assert saved.shape == array.shape and saved.dtype == array.dtype
    assert np.array_equal(saved, array)
    other = Holder(np.full(array.shape, -1.0), device)
    other.load_state_dict({"value": array})
    assert other.value.shape == array.shape
    assert np.array_equal(other.value.numpy(), array)
    model.load_state_dict({"value": saved})
    assert np.array_equal(parameter.numpy(), saved)
    optim.SGD([parameter])
    assert np.array_equal(parameter.numpy(), saved)


@pytest.mark.parametrize("forward_first", [False, True])
def test_CK_13_a_copied_model_is_whole_independent_and_without_a_graph(device, forward_first):
    class Watched(nn.Module):
        def __init__(self):
            sizes = {"layers": 1, "heads": 2, "dim": 8, "block_size": 4}
            # Without an embedding of previous tokens, whose initial vectors are 0.
            self.inner = models.GPT(models.GPTConfig(**sizes, previous_embedding=False))
            self.first = nn.Linear(3, 3)
            self.second = self.first
            self.third = nn.Linear(3, 3)
            self.third.weight = self.first.weight

        def forward(self, ids):
            self.activation = self.inner(ids)
            self.history = [self.activation * 2, {"deep": self.activation}]
            return self.activation.sum()

    model = Watched().to(device)
    if forward_first:
        model(ta.tensor([[1, 2]], device=device)).backward()
        assert not model.activation.is_leaf
    copied = copy.deepcopy(model)
    assert copied.second is copied.first and copied.third.weight is copied.first.weight
    for (name, mine), (other_name, its) in zip(model.named_parameters(), copied.named_parameters()):
        assert name == other_name and mine is not its and type(its) is nn.Parameter
        assert np.array_equal(mine.numpy(), its.numpy())
        assert (mine.grad is None) == (its.grad is None)
        its.data[...] = 0
        assert its.size == 0 or name.endswith("bias") or np.abs(mine.numpy()).max() > 0
    if forward_first:
        assert copied.activation.is_leaf and not copied.activation.requires_grad
        assert copied.history[0].is_leaf
        assert copied.history[1]["deep"] is copied.activation
        assert np.array_equal(copied.activation.numpy(), model.activation.numpy())
