"""Common behavior of all optimizers: groups, flat storage, dtypes, saved states and errors."""

import copy
import json
import pickle

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn, optim
from tinyattn.train.parallel import ThreadExecutor

OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "muon": lambda p: optim.Muon(p, lr=0.1),
}
EVERY = pytest.mark.parametrize("name", OPTIMIZERS)


def matrices(device, count=3, dtype="float64"):
    random = np.random.default_rng(1)
    return [
        ta.tensor(random.normal(size=(4, 3)).astype(dtype), requires_grad=True, device=device)
        for _ in range(count)
    ]


def step(optimizer, parameters, seed=2):
    random = np.random.default_rng(seed)
    for parameter in parameters:
        gradient = random.normal(size=parameter.shape).astype(parameter.dtype)
        parameter.grad = ta.tensor(gradient, device=parameter.device)
    optimizer.step()


def hosts(parameters):
    return [parameter.numpy() for parameter in parameters]


@EVERY
def test_the_parameters_become_views_and_keep_their_numbers(name, device):
    parameters = matrices(device)
    before = hosts(parameters)
    OPTIMIZERS[name](parameters)
    for parameter, old in zip(parameters, before):
        assert np.array_equal(parameter.numpy(), old)


@EVERY
def test_the_memory_layout_of_parameters_does_not_change_results(name, device):
    """One storage for all, or an optimizer for each: the same."""
    together, apart = matrices(device), matrices(device)
    one = OPTIMIZERS[name](together)
    many = [OPTIMIZERS[name]([parameter]) for parameter in apart]
    for seed in range(3):
        step(one, together, seed)
        step(type("All", (), {"step": lambda self: [o.step() for o in many]})(), apart, seed)
    for a, b in zip(hosts(together), hosts(apart)):
        np.testing.assert_allclose(a, b, rtol=1e-13)


@EVERY
def test_a_generator_of_parameters_is_taken(name, device):
    parameters = matrices(device)
    before = hosts(parameters)
    step(OPTIMIZERS[name](parameter for parameter in parameters), parameters)
    assert all(not np.array_equal(a, b) for a, b in zip(hosts(parameters), before))


@EVERY
def test_a_parameter_without_gradient_is_not_touched(name, device):
    parameters = matrices(device)
    optimizer = OPTIMIZERS[name](parameters)
    step(optimizer, parameters)
    before = hosts(parameters)
    parameters[1].grad = None
    optimizer.step()
    changed = [not np.array_equal(a, b) for a, b in zip(hosts(parameters), before)]
    assert changed == [True, False, True]


@EVERY
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_dtype_of_a_parameter_stays_whatever_the_learning_rate_is(name, dtype, device):
    parameters = matrices(device, dtype=dtype)
    optimizer = OPTIMIZERS[name](parameters)
    optimizer.param_groups[0]["lr"] = np.float64(0.1)
    step(optimizer, parameters)
    state = np.dtype("float64" if dtype == "float64" else "float32")
    assert {p.dtype for p in parameters} == {p.grad.dtype for p in parameters} == {np.dtype(dtype)}
    assert {array.dtype for array in optimizer.state_dict()["arrays"].values()} == {state}


@EVERY
def test_a_restored_optimizer_continues_bit_identically(name, device):
    parameters = matrices(device)
    optimizer = OPTIMIZERS[name](parameters)
    step(optimizer, parameters, 1)
    step(optimizer, parameters, 2)
    state = optimizer.state_dict()
    settings = json.loads(json.dumps(state["settings"]))
    others = copy.deepcopy(parameters)
    restored = OPTIMIZERS[name](others)
    restored.param_groups[0]["lr"] = 77.0
    restored.load_state_dict({"arrays": state["arrays"], "settings": settings})
    assert restored.param_groups[0]["lr"] == 0.1
    for seed in (3, 4):
        step(optimizer, parameters, seed)
        step(restored, others, seed)
    for a, b in zip(hosts(parameters), hosts(others)):
        assert np.array_equal(a, b)


def test_a_state_contains_the_names_of_the_parameters():
    model = nn.Linear(2, 3)
    state = optim.AdamW(model.named_parameters()).state_dict()
    assert set(state["arrays"]) == {
        f"{name}.{moment}_moment" for name in ("weight", "bias") for moment in ("first", "second")
    }
    assert state["arrays"]["weight.first_moment"].shape == (2, 3)
    assert state["settings"]["steps"] == {"weight": 0, "bias": 0}


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(device):
    parameters = matrices(device)
    optimizer = optim.AdamW(parameters)
    step(optimizer, parameters)
    before = optimizer.state_dict()
    state = optimizer.state_dict()
    state["arrays"]["0.first_moment"] = np.zeros((1, 3))
    del state["arrays"]["1.second_moment"]
    with pytest.raises(ValueError) as error:
        optimizer.load_state_dict(state)
    assert "0.first_moment has shape (1, 3), expected (4, 3)" in str(error.value)
    assert "1.second_moment is missing" in str(error.value)
    for name, array in optimizer.state_dict()["arrays"].items():
        assert np.array_equal(array, before["arrays"][name])
    with pytest.raises(ValueError, match="groups, expected 2"):
        optim.AdamW([{"params": parameters[:1]}, {"params": parameters[1:]}]).load_state_dict(
            before
        )


def test_a_step_is_seen_by_a_graph_that_still_needs_the_old_weight(device):
    (parameter,) = matrices(device, 1)
    loss = (parameter * parameter).sum()
    step(optim.SGD([parameter], lr=0.1), [parameter])
    with pytest.raises(RuntimeError, match="changed after it was used"):
        loss.backward()


def test_data_assigned_to_a_parameter_is_what_the_next_step_starts_from(device):
    (parameter,) = matrices(device, 1)
    optimizer = optim.SGD([parameter], lr=1.0)
    parameter.data = ta.ones((4, 3), device=device)._data.astype(np.float64)
    parameter.grad = ta.tensor(np.full((4, 3), 0.25), device=device)
    optimizer.step()
    assert np.array_equal(parameter.numpy(), np.full((4, 3), 0.75))


def test_state_loaded_into_the_model_reaches_the_flat_storage(device):
    model = nn.Linear(3, 2).to(device)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    model.load_state_dict({"weight": np.ones((3, 2)), "bias": np.zeros(2)})
    model.weight.grad = ta.ones((3, 2), device=device)
    optimizer.step()
    assert np.all(model.weight.numpy() == 0)


def test_a_model_that_was_moved_needs_a_new_optimizer():
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.parameters())
    model.to("float64")
    with pytest.raises(RuntimeError, match="create the optimizer after moving the model"):
        optimizer.step()


def test_parameters_of_different_dtypes_in_one_group(device):
    single, double = matrices(device, 1, "float32"), matrices(device, 1, "float64")
    optimizer = optim.AdamW(single + double, lr=0.1)
    step(optimizer, single + double)
    assert [parameter.dtype for parameter in single + double] == [np.float32, np.float64]


def test_zero_grad_resets_gradients(device):
    parameters = matrices(device)
    optimizer = optim.SGD(parameters)
    step(optimizer, parameters)
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in parameters)
    parameters[0].grad = ta.ones_like(parameters[0])
    optimizer.zero_grad(set_to_none=False)
    assert np.all(parameters[0].grad.numpy() == 0) and parameters[1].grad is None


def test_a_gradient_that_was_summed_into_the_flat_buffer_is_not_copied(device):
    parameters = matrices(device)
    optimizer = optim.SGD(parameters, lr=1.0)
    storage = optimizer._storages[0].storage
    before = hosts(parameters)
    for parameter, view in zip(parameters, storage.gradient_views):
        view[...] = 1.0
        parameter.grad = ta.Tensor._wrap(view)
    optimizer.step()
    for a, b in zip(hosts(parameters), before):
        np.testing.assert_allclose(a, b - 1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda p: optim.SGD([]), ValueError, "no parameters"),
        (lambda p: optim.SGD(p), TypeError, "got one tensor"),
        (lambda p: optim.SGD([1.0]), TypeError, "got a float"),
        (lambda p: optim.SGD([p * 2]), ValueError, "leaf"),
        (lambda p: optim.SGD([ta.tensor([1, 2])]), ValueError, "int64"),
        (lambda p: optim.SGD([p], lr=-1), ValueError, "lr must be at least 0, got -1"),
        (lambda p: optim.SGD([p], lr=float("nan")), ValueError, "lr must be"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "nesterov requires"),
        (lambda p: optim.AdamW([p], betas=(0.9, 1.0)), ValueError, "betas"),
        (lambda p: optim.AdamW([p], eps=-1), ValueError, "eps"),
        (lambda p: optim.AdamW([{"params": [p], "beta": 1}]), TypeError, "beta"),
        (lambda p: optim.AdamW([{"params": [p]}, {"params": [p]}]), ValueError, "in two groups"),
        (lambda p: optim.SGD(nn.Linear(2, 3)), TypeError, r"a Linear: write model.parameters\(\)"),
        (lambda p: optim.SGD({"params": [p]}), TypeError, "got one dict"),
        (lambda p: optim.SGD([{"params": [p]}, p]), TypeError, "got a Tensor in the list"),
        (lambda p: optim.SGD([p], lr="0.1"), TypeError, "lr must be a number, got '0.1'"),
        (lambda p: optim.SGD([p], lr=None), TypeError, "lr must be a number, got None"),
        (lambda p: optim.AdamW([p], betas=0.9), TypeError, "two numbers"),
        (lambda p: optim.Muon([p], parts=0), ValueError, "parts must be a whole number"),
        (lambda p: optim.Muon([p], ns_steps=1.5), ValueError, "ns_steps must be a whole number"),
        (
            lambda p: optim.SGD([("a", p), ("a", ta.tensor([1.0]))]),
            ValueError,
            "two parameters have the name a",
        ),
        (
            lambda p: optim.SGD([{"params": [("1", p)]}, {"params": [ta.tensor([1.0])]}]),
            ValueError,
            "two parameters have the name 1",
        ),
        (lambda p: optim.Muon([p]), ValueError, r"matrices, got a parameter of shape \(2,\)"),
    ],
)
def test_invalid_arguments_raise(make, error, words):
    with pytest.raises(error, match=words):
        make(ta.tensor([1.0, 2.0], requires_grad=True))


def test_an_invalid_group_leaves_the_optimizer_unchanged(device):
    parameters = matrices(device)
    optimizer = optim.Muon(parameters)
    vector = ta.tensor(np.ones(3), requires_grad=True, device=device)
    with pytest.raises(ValueError, match="matrices"):
        optimizer.add_param_group({"params": [vector]})
    assert len(optimizer.param_groups) == 1
    step(optimizer, [*parameters, vector])
    assert vector.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("state", [nn.Linear(2, 3).state_dict(), [], None])
def test_loading_another_object_than_a_state_raises(state):
    with pytest.raises(TypeError, match="with arrays and settings; got"):
        optim.SGD(nn.Linear(2, 3).parameters()).load_state_dict(state)


def test_options_that_are_numpy_numbers_are_saved_as_what_they_are():
    matrix = ta.tensor(np.ones((4, 6)), requires_grad=True)
    optimizer = optim.Muon([matrix], parts=np.int64(3), nesterov=np.bool_(True))
    (group,) = optimizer.state_dict()["settings"]["groups"]
    assert group["parts"] == 3 and type(group["parts"]) is int
    assert group["nesterov"] is True


@EVERY
def test_a_model_and_its_optimizer_are_copied_as_a_pair(name, device):
    model = nn.Linear(3, 4, bias=False).to(device)
    optimizer = OPTIMIZERS[name](model.named_parameters())
    step(optimizer, model.parameters(), seed=1)
    other, copied = copy.deepcopy((model, optimizer))
    before = model.weight.numpy()
    step(copied, other.parameters())
    np.testing.assert_array_equal(model.weight.numpy(), before)
    step(optimizer, model.parameters())
    np.testing.assert_array_equal(model.weight.numpy(), other.weight.numpy())
    assert list(copied.state_dict()["arrays"]) == list(optimizer.state_dict()["arrays"])
    copied.param_groups[0]["lr"] = 0.0
    step(copied, other.parameters())
    np.testing.assert_array_equal(model.weight.numpy(), other.weight.numpy())


def test_pickling_says_what_to_do_instead():
    with pytest.raises(TypeError, match=r"save state_dict\(\)"):
        pickle.dumps(optim.SGD(nn.Linear(2, 3).parameters()))


def test_repr_shows_groups_and_options():
    text = repr(optim.SGD(nn.Linear(2, 3).parameters(), lr=0.5))
    assert "2 parameters, 9 numbers: lr=0.5" in text


def test_weight_decay_is_for_matrices_only():
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Embedding(4, 3))
    groups = optim.weight_decay_groups(model.named_parameters(), 0.1)
    names = [[name for name, _ in group["params"]] for group in groups]
    assert names == [["0.weight", "2.weight"], ["0.bias", "1.weight", "1.bias"]]
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    with pytest.raises(TypeError, match=r"a Parameter in it: write model\.named_parameters\(\)"):
        optim.weight_decay_groups(model.parameters(), 0.1)
    assert len(optim.weight_decay_groups(nn.Linear(2, 2, bias=False).named_parameters(), 1)) == 1


@EVERY
def test_an_option_set_on_the_optimizer_is_that_of_every_group(name, device):
    parameters = matrices(device)
    optimizer = OPTIMIZERS[name]([{"params": parameters[:1]}, {"params": parameters[1:2], "lr": 3}])
    optimizer.lr = 0.0
    optimizer.add_param_group({"params": parameters[2:]})
    assert [group["lr"] for group in optimizer.param_groups] == [0.0] * 3 and optimizer.lr == 0.0
    before = hosts(parameters)
    step(optimizer, parameters)
    assert all(np.array_equal(a, b) for a, b in zip(hosts(parameters), before))
    assert copy.deepcopy(optimizer).lr == 0.0


def test_every_option_can_be_set_and_is_checked():
    optimizer = optim.AdamW(nn.Linear(2, 3).parameters())
    optimizer.betas = (0.8, 0.9)
    optimizer.weight_decay = 0.5
    assert optimizer.param_groups[0]["betas"] == optimizer.betas == (0.8, 0.9)
    assert optimizer.param_groups[0]["weight_decay"] == 0.5
    with pytest.raises(ValueError, match="lr must be at least 0, got -1"):
        optimizer.lr = -1
    with pytest.raises(TypeError, match=r"lr must be a number, got '0\.1'"):
        optimizer.lr = "0.1"
    assert optimizer.lr == optimizer.param_groups[0]["lr"] == optimizer.defaults["lr"] == 1e-3


def test_an_option_in_which_groups_differ_has_no_one_value():
    a, b = matrices("cpu", 2)
    optimizer = optim.SGD([{"params": [a], "lr": 1}, {"params": [b], "lr": 2}])
    with pytest.raises(AttributeError, match=r"differ in lr \(1, 2\).*param_groups"):
        optimizer.lr  # noqa: B018
    with pytest.raises(AttributeError, match="'SGD' object has no attribute 'betas'"):
        optimizer.betas  # noqa: B018


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1e20), ("float32", 3e38), ("float64", 1e200)]
)
def test_adamw_follows_gradients_whose_squares_overflow(dtype, size, device):
    """Among ordinary ones, which they leave alone, and not finite ones, which stay so."""
    near = 0.9 * 2.0 ** (np.finfo(dtype).maxexp // 2)  # its square is finite
    gradients = np.array(
        [[size, -size, 2.0, near, np.inf], [size, -size, -1.0, near / 9, 1.0]], dtype
    )
    results = []
    for columns in (slice(None), slice(2, 4)):
        p = ta.zeros(gradients[:, columns].shape[1], dtype=dtype, device=device, requires_grad=True)
        optimizer = optim.AdamW([p], lr=0.1, weight_decay=0.0)
        for gradient in gradients[:, columns]:
            p.grad = ta.tensor(gradient, device=device)
            with np.errstate(invalid="ignore"):
                optimizer.step()
        results.append(p.numpy())
    everything, ordinary = results
    np.testing.assert_allclose(everything[:2], [-0.2, 0.2], rtol=1e-5)
    np.testing.assert_array_equal(everything[2:4], ordinary)
    assert np.isnan(everything[4])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("executor", [None, ThreadExecutor])
@pytest.mark.parametrize("value", [1e30, np.inf])
@EVERY
def test_a_step_out_of_range_prints_no_warning(name, value, executor):
    """As operations, which print none; the trainer looks at the result."""
    p = ta.tensor(np.full((2, 2), 1e30), dtype="float32", requires_grad=True)
    p.grad = ta.tensor(np.full((2, 2), value), dtype="float32")
    executor = executor and executor(nn.Linear(1, 1), workers=2)
    OPTIMIZERS[name]([p]).step(executor)
    optimizer = OPTIMIZERS[name]([p])
    optimizer.lr = 1e300
    optimizer.step(executor)
    if executor:
        executor.close()
    assert not np.isfinite(p.numpy()).all()
