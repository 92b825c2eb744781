"""The strict backend has the functions of CuPy: its lists are compared with the CuPy package."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import get_backend, strict_namespace
from tinyattn.backend.strict_array import StrictArray

xp = get_backend("strict").xp


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed", exc_type=ImportError)


ALL_NAMES = sorted(
    {
        *strict_namespace.UFUNCS,
        *strict_namespace.UFUNC_ALIASES,
        *strict_namespace.ARRAY_FUNCTIONS,
        *strict_namespace.OTHER_FUNCTIONS,
        *strict_namespace.CONSTANTS,
        *(name for name in vars(strict_namespace.StrictNamespace) if not name.startswith("_")),
    }
)


def test_every_function_of_the_strict_namespace_is_one_of_cupy(cupy):
    assert [name for name in ALL_NAMES if not hasattr(cupy, name)] == []


def test_every_argument_of_a_strict_function_is_one_of_cupy_in_the_same_order(cupy):
    for name, arguments in strict_namespace.ARRAY_FUNCTIONS.items():
        try:
            known = list(inspect.signature(getattr(cupy, name)).parameters)[1:]
        except ValueError:
            known = None  # compiled without a signature: its docstring begins with one
            line = getattr(cupy, name).__doc__.splitlines()[0]
            assert all(argument in line for argument in arguments.split()), name
        if known is not None:
            assert known[: len(arguments.split())] == arguments.split(), name


def test_every_keyword_of_the_other_functions_is_one_of_cupy(cupy):
    for name, keywords in strict_namespace.OTHER_FUNCTIONS.items():
        function = getattr(cupy, name)
        known = set(inspect.signature(function).parameters)
        if "kwargs" in known:  # named in the text only
            known = set(function.__doc__.replace("=", " ").replace("`", " ").split())
        assert set(keywords.split()) <= known, name


def test_einsum_takes_no_out():
    with pytest.raises(TypeError, match="'out' in CuPy"):
        xp.einsum("i->", xp.ones(2), out=xp.zeros(()))


LIBRARY = Path(ta.__file__).parent
CALLED = re.compile(r"(?:\bxp|array_namespace\([^()]*\))\.(\w+)")


def test_every_function_that_the_library_calls_is_in_the_namespace():
    missing = {
        (str(path.relative_to(LIBRARY)), name)
        for path in LIBRARY.rglob("*.py")
        if "kernels" not in path.parts
        for name in CALLED.findall(path.read_text())
        if not hasattr(xp, name)
    }
    assert missing == set()


def test_elementwise_functions_are_ufuncs_in_cupy(cupy):
    generalized = type(cupy.matmul)
    for name in strict_namespace.UFUNCS:
        assert isinstance(getattr(cupy, name), (cupy.ufunc, generalized)), name


def test_every_method_of_a_strict_array_is_one_of_cupy(cupy):
    methods = [name for name in vars(StrictArray) if not name.startswith("_")]
    methods += [f"__{op}__" for op in "add rsub imul matmul pow neg abs lt eq getitem".split()]
    assert [name for name in methods if not hasattr(cupy.ndarray, name)] == []
    for absent in ("__index__", "__imatmul__", "__array_interface__"):
        assert not hasattr(cupy.ndarray, absent) and not hasattr(StrictArray, absent)


def test_scalar_promotion_is_the_same_rule_in_cupy(cupy):
    # result_type is computed on the host in both, so that it can be asked without a GPU.
    assert cupy.result_type(np.float32, 2.0) == xp.result_type(np.float32, 2.0) == np.float32
    strong = np.float64(2)
    assert cupy.result_type(np.float32, strong) == xp.result_type(np.float32, strong) == np.float64


@pytest.mark.parametrize("name", ["erf", "vecdot", "trapezoid", "save", "random"])
def test_a_name_that_is_not_listed_says_where_the_list_is(name):
    with pytest.raises(AttributeError, match=rf"no function '{name}'.*strict_namespace"):
        getattr(xp, name)


def test_ufunc_methods_are_absent():
    assert not hasattr(xp.add, "at")
    assert not hasattr(xp.maximum, "reduce")


def test_an_argument_that_only_numpy_has_is_refused():
    with pytest.raises(TypeError, match="'initial' in CuPy"):
        xp.max(xp.ones(3), initial=0.0)
    with pytest.raises(TypeError, match="'where' in CuPy"):
        xp.sum(xp.ones(3), where=xp.ones(3) > 0)


REFUSED = {
    "a host array in an elementwise function": lambda a, host: xp.add(a, host),
    "a host array alone": lambda a, host: xp.exp(host),
    "a list in an elementwise function": lambda a, host: xp.add(a, [1.0, 2.0]),
    "a host array to reduce": lambda a, host: xp.sum(host),
    "a host array to reshape": lambda a, host: xp.reshape(host, (2, 1)),
    "a host array in a list": lambda a, host: xp.concatenate([a, host]),
    "a host array in einsum": lambda a, host: xp.einsum("i,i->i", a, host),
    "a host array as out": lambda a, host: xp.exp(a, out=host),
    "a host array as a branch of where": lambda a, host: xp.where(a > 0, a, host),
    "a bool as condition of where": lambda a, host: xp.where(True, a, a),
    "a device value among host values": lambda a, host: xp.array([0.0, xp.sum(a)]),
    "a device array in a NumPy function": lambda a, host: np.asarray(a),
    "a host array times a device array": lambda a, host: host * a,
    "a device array times a host array": lambda a, host: a * host,
    "a host matrix product": lambda a, host: a @ host,
    "a host comparison": lambda a, host: a < host,
    "a device array in place with a host array": lambda a, host: a.__iadd__(host),
    "a host array in place with a device array": lambda a, host: host.__iadd__(a),
}


@pytest.mark.parametrize("what", REFUSED)
def test_nothing_is_converted_implicitly(what):
    with pytest.raises(TypeError):
        REFUSED[what](xp.ones(2), np.ones(2))


def test_asarray_converts_explicitly_and_copies():
    host = np.ones(2)
    on_device = xp.asarray(host)
    host[0] = 5
    assert on_device.tolist() == [1, 1]
    back = on_device.get()
    back[0] = 7
    assert on_device.tolist() == [1, 1]
    assert xp.asarray(on_device) is on_device
    assert xp.array([xp.ones(2), xp.zeros(2)]).shape == (2, 2)


@pytest.mark.parametrize("name", ["sum", "max", "mean", "argmax", "all", "count_nonzero", "std"])
def test_reductions_give_arrays_without_axes(name):
    result = getattr(xp, name)(xp.ones((2, 3)))
    assert type(result) is StrictArray and result.shape == ()


@pytest.mark.parametrize("name", ["allclose", "array_equal"])
def test_comparisons_of_whole_arrays_give_arrays_without_axes(name):
    result = getattr(xp, name)(xp.ones(3), xp.ones(3))
    assert type(result) is StrictArray and result.shape == () and bool(result)


def test_results_agree_with_numpy(random):
    host = random.standard_normal((3, 4))
    a = xp.asarray(host)
    for name in "exp tanh negative sign square isfinite".split():
        assert np.array_equal(getattr(xp, name)(a).get(), getattr(np, name)(host)), name
    assert np.array_equal(xp.transpose(a, (1, 0)).get(), host.T)
    assert np.array_equal(xp.reshape(a, (2, 6)).get(), host.reshape(2, 6))
    assert np.array_equal(xp.clip(a, -0.5, 0.5).get(), np.clip(host, -0.5, 0.5))
    assert np.array_equal(xp.einsum("ij,kj->ik", a, a).get(), np.einsum("ij,kj->ik", host, host))
    assert np.array_equal(xp.concatenate([a, a], axis=1).get(), np.concatenate([host, host], 1))
    assert np.array_equal(xp.where(a > 0, a, 0.0).get(), np.where(host > 0, host, 0.0))
    assert np.array_equal(xp.broadcast_to(a, (2, 3, 4)).get(), np.broadcast_to(host, (2, 3, 4)))
    assert np.array_equal(xp.tril(a, k=1).get(), np.tril(host, 1))
    assert [piece.shape for piece in xp.split(a, 2, axis=1)] == [(3, 2), (3, 2)]
    assert xp.shape(a) == (3, 4) and xp.ndim(a) == 2 and xp.size(a) == 12


def test_out_receives_the_result_and_is_returned():
    a = xp.ones(3)
    out = xp.zeros(3)
    assert xp.add(a, 1, out=out) is out
    assert xp.add(a, 1, out) is out
    assert out.tolist() == [2, 2, 2]
    product = xp.empty((2, 2))
    assert xp.matmul(xp.ones((2, 3)), xp.ones((3, 2)), out=product) is product
    assert product.tolist() == [[3, 3], [3, 3]]


def test_take_wraps_out_of_range_indices_silently():
    a = xp.arange(3)
    assert xp.take(a, xp.array([3, -1, 4])).tolist() == [0, 2, 1]
    assert xp.take_along_axis(a, xp.array([5]), axis=0).tolist() == [2]


def test_no_floating_point_warnings():
    with np.errstate(all="raise"):
        assert xp.isinf(xp.ones(1) / 0.0).tolist() == [True]
        assert xp.isnan(xp.log(xp.asarray([-1.0]))).tolist() == [True]
        assert xp.isinf(xp.exp(xp.asarray([1000.0]))).tolist() == [True]
