"""Array operations equal PyTorch's on shapes, axes and values drawn by Hypothesis."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hypothesis")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra import numpy as hnp  # noqa: E402

import tinyattn as ta  # noqa: E402
from tests.parity.oracle import assert_agreement  # noqa: E402

few = settings(max_examples=15, deadline=None, derandomize=True, database=None)

# Few distinct numbers, so that there are ties and zeros.
coarse = st.integers(-4, 4).map(lambda n: n / 2)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
full_shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3)
rows = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)
matrices = hnp.array_shapes(min_dims=2, max_dims=4, min_side=0, max_side=3)


def arrays(shape):
    return hnp.arrays(np.float64, shape, elements=coarse)


def distinct(shape):
    """Numbers no two of which are equal, in the order that Hypothesis draws."""
    size = int(np.prod(shape))
    return st.permutations(range(size)).map(lambda order: np.array(order).reshape(shape) / 4 - 0.6)


UNARY = {
    "exp": (torch.exp, lambda x: x),
    "expm1": (torch.expm1, lambda x: x),
    "log": (torch.log, lambda x: x * x + 0.5),
    "log1p": (torch.log1p, lambda x: x * x - 0.5),
    "sqrt": (torch.sqrt, lambda x: x * x + 0.5),
    "rsqrt": (torch.rsqrt, lambda x: x * x + 0.5),
    "sin": (torch.sin, lambda x: x),
    "cos": (torch.cos, lambda x: x),
    "tanh": (torch.tanh, lambda x: x),
    "abs": (torch.abs, lambda x: x),
    "square": (torch.square, lambda x: x),
}


@pytest.mark.parametrize("name", UNARY)
@few
@given(shapes.flatmap(arrays))
def test_functions_of_one_number(name, data):
    theirs, domain = UNARY[name]
    assert_agreement(getattr(ta, name), theirs, domain(data))


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}
broadcastable = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3)


@pytest.mark.parametrize("name", BINARY)
@few
@given(broadcastable.flatmap(lambda drawn: st.tuples(*map(arrays, drawn.input_shapes))))
def test_functions_of_two_numbers(name, data):
    x, y = data
    if name == "div":
        y = y + 0.25
    assert_agreement(getattr(ta, name), BINARY[name], x, y)


@few
@given(broadcastable.flatmap(lambda drawn: st.tuples(*map(arrays, drawn.input_shapes))))
def test_powers(data):
    x, y = data
    # Not at y = 0, where PyTorch's mixed second derivative is 0 and the differences are not.
    assert_agreement(ta.pow, torch.pow, np.abs(x) + 0.5, y + 0.25)
    for exponent in (2, 3, -1, 0.5):
        assert_agreement(lambda x: x**exponent, lambda x: x**exponent, np.abs(x) + 0.5)  # noqa: B023


three_shapes = hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3)


@few
@given(three_shapes.flatmap(lambda drawn: st.tuples(*map(arrays, drawn.input_shapes))))
def test_where_and_masked_fill(data):
    mask, x, y = data
    mask = mask > 0
    assert_agreement(
        lambda x, y: ta.where(mask, x * x, y),
        lambda x, y: torch.where(torch.tensor(mask), x * x, y),
        x,
        y,
    )
    whole = np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape))
    assert_agreement(
        lambda x: ta.masked_fill(x * x, mask, 3.0),
        lambda x: (x * x).masked_fill(torch.tensor(mask), 3.0),
        whole,
    )


@few
@given(shapes.flatmap(arrays), st.sampled_from([(-1, 1), (None, 0.5), (0.5, None), (1, -1)]))
def test_clip(data, bounds):
    assert_agreement(lambda x: ta.clip(x * x, *bounds), lambda x: torch.clamp(x * x, *bounds), data)


def their_product(x, axes, keepdims):
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keepdims)
    return x


REDUCTIONS = {
    "sum": lambda x, axes, keepdims: x.sum(axes, keepdim=keepdims),
    "mean": lambda x, axes, keepdims: x.mean(axes, keepdim=keepdims),
    "max": lambda x, axes, keepdims: x.amax(axes, keepdim=keepdims),
    "min": lambda x, axes, keepdims: x.amin(axes, keepdim=keepdims),
    "prod": their_product,
    "var": lambda x, axes, keepdims: x.var(axes, correction=0, keepdim=keepdims),
    "std": lambda x, axes, keepdims: x.std(axes, correction=0, keepdim=keepdims),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@few
@given(st.data())
def test_reductions(name, data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=3))
    values = data.draw(distinct(shape) if name == "std" else arrays(shape))
    axes = data.draw(hnp.valid_tuple_axes(len(shape), min_size=1))
    keepdims = data.draw(st.booleans())
    assert_agreement(
        lambda x: getattr(ta, name)(x, axes, keepdims=keepdims),
        lambda x: REDUCTIONS[name](x, axes, keepdims),
        values,
    )


@few
@given(rows.flatmap(arrays), st.integers(-3, 2))
def test_sums_up_to_each_element(data, axis):
    axis = axis % data.ndim
    assert_agreement(lambda x: ta.cumsum(x * x, axis), lambda x: torch.cumsum(x * x, axis), data)


products = hnp.mutually_broadcastable_shapes(
    signature=np.matmul.signature, max_dims=2, min_side=0, max_side=3
)


@settings(few, max_examples=50)
@given(products.flatmap(lambda drawn: st.tuples(*map(arrays, drawn.input_shapes))))
def test_matrix_products(data):
    assert_agreement(ta.matmul, torch.matmul, *data)


@st.composite
def contractions(draw):
    """Subscripts, with indices that repeat, and operands that fit."""
    lengths = {letter: draw(st.integers(0, 3)) for letter in "ijk"}
    terms = draw(st.lists(st.text("ijk", max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    output = "".join(draw(st.permutations(used)))[: draw(st.integers(0, len(used)))]
    operands = [draw(arrays(tuple(lengths[letter] for letter in term))) for term in terms]
    return ",".join(terms) + "->" + output, operands


@settings(few, max_examples=60)
@given(contractions())
def test_einstein_sums(drawn):
    subscripts, operands = drawn
    assert_agreement(
        lambda *xs: ta.einsum(subscripts, *xs), lambda *xs: torch.einsum(subscripts, *xs), *operands
    )


@few
@given(st.data())
def test_moves_of_axes(data):
    shape = data.draw(rows)
    values = data.draw(arrays(shape))
    axes = data.draw(st.permutations(range(len(shape))))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    for ours, theirs in [
        (lambda x: ta.transpose(x, axes), lambda x: x.permute(*axes)),
        (lambda x: ta.moveaxis(x, axis, 0), lambda x: torch.moveaxis(x, axis, 0)),
        (lambda x: ta.swapaxes(x, axis, -1), lambda x: torch.swapaxes(x, axis, -1)),
        (lambda x: ta.flip(x, axis), lambda x: torch.flip(x, (axis,))),
        (lambda x: ta.expand_dims(x, axis), lambda x: torch.unsqueeze(x, axis)),
        (lambda x: ta.squeeze(x), lambda x: torch.squeeze(x)),
        (lambda x: ta.reshape(x, (-1,)), lambda x: x.reshape(-1)),
    ]:
        assert_agreement(lambda x: ours(x * x), lambda x: theirs(x * x), values)  # noqa: B023


@few
@given(matrices.flatmap(arrays), st.integers(-3, 3))
def test_triangles(data, k):
    for name in ("tril", "triu"):
        assert_agreement(
            lambda x: getattr(ta, name)(x * x, k),  # noqa: B023
            lambda x: getattr(torch, name)(x * x, k),  # noqa: B023
            data,
        )


@few
@given(st.data())
def test_joining_and_cutting(data):
    shape = data.draw(rows)
    x, y = data.draw(arrays(shape)), data.draw(arrays(shape))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, shape[axis]), max_size=2)))
    for ours, theirs in [
        (ta.concatenate, torch.concatenate),
        (ta.stack, torch.stack),
    ]:
        assert_agreement(
            lambda x, y: ours([x, y * y, x], axis),  # noqa: B023
            lambda x, y: theirs([x, y * y, x], axis),  # noqa: B023
            x,
            y,
        )
    position = data.draw(st.integers(0, len(cuts)))
    assert_agreement(
        lambda x: ta.split(x * x, cuts, axis)[position],
        lambda x: torch.tensor_split(x * x, tuple(cuts), axis)[position],
        x,
    )


def assert_indexing_agrees(values, index):
    # Positions in the flat array: PyTorch knows neither negative steps nor all of NumPy's mixtures.
    positions = torch.tensor(np.arange(values.size).reshape(values.shape)[index].copy())
    assert_agreement(lambda x: (x * x)[index], lambda x: (x * x).reshape(-1)[positions], values)


@settings(few, max_examples=40)
@given(st.data())
def test_slices_numbers_new_axes_and_ellipses(data):
    shape = data.draw(shapes)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=5))
    assert_indexing_agrees(data.draw(arrays(shape)), index)


@settings(few, max_examples=25)
@given(st.data())
def test_arrays_of_indices(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    index = data.draw(
        hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=4))
    )
    assert_indexing_agrees(data.draw(arrays(shape)), index)
    axis = data.draw(st.integers(0, len(shape) - 1))
    assert_indexing_agrees(
        data.draw(arrays(shape)), (slice(None),) * axis + (index[axis], Ellipsis)
    )


@few
@given(st.data())
def test_masks(data):
    shape = data.draw(shapes)
    mask = data.draw(hnp.arrays(np.bool_, shape))
    values = data.draw(arrays(shape))
    assert_indexing_agrees(values, mask)
    if shape:
        row = data.draw(hnp.arrays(np.bool_, shape[-1:]))
        assert_indexing_agrees(values, (Ellipsis, row))
