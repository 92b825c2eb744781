"""User input: masked arrays raise, byte orders are converted, and sets raise, wherever arrays are accepted."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import Random, backend_of, get_backend, host_array
from tinyattn.data import (
    Batches,
    CharVocabulary,
    bigram_loss,
    evaluation_batches,
    split_text,
    unigram_loss,
)
from tinyattn.models.encoder import mask_tokens
from tinyattn.sampling import sample_probabilities

MASK = [False, False, True]
NUMBERS = np.ma.array([1.0, 2.0, 1e20], mask=MASK, dtype=np.float32)
TRUTHS = np.ma.array([True, True, False], mask=MASK)
IDS = np.ma.array([1, 2, 0], mask=MASK)

# Where an array can come in: each takes a tensor with three elements.
ENTRANCES = {
    "Tensor": lambda x: ta.Tensor(NUMBERS),
    "tensor": lambda x: ta.tensor(NUMBERS),
    "tensor of a list": lambda x: ta.tensor([NUMBERS, NUMBERS]),
    "tensor of a nested list": lambda x: ta.tensor([[NUMBERS], [NUMBERS]]),
    "tensor of the masked constant": lambda x: ta.tensor([1.0, np.ma.masked]),
    "device": lambda x: ta.tensor(NUMBERS, device="strict"),
    "backend": lambda x: get_backend(x.device).asarray(NUMBERS),
    "search for the backend": lambda x: backend_of(NUMBERS),
    "search for the namespace": lambda x: ta.array_namespace(NUMBERS),
    "data": lambda x: setattr(x, "data", NUMBERS),
    "function": lambda x: ta.sum(NUMBERS),
    "function of two": lambda x: ta.add(x, NUMBERS),
    "function of a list": lambda x: ta.add(x, [NUMBERS]),
    "concatenate": lambda x: ta.concatenate([x, NUMBERS]),
    "stack": lambda x: ta.stack([NUMBERS, x]),
    "where": lambda x: ta.where(TRUTHS, x, 0.0),
    "masked_fill": lambda x: ta.masked_fill(x, TRUTHS, 0.0),
    "right operand": lambda x: x * NUMBERS,
    "left operand": lambda x: NUMBERS * x,
    "comparison": lambda x: x < NUMBERS,
    "equality": lambda x: x == NUMBERS,
    "logic": lambda x: (x > 0) & ta.tensor(TRUTHS),
    "index": lambda x: x[IDS],
    "mask as index": lambda x: x[TRUTHS],
    "take": lambda x: ta.take(x, IDS),
    "like": lambda x: ta.zeros_like(NUMBERS),
    "embedding": lambda x: ta.embedding(IDS, x),
    "cross_entropy": lambda x: ta.cross_entropy(ta.ones((3, 3), device=x.device), IDS),
    "attention": lambda x: ta.scaled_dot_product_attention(
        *[ta.ones((3, 3), device=x.device)] * 3, mask=TRUTHS
    ),
    "cotangent": lambda x: (x * 2).backward(NUMBERS),
    "grad": lambda x: ta.grad(x * 2, x, NUMBERS),
    "hvp": lambda x: ta.hvp(lambda x: (x**3).sum(), x, NUMBERS),
    "gradcheck": lambda x: ta.gradcheck(ta.exp, NUMBERS.astype(float)),
    "parameter": lambda x: ta.nn.Parameter(NUMBERS),
    "state": lambda x: ta.nn.LayerNorm(3, bias=False).load_state_dict({"weight": NUMBERS}),
    "masked language": lambda x: mask_tokens(IDS, vocabulary_size=5),
    "probabilities": lambda x: sample_probabilities(NUMBERS),
    "split": lambda x: split_text(np.ma.array(np.arange(100)), 8),
    "batches": lambda x: Batches(IDS, 1, 1, Random(0)),
    "evaluation": lambda x: list(evaluation_batches(IDS, 1, 1)),
    "unigram": lambda x: unigram_loss(IDS, IDS, 3),
    "bigram": lambda x: bigram_loss(IDS, IDS, 3),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_masked_array_raises(entrance, device):
    x = ta.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    with pytest.raises(TypeError, match="masked array"):
        ENTRANCES[entrance](x)


def test_a_filled_masked_array_is_accepted():
    assert ta.sum(NUMBERS.filled(0)).item() == 3


SWAPPED = np.dtype(np.float32).newbyteorder("S")
FOREIGN = np.array([1.0, 2.0, 3.0], SWAPPED)

CONVERSIONS = {
    "tensor": lambda device: ta.tensor(FOREIGN, device=device),
    "tensor of a list": lambda device: ta.tensor([FOREIGN], device=device),
    "dtype of tensor": lambda device: ta.tensor([1.0, 2.0], dtype=SWAPPED, device=device),
    "backend": lambda device: ta.Tensor._wrap(get_backend(device).asarray(FOREIGN)),
    "zeros": lambda device: ta.zeros(3, dtype=SWAPPED, device=device),
    "full": lambda device: ta.full((3,), 1.0, dtype=SWAPPED, device=device),
    "arange": lambda device: ta.arange(3, dtype=SWAPPED, device=device),
    "eye": lambda device: ta.eye(3, dtype=SWAPPED, device=device),
    "dtype of like": lambda device: ta.zeros_like(ta.ones(3, device=device), dtype=SWAPPED),
    "astype": lambda device: ta.ones(3, dtype="float64", device=device).astype(SWAPPED),
    "to": lambda device: ta.ones(3, dtype="float64", device=device).to(SWAPPED),
    "module": lambda device: ta.nn.LayerNorm(3).to(device).to("float64").to(SWAPPED).weight,
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_numbers_are_in_the_byte_order_of_the_machine(name, device):
    tensor = CONVERSIONS[name](device)
    assert tensor.dtype == np.float32 and tensor._data.dtype.isnative


@pytest.mark.parametrize(
    "make",
    [
        lambda: ta.exp(FOREIGN),
        lambda: ta.reshape(FOREIGN, (3, 1)),
        lambda: ta.concatenate([FOREIGN, FOREIGN]),
        lambda: ta.ones(3) + FOREIGN,
        lambda: FOREIGN * ta.ones(3),
        lambda: ta.zeros_like(FOREIGN),
        lambda: ta.ones(3)[FOREIGN.astype(">i8") - 1],
        lambda: ta.nn.Parameter(FOREIGN),
    ],
)
def test_an_operation_on_an_array_of_the_other_byte_order_gives_native_numbers(make):
    tensor = make()
    assert tensor.dtype == np.float32 and tensor._data.dtype.isnative


def test_data_and_states_of_the_other_byte_order_keep_their_numbers():
    x = ta.ones(3)
    x.data = FOREIGN
    assert x.tolist() == [1, 2, 3] and x._data.dtype.isnative
    layer = ta.nn.LayerNorm(3, bias=False)
    layer.load_state_dict({"weight": FOREIGN})
    assert layer.weight.tolist() == [1, 2, 3] and layer.weight._data.dtype.isnative


def test_ids_of_the_other_byte_order_are_ids():
    weight = ta.tensor(np.eye(4), requires_grad=True)
    ids = np.array([3, 1, 3], ">i4")
    ta.embedding(ids, weight).sum().backward()
    assert weight.grad.sum(axis=1).tolist() == [0, 4, 0, 8]
    loss = ta.cross_entropy(ta.ones((3, 4)), ids)
    assert loss.item() == pytest.approx(np.log(4), rel=1e-6)


def test_a_native_array_is_not_copied():
    array = np.ones(3)
    assert host_array(array) is array


# Where order means something: what is saved by position, added up in turn, or returned in the order of what came in.
COLLECTIONS = {
    "optimizer": lambda x: ta.optim.SGD({x}),
    "group": lambda x: ta.optim.SGD([{"params": frozenset([x])}]),
    "weight decay": lambda x: ta.optim.weight_decay_groups({("x", x)}, 0.1),
    "clipping": lambda x: ta.optim.clip_grad_norm({x}, 1.0),
    "inputs of grad": lambda x: ta.grad(x.sum(), {x}),
    "outputs of grad": lambda x: ta.grad({x.sum()}, x),
    "inputs of hvp": lambda x: ta.hvp(ta.sum, {x}, [x]),
    "concatenate": lambda x: ta.concatenate({x, x + 1}),
    "stack": lambda x: ta.stack({x, x + 1}),
    "ModuleList": lambda x: ta.nn.ModuleList({ta.nn.Linear(1, 1)}),
    "extend": lambda x: ta.nn.ModuleList().extend({ta.nn.Linear(1, 1)}),
    "inputs of gradcheck": lambda x: ta.gradcheck(lambda xs: sum(xs), [{x.astype("float64")}]),
    "params of gradcheck": lambda x: ta.gradcheck(ta.exp, np.ones(2), params={x}),
    "vocabulary": lambda x: CharVocabulary(set("abc")),
    "ids": lambda x: CharVocabulary("abc").decode({0, 2}),
    "ids to continue": lambda x: ta.generate(ta.nn.Linear(1, 1), {0, 2}, 3),
}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_set_raises_where_order_matters(name):
    x = ta.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"is a (frozen)?set, which has no order: expected a list"):
        COLLECTIONS[name](x)


def test_any_ordered_iterable_is_accepted():
    model = ta.nn.Linear(2, 2)
    named = dict(model.named_parameters())
    assert len(ta.optim.SGD(named.values()).param_groups[0]["params"]) == 2
    assert ta.optim.clip_grad_norm(iter(model.parameters()), 1.0) == 0
    assert CharVocabulary(dict.fromkeys("ba")).characters == ("b", "a")
