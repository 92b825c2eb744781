"""A missing vector-Jacobian product is an error in backward, and never silently ignored."""

import importlib
import pkgutil

import pytest

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES, primitive, register_kernel

pytestmark = pytest.mark.usefixtures("registries_are_restored")


def make_cubed():
    @primitive
    def cubed(x, /):
        return x * x * x

    return cubed


def make_masked():
    @primitive
    def masked(x, mask, /):
        return x * mask

    @masked.vjp("x")
    def vjp(g, _out, _x, mask):
        return g * mask

    return masked


@pytest.fixture
def x(device):
    return ta.tensor([1.0, 2.0], requires_grad=True, device=device)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_is_not_dropped_from_a_sum(x, create_graph):
    loss = (x.square() + make_cubed()(x)).sum()
    with pytest.raises(
        TypeError, match=r"primitive cubed has no vjp: .* @cubed\.vjp, or pass x\.detach"
    ):
        loss.backward(create_graph=create_graph)
    assert x.grad is None


def test_gradcheck_names_the_primitive(x):
    cubed = make_cubed()
    for function in (cubed, lambda x: x.square() + cubed(x)):
        with pytest.raises(TypeError, match="primitive cubed has no vjp"):
            ta.gradcheck(function, [x.to("float64")])


def test_the_input_is_named_where_there_are_several(x, device):
    masked, mask = make_masked(), ta.tensor([1.0, 0.0], requires_grad=True, device=device)
    loss = masked(x, mask).sum()
    with pytest.raises(
        TypeError, match=r'masked has no vjp for its input mask.*@masked\.vjp\("mask"\)'
    ):
        loss.backward()


def test_a_detached_input_and_a_gradient_that_is_not_asked_for_need_no_vjp(x, device):
    masked, mask = make_masked(), ta.tensor([1.0, 0.0], requires_grad=True, device=device)
    masked(x, mask.detach()).sum().backward()
    assert x.grad.tolist() == [1, 0]
    (gradient,) = ta.grad(masked(x, mask).sum(), [x])
    assert gradient.tolist() == [1, 0]
    assert make_cubed()(x).tolist() == [1, 8]


def test_a_variadic_primitive_is_named(x):
    @primitive(variadic=True)
    def total(*arrays):
        return sum(arrays)

    with pytest.raises(TypeError, match="primitive total has no vjp"):
        total(x, x).sum().backward()


def test_a_kernel_may_know_a_gradient_that_no_rule_has(x):
    cubed = make_cubed()
    register_kernel("cubed", "cpu", lambda x: (x**3, x), lambda g, x: 3 * g * x * x)
    x = ta.tensor([1.0, 2.0], requires_grad=True, device="cpu")
    cubed(x).sum().backward()
    assert x.grad.tolist() == [3, 12]
    with ta.reference(), pytest.raises(TypeError, match="cubed has no vjp"):
        cubed(x).sum().backward()


def test_a_kernel_that_leaves_an_input_without_vjp_is_named(device):
    masked = make_masked()
    register_kernel(
        "masked", "cpu", lambda x, mask: (x * mask, mask), lambda g, mask: (g * mask, None)
    )
    x = ta.tensor([1.0, 2.0], requires_grad=True)
    with ta.first_order():
        loss = masked(x, x).sum()
    with pytest.raises(TypeError, match="masked has no vjp for its input mask"):
        loss.backward()


def test_every_primitive_has_a_vjp_for_each_input_that_holds_real_numbers():
    for package in ("ops", "attention", "nn", "models"):
        package = importlib.import_module(f"tinyattn.{package}")
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    counted = {"target", "ids", "mask", "key_mask", "condition"}  # whole numbers and booleans
    for name, operation in PRIMITIVES.items():
        inputs = operation.input_names or ("arrays",)
        missing = {n for position, n in enumerate(inputs) if not operation.differentiable(position)}
        assert missing <= counted, name
