"""Every example in a docstring runs and prints what it says; every public name has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import tinyattn
import tinyattn as ta

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(tinyattn.__path__, "tinyattn.", onerror=lambda name: None)
    if not module.name.endswith("__main__")
)


def imported(name):
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        if "cupy" not in str(error).lower():
            raise
        pytest.skip(f"{name} needs CuPy: {error}")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_print_what_they_say(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # an example may write files
    monkeypatch.delenv("TINYATTN_DEVICE", raising=False)
    failures, _ = doctest.testmod(imported(name), optionflags=OPTIONS, verbose=False)
    assert failures == 0, (
        f"{failures} examples of {name} print something else: see the captured output"
    )


def public_names():
    for module in (ta, ta.data, ta.models, ta.nn, ta.optim):
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if not name.startswith("_") and not inspect.ismodule(value) and callable(value):
                yield f"{module.__name__}.{name}", value


@pytest.mark.parametrize(("name", "value"), list(public_names()))
def test_a_public_name_says_what_it_does_with_an_example(name, value):
    text = inspect.getdoc(value) or ""
    assert ">>>" in text, f"the docstring of {name} has no example"
