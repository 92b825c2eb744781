"""Module: registration of parameters, saving, loading, moving, copying, hooks and repr."""

import copy
import gc
import weakref

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn


class Pair(nn.Module):
    """Two layers that share one weight, and a constant."""

    def __init__(self, device=None):
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.constant = ta.tensor([1.0, 2.0, 3.0])
        self.dropout = nn.Dropout(0.5)
        if device:
            self.to(device)

    def forward(self, x):
        self.seen = self.first(x)
        return self.second(self.dropout(self.seen)) * self.constant


NAMES = ["first.weight", "first.bias", "second.bias"]


def test_parameters_are_found_in_order_and_a_shared_one_once():
    model = Pair()
    assert [name for name, _ in model.named_parameters()] == NAMES
    assert len(model.parameters()) == 3
    assert model.parameter_count() == 9 + 3 + 3


def test_parameters_are_a_list_that_can_be_iterated_twice():
    parameters = Pair().parameters()
    assert list(parameters) == list(parameters) != []


def test_a_module_that_is_used_twice_is_listed_once():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    assert [name for name, _ in model.named_modules()] == ["", "0"]
    assert model.modules() == [model, layer]
    assert len(model.parameters()) == 2


@pytest.mark.parametrize("container", [list, tuple, lambda items: dict(enumerate(items))])
def test_a_plain_container_of_modules_is_rejected(container):
    class Careless(nn.Module):
        def __init__(self):
            self.layers = container([nn.Linear(2, 2)])

    with pytest.raises(TypeError, match=r"Careless\.layers .*ModuleList"):
        Careless()


@pytest.mark.parametrize(
    "content", [[[nn.Linear(2, 2)]], {nn.Linear(2, 2)}, {"a": [(nn.Parameter(1.0),)]}]
)
def test_nested_containers_of_modules_are_rejected(content):
    with pytest.raises(TypeError, match="neither trained nor saved"):
        nn.Module().layers = content


def test_a_module_appended_to_a_list_later_is_rejected_by_named_parameters():
    class Careless(nn.Module):
        def __init__(self):
            self.layers = []
            self.layers.append(nn.Linear(2, 2))

    for look in (Careless.parameters, Careless.state_dict):
        with pytest.raises(TypeError, match=r"Careless\.layers .*ModuleList"):
            look(Careless())


def test_a_container_that_contains_itself_is_accepted():
    model, content = nn.Module(), [1]
    content.append(content)
    model.content = content
    assert model.parameters() == []


@pytest.mark.parametrize("value", [np.zeros((2, 3)), ta.zeros((2, 3)), 1.0])
def test_only_a_parameter_or_none_replaces_a_parameter(value):
    layer = nn.Linear(2, 3)
    with pytest.raises(TypeError, match=r"Linear\.weight is a Parameter.*weight\.data = "):
        layer.weight = value
    layer.weight = nn.Parameter(np.zeros((2, 3), np.float32))
    layer.bias = None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    with pytest.raises(TypeError, match="is a Linear, which a function cannot replace"):
        nn.Sequential(layer)[0] = lambda x: x


def test_modules_come_in_the_order_of_their_names():
    model = nn.TransformerBlock(8, 2)
    assert model.modules() == [module for _, module in model.named_modules()]


def test_a_module_without_parameters_has_no_device_and_no_dtype():
    assert nn.Identity().device is None
    assert nn.Sequential(nn.Identity(), nn.Linear(1, 1)).dtype == np.float32
    assert nn.Identity().dtype is None


def test_forward_is_needed():
    with pytest.raises(NotImplementedError, match="Empty defines no forward"):
        type("Empty", (nn.Module,), {})()(1)


def test_state_dict_is_a_copy_on_the_host_with_the_shared_weight_once(device):
    model = Pair(device)
    state = model.state_dict()
    assert list(state) == NAMES
    assert all(type(array) is np.ndarray for array in state.values())
    state["first.weight"][...] = 0
    assert np.abs(model.first.weight.numpy()).max() > 0


def test_load_state_dict_restores_every_number_and_keeps_objects_and_ties(device):
    ta.manual_seed(1)
    model, other = Pair(device), Pair(device)
    before = model.parameters()
    assert not np.array_equal(model.first.bias.numpy(), other.first.bias.numpy())
    assert model.load_state_dict(other.state_dict()) == ([], [])
    for mine, its, old in zip(model.parameters(), other.parameters(), before):
        assert mine is old
        assert np.array_equal(mine.numpy(), its.numpy())
    assert model.second.weight is model.first.weight


def test_load_state_dict_takes_tensors_and_casts_to_the_parameters_dtype(device):
    model = nn.Linear(2, 2).to(device)
    state = {"weight": ta.tensor(np.eye(2), device=device), "bias": np.array([1, 2])}
    model.load_state_dict(state)
    assert model.weight.dtype == model.bias.dtype == np.float32
    assert model.weight.tolist() == [[1, 0], [0, 1]]
    assert model.bias.tolist() == [1, 2]


def test_load_state_dict_lists_every_difference_and_changes_nothing(device):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3)).to(device)
    before = model.state_dict()
    state = {name: array + 1 for name, array in before.items()}
    state["1.weight"] = np.zeros((1, 3))  # would broadcast
    state["2.weight"] = state.pop("0.bias")
    with pytest.raises(ValueError) as error:
        model.load_state_dict(state)
    for part in ("0.bias is missing", "2.weight is not", "1.weight has shape (1, 3)", "(2, 3)"):
        assert part in str(error.value)
    for name, array in model.state_dict().items():
        assert np.array_equal(array, before[name])


def test_load_state_dict_that_is_not_strict_says_what_was_left_out_but_never_broadcasts():
    model = nn.Linear(2, 2)
    assert model.load_state_dict({"bias": [1.0, 2.0], "other": 1}, strict=False) == (
        ["weight"],
        ["other"],
    )
    assert model.bias.tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"bias has shape \(\)"):
        model.load_state_dict({"bias": np.float32(1)}, strict=False)


def test_load_state_dict_refuses_what_is_no_array_of_numbers():
    with pytest.raises(TypeError, match="bias has dtype"):
        nn.Linear(1, 1).load_state_dict({"weight": [[1.0]], "bias": ["a"]})


@pytest.mark.parametrize("state", [nn.Linear(2, 3), [1.0], None])
def test_load_state_dict_refuses_what_is_no_dict(state):
    with pytest.raises(TypeError, match="state must be a dict of names to arrays"):
        nn.Linear(2, 3).load_state_dict(state)


def test_loading_is_seen_by_a_graph_that_still_needs_the_old_weight(device):
    model = nn.Linear(2, 2).to(device)
    x = ta.ones((1, 2), device=device)
    x.requires_grad = True
    loss = model(x).sum()
    model.load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError, match="changed after it was used"):
        loss.backward()


def test_train_and_eval_reach_every_module():
    model = Pair()
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())


def test_evaluating_restores_the_mode_of_every_module_also_after_an_exception():
    model = Pair()
    model.first.eval()
    with pytest.raises(ZeroDivisionError), nn.evaluating(model):
        assert not model.dropout.training
        raise ZeroDivisionError
    assert model.training and model.dropout.training
    assert not model.first.training


@pytest.mark.parametrize("target", ["float64", np.float64, np.dtype("float64")])
def test_to_a_dtype_keeps_the_objects_and_moves_constants_and_gradients(target):
    model = Pair().eval()
    model(ta.ones((1, 3))).sum().backward()
    parameters = model.parameters()
    assert model.to(target) is model
    assert all(a is b for a, b in zip(parameters, model.parameters()))
    assert {p.dtype for p in parameters} == {p.grad.dtype for p in parameters} == {np.dtype("f8")}
    assert model.constant.dtype == model.dtype == np.float64
    assert model.second.weight is model.first.weight


def test_to_a_device_and_back_keeps_every_number(device):
    model = Pair()
    before = model.state_dict()
    model.to(device)
    assert model.device == model.constant.device == device
    assert model.eval()(ta.ones((1, 3), device=device)).device == device
    model.cpu()
    assert model.device == "cpu"
    for name, array in model.state_dict().items():
        assert np.array_equal(array, before[name])


def test_to_refuses_what_is_neither_a_device_nor_a_floating_point_type():
    with pytest.raises(ValueError, match="unknown device 'gpu'"):
        nn.Linear(1, 1).to("gpu")
    with pytest.raises(ValueError, match="int64"):
        nn.Linear(1, 1).to(np.int64)


def test_zero_grad_can_leave_zeros():
    model = nn.Linear(2, 3)
    model.weight.grad = ta.ones((2, 3))
    model.zero_grad(set_to_none=False)
    assert np.all(model.weight.grad.numpy() == 0) and model.bias.grad is None


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nn.ModuleList(nn.Linear(2, 3)), TypeError, "got a Linear"),
        (lambda: nn.ALiBi(0), ValueError, "heads must be at least 1"),
        (lambda: nn.MultiHeadAttention(8, 2, alibi=nn.ALiBi(4)), ValueError, "for 4 heads"),
        (
            lambda: nn.MultiHeadAttention(8, 2, rotary=nn.Rotary(8)),
            ValueError,
            "head_dim 8, expected .* 4",
        ),
        (lambda: nn.GRU(8, 4)(ta.ones((2, 0, 8))), ValueError, "at least one token"),
        (lambda: nn.Linear(-1, 3), ValueError, "got -1, 3"),
        (lambda: nn.Identity().register_forward_hook(3), TypeError, "got 3"),
        (lambda: nn.MultiHeadAttention(8, heads=0), ValueError, "among 0 heads"),
        (lambda: nn.MultiHeadAttention(8, heads=-2), ValueError, "among -2 heads"),
        (lambda: nn.MultiHeadAttention(8, 2, dropuot=0.1), TypeError, "got dropuot"),
        (lambda: nn.MultiHeadAttention(8, 2, window=4), TypeError, "expected no options"),
        (lambda: nn.MultiHeadAttention(8, 2, kind="window", size=4), TypeError, "global_tokens"),
        (lambda: nn.TransformerBlock(8, 2, casual=True), TypeError, "got casual"),
    ],
)
def test_mistakes_in_making_a_module_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_normalization_takes_a_length_of_any_integer_type():
    assert nn.LayerNorm(np.int64(4)).normalized_shape == nn.LayerNorm(4).normalized_shape


def test_zero_grad_and_freezing():
    model = Pair().eval()
    model(ta.ones((1, 3))).sum().backward()
    model.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())
    model.requires_grad_(False)
    assert not model(ta.ones((1, 3))).requires_grad


def test_deepcopy_is_independent_keeps_tied_weights_and_drops_hooks_and_graphs(device):
    model = Pair(device).eval()
    model.register_forward_hook(lambda module, args, output: 1 / 0)
    model.first.register_forward_hook(lambda module, args, output: None)
    model._forward_hooks.clear()
    model(ta.ones((1, 3), device=device)).sum().backward()
    assert not model.seen.is_leaf
    copied = copy.deepcopy(model)
    assert copied.second.weight is copied.first.weight is not model.first.weight
    assert copied.seen.is_leaf
    assert not copied.first.is_watched and model.first.is_watched
    assert np.array_equal(copied.first.weight.grad.numpy(), model.first.weight.grad.numpy())
    copied.first.weight.data[...] = 0
    copied.first.weight.grad.data[...] = 0
    assert np.abs(model.first.weight.numpy()).max() > 0
    assert np.abs(model.first.weight.grad.numpy()).max() > 0
    assert not copied.training


def test_a_hook_sees_and_may_replace_the_output_until_it_is_removed():
    model = nn.Sequential(nn.Identity(), nn.Identity())
    seen = []
    handle = model[0].register_forward_hook(lambda module, args, output: seen.append(args[0]))
    other = model[1].register_forward_hook(lambda module, args, output: output * 10)
    assert model(3) == 30
    handle.remove()
    other.remove()
    other.remove()
    assert model(3) == 3
    assert seen == [3]


def test_a_model_dies_with_its_last_reference(device):
    gc.disable()
    try:
        model = Pair(device)
        model(ta.ones((1, 3), device=device)).sum().backward()
        weak = weakref.ref(model)
        del model
        assert weak() is None
    finally:
        gc.enable()


def test_repr_shows_settings_and_folds_what_repeats():
    model = nn.Sequential(*[nn.Linear(2, 2, bias=False) for _ in range(3)], nn.Dropout(0.1))
    assert repr(model) == "\n".join(
        ["Sequential(", "  0 to 2: Linear(2, 2, bias=False)", "  3: Dropout(0.1)", ")"]
    )


def test_a_module_list_can_be_changed_like_a_list():
    first, second, third = (nn.Linear(2, size) for size in (3, 4, 5))
    layers = nn.ModuleList([first]).extend([second, third])
    assert list(layers) == [first, second, third]
    layers[-1] = first
    assert list(layers) == [first, second, first] and "2" in dict(layers.named_children())


def test_module_list_takes_modules_only_and_slices():
    with pytest.raises(TypeError, match="expected a module, got int"):
        nn.ModuleList([1])
    model = nn.Sequential(nn.Linear(2, 3), nn.Activation("relu"), nn.Linear(3, 1))
    head = model[:2]
    assert type(head) is nn.Sequential and len(head) == 2
    assert head[0] is model[0] and model[-1] is list(model)[2]
    assert type(nn.ModuleList(list(model))[1:]) is nn.ModuleList


def test_a_parameter_is_floating_point_and_asks_for_its_gradient(device):
    parameter = nn.Parameter([1.0, 2.0], device=device)
    assert parameter.requires_grad and parameter.device == device
    assert not nn.Parameter([1.0], requires_grad=False).requires_grad
    with pytest.raises(TypeError, match="floating point"):
        nn.Parameter([1, 2])
    assert type(copy.deepcopy(parameter)) is nn.Parameter
