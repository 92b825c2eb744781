"""PyTorch's names and arguments work, or raise an error with the replacement."""

import ast
import copy
import functools
import inspect
import json
import pickle

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd import pytorch_names

OWNERS = {
    "OF_TENSORS": (ta.ones(2), "torch.Tensor"),
    "OF_PACKAGE": (ta, "torch"),
    "OF_LAYERS": (ta.nn, "torch.nn"),
    "OF_OPTIMIZERS": (ta.optim, "torch.optim"),
}
NAMES = [(table, name) for table in OWNERS for name in getattr(pytorch_names, table)]


@pytest.mark.parametrize(("table", "name"), NAMES)
def test_a_pytorch_name_raises_with_its_replacement(table, name):
    owner, _ = OWNERS[table]
    use = getattr(pytorch_names, table)[name]
    with pytest.raises(AttributeError) as error:
        getattr(owner, name)
    assert str(error.value).endswith(f"{name!r}, which is PyTorch's name: use {use}")
    assert not hasattr(owner, name) and name not in dir(owner)
    if use.isidentifier():
        assert hasattr(owner, use)


@pytest.mark.parametrize(("table", "name"), NAMES)
def test_the_tables_hold_names_that_pytorch_has(table, name):
    torch = pytest.importorskip("torch")
    path = OWNERS[table][1].split(".")[1:]
    owners = [functools.reduce(getattr, path, torch)]
    if table != "OF_TENSORS":
        owners += [torch.nn, torch.nn.functional, torch.nn.utils]
    assert any(hasattr(owner, name) for owner in owners)


def names_in(text):
    """The variables of an expression, None for what is no Python."""
    try:
        return {
            node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)
        }
    except SyntaxError:
        return None


def test_hints_that_are_expressions_can_be_typed_as_they_are():
    x = ta.tensor([1.0, 2.0])
    known = {name: getattr(ta, name) for name in ta.__all__}
    known |= {
        "tinyattn": ta,
        "numpy": np,
        "x": x,
        "y": x + 1,
        "z": 1.0,
        "mask": x > 1,
        "values": 0.0,
    }
    known |= {
        "start": 0,
        "stop": 1,
        "position": 0,
        "k": 1,
        "seed": 0,
        "count": 3,
        "low": 0,
        "high": 2,
    }
    known |= {"shape": (2,), "arrays": [x, x]}
    ran = 0
    for use in [*pytorch_names.OF_TENSORS.values(), *pytorch_names.OF_PACKAGE.values()]:
        variables = names_in(use.removesuffix(": it has no gradient"))
        if variables and variables <= known.keys():
            eval(use.removesuffix(": it has no gradient"), dict(known))
            ran += 1
    assert ran > 50


def test_dir_lists_only_what_exists():
    for x in (ta.ones((2, 2)), ta.ones((2, 2)) * 2, ta.nn.Parameter(np.eye(2))):
        assert [name for name in dir(x) if not hasattr(x, name)] == []
        assert {"shape", "sum", "reshape", "backward", "T"} <= set(dir(x))
    model = ta.nn.Linear(2, 3)
    assert [name for name in dir(model) if not hasattr(model, name)] == []
    assert {"weight", "named_parameters"} <= set(dir(model))


def test_an_unknown_name_has_no_hint():
    for owner in (ta.ones(2), ta, ta.nn, ta.optim):
        with pytest.raises(AttributeError, match=r"has no attribute 'quux'$"):
            owner.quux  # noqa: B018


def test_calling_size_raises_with_its_replacement():
    x = ta.ones((2, 3))
    assert x.size == 6 and repr(x.size) == str(x.size) == "6" and isinstance(x.size, int)
    with pytest.raises(
        TypeError, match=r"number of elements, 6, and not a function: use x\.shape$"
    ):
        x.size()
    with pytest.raises(TypeError, match=r"use x\.shape\[-1\]"):
        x.size(-1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8"])
def test_size_takes_the_dtype_of_what_it_is_computed_with(dtype, device):
    x = ta.tensor(np.ones((2, 3), dtype), device=device)
    assert (x * x.size).dtype == (x.size * x).dtype == x.dtype
    assert (x._data * x.size).dtype == (x.size * x._data).dtype == x.dtype
    assert ta.maximum(x, x.size).dtype == x.dtype


def test_size_is_saved_as_a_number():
    size = ta.ones(3).size
    assert json.dumps(size) == "3"
    assert type(pickle.loads(pickle.dumps(size))) is type(copy.copy(size)) is int


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x.sum(dim=0), "axis is what PyTorch calls dim"),
        (lambda x: x.mean(keepdim=True), "keepdims is what PyTorch calls keepdim"),
        (lambda x: x.std(unbiased=False), "ddof is what PyTorch calls unbiased"),
        (lambda x: ta.softmax(x, dim=-1), "axis is what PyTorch calls dim"),
        (lambda x: ta.flip(x, dims=(0,)), "axis is what PyTorch calls dims"),
        (lambda x: ta.concatenate([x, x], dim=1), "axis is what PyTorch calls dim"),
        (lambda x: ta.stack([x, x], dim=1), "axis is what PyTorch calls dim"),
        (lambda x: ta.split(x, 2, dim=0), "axis is what PyTorch calls dim"),
        (lambda x: x.squeeze(dim=0), "axis is what PyTorch calls dim"),
        (lambda x: x.expand_dims(dim=0), "axis is what PyTorch calls dim"),
        (lambda x: x.take([0], dim=0), "axis is what PyTorch calls dim"),
        (lambda x: x.argmax(dim=0), "axis is what PyTorch calls dim"),
        (lambda x: x.argmin(keepdim=True), "keepdims is what PyTorch calls keepdim"),
        (lambda x: x.swapaxes(dim0=0, dim1=1), "axis1 is what PyTorch calls dim0"),
    ],
)
def test_a_pytorch_argument_raises_with_its_replacement(call, words):
    with pytest.raises(TypeError, match=words):
        call(ta.ones((2, 3)))


def test_the_signature_that_help_shows_is_the_functions_own():
    assert str(inspect.signature(ta.concatenate)) == "(arrays, axis=0)"
