"""Each backward pass is found by grepping NAME_vjp, and the common ones fit on one screen."""

import inspect

import pytest

from tinyattn.autograd import PRIMITIVES

SCREEN = 50  # lines
LIBRARY = sorted(
    name
    for name, primitive in PRIMITIVES.items()
    if primitive.forward.__module__.startswith(("tinyattn.ops.", "tinyattn.attention."))
)


@pytest.mark.parametrize("name", LIBRARY)
def test_every_backward_pass_is_found_by_searching_for_the_name_of_its_primitive(name):
    for function in PRIMITIVES[name].vjps.values():
        assert function.__name__.startswith(f"{name}_vjp")


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "matmul"])
def test_a_backward_pass_fits_on_one_screen(name):
    places = [inspect.getsourcelines(vjp) for vjp in PRIMITIVES[name].vjps.values()]
    first = min(start for _, start in places)
    last = max(start + len(lines) for lines, start in places)
    assert last - first <= SCREEN
