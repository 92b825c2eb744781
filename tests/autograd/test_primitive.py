"""Primitives: declaration of rules, saved arrays, and dispatch to kernels."""

import contextlib
import weakref

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient
from tinyattn.autograd import PRIMITIVES, primitive, register_kernel
from tinyattn.autograd.primitive import registered_kernels
from tinyattn.backend import array_namespace, get_backend

pytestmark = pytest.mark.usefixtures("registries_are_restored")


@pytest.fixture
def leaf(device):
    def make(values, dtype=np.float64):
        return ta.tensor(np.array(values, dtype), requires_grad=True, device=device)

    return make


def make_scaled_product():
    @primitive
    def scaled_product(x, y, /, scale=1.0):
        return x * y * scale

    @scaled_product.vjp("x")
    def vjp_x(g, _out, _x, y, *, scale=1.0):
        return g * y * scale

    @scaled_product.vjp("y")
    def vjp_y(g, _out, x, _y, *, scale=1.0):
        return g * x * scale

    return scaled_product


def test_a_primitive_of_ones_own_is_differentiated_to_any_order(device, random):
    scaled_product = make_scaled_product()
    assert PRIMITIVES["scaled_product"] is scaled_product
    x, y = random.standard_normal((2, 3)), random.standard_normal(3)
    check_gradient(lambda x, y: scaled_product(x, y, scale=2.0), x, y, device=device)


def test_parameters_go_by_position_or_by_name(leaf):
    scaled_product = make_scaled_product()
    x, y = leaf(2.0), leaf(3.0)
    assert scaled_product(x, y).item() == 6
    assert scaled_product(x, y, 2.0).item() == scaled_product(x, y=y, scale=2.0).item() == 12
    for call in (
        lambda: scaled_product(x),
        lambda: scaled_product(x, y, 1.0, 2.0),
        lambda: scaled_product(x, y, 1.0, scale=2.0),
        lambda: scaled_product(x, y, wrong=2.0),
    ):
        with pytest.raises(TypeError, match="scaled_product"):
            call()


def test_inputs_may_be_tensors_arrays_scalars_or_sequences(leaf, device):
    scaled_product = make_scaled_product()
    x = leaf([1.0, 2.0])
    array = get_backend(device).asarray(np.array([3.0, 4.0]))
    for other, expected in (
        (array, [3, 8]),
        (2, [2, 4]),
        (np.float32(2), [2, 4]),
        ([3, 4], [3, 8]),
    ):
        for y in (scaled_product(x, other), scaled_product(other, x)):
            assert type(y) is ta.Tensor and y.tolist() == expected and y.dtype == np.float64
    with ta.device(device):
        alone = scaled_product(2.0, 3.0)
    assert alone.device == device and alone.item() == 6 and not alone.requires_grad


def test_the_rule_can_be_called_on_arrays_and_on_tensors(leaf, device):
    scaled_product = make_scaled_product()
    array = get_backend(device).asarray(np.array([3.0, 4.0]))
    assert isinstance(scaled_product.rule(array, 2.0), get_backend(device).array_type)
    assert isinstance(scaled_product.forward(array, 2.0), get_backend(device).array_type)
    assert scaled_product.rule(leaf([1.0, 2.0]), array).requires_grad


def test_only_arrays_that_the_wanted_products_read_are_saved(leaf, device):
    scaled_product = make_scaled_product()

    def kept(x, y):
        node = scaled_product(x, y)._node
        return [array is not None for array in node.inputs] + [node.out is not None]

    x, y = leaf([1.0]), leaf([2.0])
    assert kept(x, y) == [True, True, False]
    assert kept(x, y.detach()) == [False, True, False]
    assert kept(x.detach(), y) == [True, False, False]
    big = ta.tensor(np.ones(3), device=device)
    result = scaled_product(leaf([1.0, 1.0, 1.0]), big * 1)
    gone = weakref.ref(result)
    result.sum()
    del result
    assert gone() is None


def test_a_replaced_product_changes_which_arrays_are_saved(leaf):
    @primitive
    def squared(x, /):
        return x * x

    @squared.vjp
    def without_input(g, _out, _x):
        return g

    x = leaf([1.0, 2.0])
    squared(x).sum().backward()

    @squared.vjp
    def with_input(g, _out, x):
        return g * 2 * x

    x.grad = None
    squared(x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_the_engine_unbroadcasts_and_casts_what_a_rule_returns(leaf):
    scaled_product = make_scaled_product()
    x, y = leaf([[1.0], [2.0]]), leaf([1.0, 10.0, 100.0], np.float32)
    scaled_product(x, y).sum().backward()
    assert x.grad.shape == (2, 1) and x.grad.tolist() == [[111], [111]]
    assert y.grad.tolist() == [3, 3, 3] and y.grad.dtype == np.float32


def test_a_product_of_the_wrong_shape_is_named(leaf):
    @primitive
    def broken(x, /):
        return x * 1

    @broken.vjp
    def vjp(g, _out, _x):
        return g[:1]

    with pytest.raises(RuntimeError, match=r"backward of broken returned .*\(1,\).*\(3,\)"):
        broken(leaf([1.0, 2.0, 3.0])).sum().backward()


def test_variadic_primitives_differentiate_each_input(device, random):
    @primitive(variadic=True)
    def weighted_sum(*arrays, weights):
        return sum(a * w for a, w in zip(arrays, weights))

    @weighted_sum.vjp
    def vjp(g, _out, *_arrays, position, weights):
        return g * weights[position]

    a, b, c = (random.standard_normal(3) for _ in range(3))
    check_gradient(lambda *t: weighted_sum(*t, weights=(1.0, 2.0, 3.0)), a, b, c, device=device)


def test_a_declaration_without_inputs_or_with_an_ambiguous_product_is_refused():
    with pytest.raises(TypeError, match="write them before a slash"):

        @primitive
        def nothing(x):
            return x

    scaled_product = make_scaled_product()
    with pytest.raises(TypeError, match=r'say which, as in @scaled_product\.vjp\("x"\)'):
        scaled_product.vjp(lambda g, out, x, y: g)
    with pytest.raises(TypeError, match="scaled_product has no input 'z': it has x, y"):
        scaled_product.vjp("z")


def test_float64_comes_from_float64_only(leaf):
    @primitive
    def careless(x, /):
        return x * np.float64(2.0)  # promotes a float32 array, NumPy and CuPy alike

    @careless.vjp
    def vjp(g, _out, _x):
        return g * np.float64(2.0)

    x = leaf([1.0], np.float32)
    y = careless(x)
    y.sum().backward()
    assert y.dtype == np.float32 and x.grad.dtype == np.float32
    assert careless(leaf([1.0])).dtype == np.float64


def test_inputs_on_two_devices_raise():
    scaled_product = make_scaled_product()
    x, y = ta.tensor([1.0], device="cpu"), ta.tensor([1.0], device="strict")
    with pytest.raises(TypeError, match=r"x on cpu, y on strict.*move one with \.to\(device\)"):
        scaled_product(x, y)


@pytest.fixture
def kernel(device):
    """A kernel for ``tripled`` that counts its calls, and the primitive it stands in for."""
    calls = {"forward": 0, "backward": 0}

    @primitive
    def tripled(x, /):
        return x * 3

    @tripled.vjp
    def vjp(g, _out, _x):
        return g * 3

    def forward(x):
        if x.ndim != 1:
            return NotImplemented
        calls["forward"] += 1
        return x * 3, ("residual", x.shape)

    def backward(g, residuals):
        calls["backward"] += 1
        assert residuals == ("residual", g.shape)
        return g * 3

    register_kernel("tripled", get_backend(device).kind, forward, backward)
    assert ("tripled", get_backend(device).kind) in registered_kernels()
    return tripled, calls


def test_a_kernel_runs_in_place_of_the_rule(kernel, leaf):
    tripled, calls = kernel
    x = leaf([1.0, 2.0])
    tripled(x).sum().backward()
    assert x.grad.tolist() == [3, 3] and calls == {"forward": 1, "backward": 1}


def test_reference_switches_kernels_off(kernel, leaf):
    tripled, calls = kernel
    x = leaf([1.0, 2.0])
    with ta.reference():
        tripled(x).sum().backward()
    assert x.grad.tolist() == [3, 3] and calls == {"forward": 0, "backward": 0}


def test_a_kernel_may_decline(kernel, leaf):
    tripled, calls = kernel
    x = leaf([[1.0, 2.0]])
    tripled(x).sum().backward()
    assert x.grad.tolist() == [[3, 3]] and calls == {"forward": 0, "backward": 0}


def test_a_recorded_backward_uses_the_rule(kernel, leaf):
    tripled, calls = kernel
    x = leaf([1.0, 2.0])
    (gradient,) = ta.grad((tripled(x) ** 2).sum(), x, create_graph=True)
    assert gradient.requires_grad and gradient.tolist() == [18, 36]
    assert calls["backward"] == 0
    (second,) = ta.grad(gradient.sum(), x)
    assert second.tolist() == [18, 18]


def test_cotangents_of_kernels_are_owned_and_accumulated_in_place(leaf, device):
    @primitive
    def pair(x, y, /):
        return x + y

    @pair.vjp("x")
    def vjp_x(g, _out, _x, _y):
        return g

    @pair.vjp("y")
    def vjp_y(g, _out, _x, _y):
        return g

    register_kernel(
        "pair", get_backend(device).kind, lambda x, y: (x + y, None), lambda g, _: (g, g)
    )
    x, y = leaf([1.0]), leaf([2.0])
    h = pair(x, y)
    (pair(h, x) + pair(y, h)).sum().backward()
    assert x.grad.tolist() == [3] and y.grad.tolist() == [3]


def test_a_kernel_may_leave_an_input_to_the_rule(leaf, device):
    scaled_product = make_scaled_product()
    xp = array_namespace(get_backend(device).zeros((1,), np.float64))
    register_kernel(
        "scaled_product",
        get_backend(device).kind,
        lambda x, y, scale=1.0: (x * y * scale, y),
        lambda g, y: (xp.multiply(g, y), None),
    )
    x, y = leaf([2.0]), leaf([5.0])
    scaled_product(x, y).sum().backward()
    assert x.grad.tolist() == [5] and y.grad.tolist() == [2]


@pytest.fixture
def squared(device):
    """x^2 y, whose kernel keeps the derivative for x, 2 x y, and leaves y to the rule."""

    @primitive
    def squared(x, y, /):
        return x * x * y

    @squared.vjp("x")
    def vjp_x(g, _out, x, y):
        return 2 * g * x * y

    @squared.vjp("y")
    def vjp_y(g, _out, x, _y):
        return g * x * x

    def register(**options):
        register_kernel(
            "squared",
            get_backend(device).kind,
            lambda x, y: (x * x * y, 2 * x * y),
            lambda g, slope: (g * slope, None),
            **options,
        )
        return squared

    return register


@pytest.mark.parametrize("lean", [True, False])
def test_first_order_keeps_only_what_the_kernel_keeps(squared, leaf, device, lean):
    squared = squared(left_to_rule=("y",))
    x, constant = leaf([3.0]), ta.tensor([5.0], device=device)
    with ta.first_order() if lean else contextlib.nullcontext():
        doubled = x * 2
        array = weakref.ref(doubled._data)
        out = squared(doubled, constant)
        del doubled
    assert (array() is None) == lean
    out.backward()
    assert x.grad.tolist() == [2 * 2 * 6 * 5]


def test_first_order_keeps_what_a_kernel_leaves_to_the_rule(squared, leaf):
    squared = squared(left_to_rule=("y",))
    x, y = leaf([3.0]), leaf([5.0])
    with ta.first_order():
        squared(x, y).backward()
    assert x.grad.tolist() == [30] and y.grad.tolist() == [9]


def test_a_kernel_must_declare_inputs_left_to_the_rule(squared, leaf):
    squared = squared()
    with ta.first_order(), pytest.raises(RuntimeError, match=r'left_to_rule=\("y",\)'):
        squared(leaf([3.0]), leaf([5.0])).backward()


def test_first_order_graphs_cannot_be_differentiated_twice(squared, leaf, device):
    squared = squared(left_to_rule=("y",))
    x, constant = leaf([3.0]), ta.tensor([5.0], device=device)
    with ta.first_order():
        out = squared(x, constant)
    with pytest.raises(
        RuntimeError, match=r"squared \(shape \(1,\)\) was recorded inside first_order"
    ):
        ta.grad(out, x, create_graph=True)
    assert ta.grad(out, x)[0].tolist() == [30]


def test_first_order_without_a_kernel_is_as_without_it(squared, leaf):
    squared = squared(left_to_rule=("y",))
    x, y = leaf([3.0]), leaf([5.0])
    with ta.first_order(), ta.reference():
        out = squared(x, y)
    (gradient,) = ta.grad(out, [x], create_graph=True)
    assert ta.grad(gradient, x)[0].tolist() == [10]


def test_first_order_still_notices_a_change_of_what_a_kernel_read(squared, leaf, device):
    squared = squared(left_to_rule=("y",))
    x, constant = leaf([3.0]), ta.tensor([5.0], device=device)
    with ta.first_order():
        out = squared(x, constant)
    x.data[0] = 4.0
    with pytest.raises(RuntimeError, match="input x of squared was changed"):
        out.backward()


def test_writing_into_an_array_after_its_use_changes_no_gradient(leaf, device):
    backend = get_backend(device)
    for name, case in {
        "rule": lambda x, array: x * array,
        "mask": lambda x, array: ta.where(array > 5, x, 0.0) * array,
        "kernel": lambda x, array: ta.linear(x, array[:, None]),
    }.items():
        gradients = []
        for written in (False, True):
            x, array = leaf(np.ones((2, 2))), backend.asarray(np.array([4.0, 9.0]))
            y = case(x, array).sum()
            if written:
                array[...] = 100.0
            y.backward()
            gradients.append(x.grad.tolist())
        assert gradients[0] == gradients[1], name


def test_a_view_of_an_array_that_is_no_tensor_is_a_copy(leaf, device):
    array = get_backend(device).asarray(np.array([4.0, 9.0]))
    x, view = leaf([1.0, 1.0]), ta.reshape(array, (2,))
    y = (x * view).sum()
    array[...] = 100.0
    y.backward()
    assert x.grad.tolist() == [4, 9] and view.tolist() == [4, 9]


def test_numbers_in_a_sequence_are_float32_with_integers_and_otherwise_of_the_dtype_of_the_tensors(
    leaf, device
):
    rows = [[1.0, 2.0], [3.0, 4.0]]
    assert ta.embedding(ta.tensor([0, 1], device=device), rows).dtype == np.float32
    assert (leaf([1.0, 2.0], np.float64) * [0.1, 0.2]).tolist() == [0.1, 0.4]


def test_an_unknown_argument_is_named_with_those_that_exist(device):
    x = ta.tensor([[1.0, 2.0]], device=device)
    with pytest.raises(
        TypeError, match=r"softmax\(\) has no argument dim: expected softmax.*axis is"
    ):
        ta.softmax(x, dim=-1)
    with pytest.raises(TypeError, match=r"sum\(\) has no argument dtype: expected sum\(x, /, axis"):
        x.sum(dtype=np.float64)


def test_shapes_that_do_not_broadcast_are_reported_by_the_operation(device):
    x, y = ta.ones((2, 3), device=device), ta.ones(2, device=device)
    for f in (ta.add, ta.maximum, lambda x, y: ta.where(x > 0, x, y)):
        with pytest.raises(
            ValueError, match=r"\(\) got inputs of shapes .*\(2, 3\) and \(2,\), which"
        ):
            f(x, y)


def test_inputs_of_other_types_raise(device):
    class Foreign:
        dtype, shape = np.dtype("f4"), (2,)

    x = ta.ones(2, device=device)
    with pytest.raises(TypeError, match=r"add\(\) got a .*Foreign: convert it with tinyattn"):
        ta.add(x, Foreign())
    with pytest.raises(TypeError, match=r"add\(\) got None for y"):
        ta.add(x, None)
    with pytest.raises(TypeError, match=r"exp\(\) got None for x"):
        ta.exp(None)


def test_an_argument_given_twice_and_an_axis_that_is_none_are_named(device):
    x = ta.ones((2, 3), device=device)
    with pytest.raises(TypeError, match=r"add\(\) got x twice"):
        ta.add(x, x, x=x)
    for f in (ta.sum, ta.softmax, ta.max):
        with pytest.raises(TypeError, match=rf"{f.name}\(\) got a list as axis: expected a whole"):
            f(x, axis=[0, 1])
    with pytest.raises(TypeError, match=r"the maximum of two is maximum\(x, y\)"):
        ta.max(x, x)


@pytest.mark.filterwarnings("error")
def test_integer_operations_do_not_warn(device):
    assert ta.exp(ta.tensor([500], device=device)).tolist() == [np.inf]
    assert ta.log(ta.tensor(np.zeros(1, np.uint8), device=device)).tolist() == [-np.inf]


def test_registering_a_product_with_too_few_arguments_raises():
    @primitive
    def double(x, /, factor=2.0):
        return x * factor

    expected = r"backward\(g, x\) cannot be .* of double: expected \(g, out, x, \*, factor\)"
    with pytest.raises(TypeError, match=expected):

        @double.vjp
        def backward(g, x):
            return 2 * g


def test_a_product_that_returns_none_raises(leaf):
    @primitive
    def double(x, /):
        return x * 2

    @double.vjp
    def backward(g, _out, _x):
        2 * g

    with pytest.raises(TypeError, match="the backward of double returned None for the input x"):
        double(leaf([1.0, 2.0])).sum().backward()
