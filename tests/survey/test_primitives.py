"""The survey covers every primitive and kernel, and reports what is wrong."""

import importlib
import pkgutil
import sys

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES, primitive
from tinyattn.autograd.primitive import registered_kernels
from tinyattn.survey.cases import CASES
from tinyattn.survey.primitives import check_primitive, versions


def library_primitives():
    for floor in ("ops", "attention"):
        package = importlib.import_module(f"tinyattn.{floor}")
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    return sorted(
        name
        for name, one in PRIMITIVES.items()
        if one.forward.__module__.startswith(("tinyattn.ops", "tinyattn.attention"))
    )


@pytest.mark.parametrize("name", library_primitives())
def test_rule_and_kernel_of_every_primitive_agree_with_differences(name, device):
    # The second order runs the same rules, slowly on the other devices.
    order = 2 if device == "cpu" else 1
    for version in versions(name, device):
        row = check_primitive(name, version, device, order)
        assert row.passed, "\n".join(row.faults)
        assert row.cases and row.relative_error < 1e-6


def test_the_table_names_only_what_exists():
    assert set(CASES) <= set(library_primitives())


def test_every_kernel_is_surveyed():
    kernels = {name for name, kind in registered_kernels() if kind == "cpu"}
    assert kernels <= set(CASES) and all(versions(name) == ("rule", "kernel") for name in kernels)


@pytest.fixture
def strange():
    @primitive
    def strange(x, /):
        return x * x

    @strange.vjp
    def strange_vjp(g, _out, x):
        return g * x

    yield strange
    del PRIMITIVES["strange"]
    CASES.pop("strange", None)


def test_a_primitive_without_a_case_is_a_fault(strange):
    row = check_primitive("strange", "rule")
    assert not row.passed and "has no case" in row.faults[0]


def test_a_wrong_primitive_is_a_fault(strange):
    CASES["strange"] = CASES["square"]
    row = check_primitive("strange", "rule")
    assert len(row.faults) >= 2 and "strange" in row.faults[0]


def test_an_exception_is_a_fault_and_does_not_end_the_survey(strange, monkeypatch):
    CASES["strange"] = CASES["square"]
    monkeypatch.setitem(strange.vjps, 0, lambda g, _out, x: 1 / 0)
    row = check_primitive("strange", "rule")
    assert "ZeroDivisionError" in row.faults[0]


def test_a_wrong_kernel_is_a_fault(monkeypatch):
    kernels = sys.modules["tinyattn.autograd.primitive"]._KERNELS
    kernel = kernels["softmax", "cpu"]
    wrong = kernel._replace(backward=lambda g, residuals: 1.0001 * kernel.backward(g, residuals))
    monkeypatch.setitem(kernels, ("softmax", "cpu"), wrong)
    assert check_primitive("softmax", "rule").passed
    assert not check_primitive("softmax", "kernel").passed


def test_inputs_are_reproducible():
    first, again = CASES["matmul"][1].draw(3), CASES["matmul"][1].draw(3)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert isinstance(ta.tensor(first[0]), ta.Tensor)
