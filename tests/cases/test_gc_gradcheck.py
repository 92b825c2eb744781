"""Hard cases GC: a gradient check calls no right gradient wrong and no wrong gradient right."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES, primitive
from tinyattn.checker import gradient_report
from tinyattn.ops.dropout import dropout_by_key


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_GC_01_low_precision_is_held_against_a_float64_copy(dtype, device):
    x = ta.tensor(np.array([1000.0], dtype), device=device)
    report = gradient_report(ta.square, x)
    assert report.verdict == "right" and report.arguments[0].precision.dtype == dtype
    report = gradient_report(ta.square, x, upcast=True, cotangent=np.ones(1), rtol=1e-6, atol=1e-8)
    assert report.passed
    assert report.arguments[0].numeric == pytest.approx(2000, rel=1e-7)
    assert x.dtype == dtype


def test_GC_02_randomness_is_called_randomness_and_not_a_wrong_gradient(leaf, random):
    x = leaf(random.standard_normal((4, 8)))
    with pytest.raises(ta.GradcheckError, match="not deterministic"):
        ta.gradcheck(lambda x: ta.dropout(x, 0.5).sum(), x)
    assert ta.gradcheck(lambda x: dropout_by_key(x, p=0.5, key=3).sum(), x)


def test_GC_04_inputs_are_the_same_to_the_bit_afterwards(leaf):
    x = leaf([0.7, 0.1, 1 / 3])
    before = x.numpy().tobytes()
    seen = []

    def fn(x):
        seen.append(x.numpy())
        return ta.sin(x) * ta.exp(x)

    assert ta.gradcheck(fn, x)
    assert ta.gradcheck(lambda: fn(x), (), params=[x])
    assert x.numpy().tobytes() == before
    # While one element is moved, all others have their initial values, to the bit.
    for point in seen:
        assert (point == np.frombuffer(before)).sum() >= 2


def test_GC_05_an_expanded_input_moves_one_element_at_a_time(constant, device):
    matrix = constant([[1.0, 2.0], [3.0, 4.0]])
    x = np.broadcast_to(np.array([1.5]), (2,))
    assert ta.gradcheck(lambda x: (matrix @ x).sum(), ta.tensor(x, device=device))
    if device == "cpu":
        assert ta.gradcheck(lambda x: (matrix @ x).sum(), x)
        expanded = ta.broadcast_to(ta.tensor(np.array([1.5])), (2,)).detach()
        assert expanded._data.strides == (0,)
        assert ta.gradcheck(lambda x: (matrix @ x).sum(), expanded)


def test_GC_07_a_transposed_input_is_moved_itself_and_not_a_copy(device, random):
    x = ta.tensor(random.standard_normal((3, 5)), device=device).detach()
    x = ta.transpose(x).detach()
    strides = []

    def fn(x):
        strides.append(getattr(x._data, "strides", None))
        return ta.sigmoid(x)

    report = gradient_report(fn, x)
    assert report.passed and report.arguments[0].checked == 15
    assert abs(report.arguments[0].numeric) > 0
    if device == "cpu":
        assert set(strides) == {(8, 40), (48, 16)}  # the latter in the search for findings
        assert strides.count((48, 16)) == 1


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("mode", ["full", "directional"])
def test_GC_08_no_elements_pass(mode, order, leaf, constant):
    weight = constant(np.zeros((0, 3)))
    assert ta.gradcheck(
        lambda x: (x @ weight).sum(), leaf(np.zeros((5, 0))), mode=mode, order=order
    )


@pytest.fixture
def scaled():
    """A primitive ``factor * x`` whose backward is wrong by the factor ``error``."""

    @primitive
    def scaled(x, /, factor, error):
        return factor * x

    @scaled.vjp
    def scaled_vjp(g, _out, _x, *, factor, error):
        return g * (factor * error)

    yield scaled
    del PRIMITIVES["scaled"]


@pytest.mark.parametrize("factor", [1e8, 1.0, 1e-8])
def test_GC_10_the_tolerance_is_relative(factor, scaled, leaf, random):
    x = leaf(random.standard_normal(4))
    assert ta.gradcheck(lambda x: scaled(x, factor=factor, error=1.0), x)
    with pytest.raises(ta.GradcheckError):
        ta.gradcheck(lambda x: scaled(x, factor=factor, error=1.001), x)


def test_GC_10_a_slope_of_2_001_instead_of_2_is_wrong(scaled, leaf):
    def square(x):  # x**2, with the slope 2.001 x
        return x * x + scaled(x, factor=1.0, error=1.001) - x

    with pytest.raises(ta.GradcheckError):
        ta.gradcheck(square, leaf([1.0]), rtol=1e-4)


def test_GC_11_a_complex_step_is_refused_where_the_function_is_not_analytic(leaf):
    with pytest.raises(ValueError, match="absolute, which is not analytic"):
        ta.gradcheck(ta.abs, leaf([-1.0]), oracle="complex")
    report = gradient_report(ta.square, leaf([-1.0]), oracle="complex", cotangent=np.ones(1))
    assert report.arguments[0].numeric == -2


def test_GC_11_a_function_that_drops_the_imaginary_part_in_secret_is_refused(leaf):
    def secretly_absolute(x):
        sign = np.sign(x.numpy().real)  # analytic as far as the graph shows
        return x * ta.tensor(sign, device=x.device) * ta.tensor(np.abs(x.numpy()), device=x.device)

    with pytest.raises(ValueError, match="not analytic"):
        ta.gradcheck(secretly_absolute, leaf([-1.0, 2.0]), oracle="complex")
