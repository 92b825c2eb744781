"""What importing the package costs, and the names people rely on."""

import configparser
import contextlib
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import tinyattn as ta

OPS = (
    "add sub mul div pow neg abs exp log log1p expm1 sqrt rsqrt square tanh sigmoid relu gelu silu erf sin cos maximum "
    "minimum clip where masked_fill sum mean var std prod max min logsumexp cumsum matmul einsum transpose swapaxes "
    "moveaxis reshape broadcast_to concatenate stack split squeeze expand_dims flip tril triu take embedding softmax "
    "log_softmax layer_norm rms_norm linear dropout cross_entropy nll_loss mse_loss scaled_dot_product_attention"
).split()
METHODS = (
    "abs exp log sqrt square tanh clip sum mean var std prod max min cumsum transpose swapaxes reshape squeeze take "
    "split numpy item detach to cpu cuda astype backward retain_grad register_hook"
).split()
ATTRIBUTES = "data grad shape ndim size dtype device requires_grad is_leaf T mT".split()
ENGINE = (
    "Tensor tensor no_grad enable_grad set_grad_enabled is_grad_enabled detect_anomaly reference grad hvp gradcheck "
    "GradcheckError device manual_seed primitive array_namespace nn optim models study data train generate save load "
    "rand randn"
).split()
NN = (
    "Module Parameter Linear Embedding BigramEmbedding LayerNorm RMSNorm Dropout Sequential ModuleList "
    "MultiHeadAttention FeedForward TransformerBlock SinusoidalPositions LearnedPositions Rotary ALiBi"
).split()
OPTIM = "SGD AdamW Muon clip_grad_norm schedules".split()


def modules_after(statement):
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_importing_the_package_loads_numpy_and_the_standard_library_only():
    new = modules_after("import tinyattn") - modules_after("import numpy")
    assert {name.partition(".")[0] for name in new} - sys.stdlib_module_names == {"tinyattn"}


def test_importing_the_package_loads_no_slow_module_of_the_standard_library():
    new = modules_after("import tinyattn") - modules_after("import numpy")
    # Each of these costs more than the package itself.
    assert new & {"asyncio", "http.client", "multiprocessing", "ssl", "unittest"} == set()
    assert "numpy.random" not in new


@pytest.mark.parametrize("folder", ["ops", "attention", "kernels/cpu", "kernels/portable"])
def test_every_file_that_can_register_something_is_imported(folder):
    package = f"tinyattn.{folder.replace('/', '.')}"
    files = (Path(ta.__file__).parent / folder).glob("[!_]*.py")
    assert {f"{package}.{file.stem}" for file in files} <= modules_after("import tinyattn")


@pytest.mark.parametrize("name", OPS + ENGINE)
def test_the_package_has(name):
    assert hasattr(ta, name) and name in dir(ta) and name in ta.__all__


def test_all_that_the_package_lists_is_there():
    assert [name for name in dir(ta) if not hasattr(ta, name)] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'tinyattn' has no attribute 'sofmax'"):
        ta.sofmax  # noqa: B018


def test_the_parts_above_the_operations_are_imported_at_their_first_use():
    parts = {
        f"tinyattn.{name}" for name in "nn optim models data checker study train sampling".split()
    }
    assert modules_after("import tinyattn") & parts == set()
    new = modules_after("import tinyattn as ta; ta.nn, ta.optim, ta.gradcheck")
    assert new & parts == {"tinyattn.nn", "tinyattn.optim", "tinyattn.checker"}


@pytest.mark.parametrize(
    "statement",
    [
        "import tinyattn as ta; ta.generate",
        "import tinyattn.sampling; import tinyattn as ta",
        "from tinyattn.sampling import generate; import tinyattn as ta",
        "import tinyattn.train; import tinyattn as ta; from tinyattn import generate",
    ],
)
def test_generate_is_a_function_in_whatever_order_things_are_imported(statement):
    code = (
        f"{statement}\n"
        "model = ta.models.GPT(ta.models.GPTConfig(vocabulary_size=5, block_size=4, layers=1, heads=1, dim=4))\n"
        "print(len(list(ta.generate(model, [1], 3))))\n"
        "from tinyattn.sampling import draw"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "3\n"


@pytest.mark.parametrize("name", METHODS + ATTRIBUTES)
def test_a_tensor_has(name):
    assert hasattr(ta.Tensor, name)


@pytest.mark.parametrize("name", NN)
def test_nn_has(name):
    assert hasattr(ta.nn, name)


@pytest.mark.parametrize("name", OPTIM)
def test_optim_has(name):
    assert hasattr(ta.optim, name)


@pytest.mark.parametrize("name", ["GPT", "GPTConfig", "Encoder"])
def test_models_has(name):
    assert hasattr(ta.models, name)


def test_an_editable_install_is_a_plain_path():
    # setuptools installs a finder instead unless the packages' root is named; the finder comes after the
    # current directory, where a checkout of the package's own name passes for an empty namespace.
    settings = configparser.ConfigParser()
    settings.read(Path(__file__).parents[1] / "setup.cfg")
    assert settings["options"]["package_dir"].split() == ["=", "."]


def test_all_package_data_that_the_metadata_names_exists():
    settings = configparser.ConfigParser()
    settings.read(Path(__file__).parents[1] / "setup.cfg")
    package = Path(ta.__file__).parent
    for name, patterns in settings["options.package_data"].items():
        folder = package if name == "*" else package.parent / name.replace(".", "/")
        for pattern in re.split(r"[,\s]+", patterns.strip()):
            assert any(folder.rglob(pattern)), f"{name} has no {pattern}"


def test_public_functions_are_functions_and_their_modules_have_other_names():
    for function in (ta.generate, ta.gradcheck, ta.study.explain, ta.study.explore):
        assert inspect.isfunction(function)
        assert not function.__module__.endswith(function.__name__)


def test_every_module_of_the_package_is_an_ordinary_module():
    for module in pkgutil.walk_packages(ta.__path__, "tinyattn."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError, RuntimeError):  # without CuPy or MPI
                assert type(importlib.import_module(module.name)) is types.ModuleType
