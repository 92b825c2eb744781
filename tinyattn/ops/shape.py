"""Operations that move elements without changing them: the backward moves the cotangents back."""

import operator

import numpy as np

from ..autograd import Tensor, primitive
from ..autograd.pytorch_names import with_numpys_arguments
from ..backend import array_namespace, backend_of, listed


@primitive(view=True)
def reshape(x, /, shape):
    """The elements of ``x`` in the same order under another shape; one length may be -1.

    Raises:
        ValueError: if the shape has another number of elements.

    Backward. Nothing moves, so the cotangent takes the old shape.

    >>> import tinyattn as ta
    >>> ta.reshape(ta.tensor([1.0, 2.0, 3.0, 4.0]), (2, 2))
    Tensor([[1., 2.],
            [3., 4.]])
    """
    try:
        return array_namespace(x).reshape(x, shape)
    except ValueError as error:
        raise ValueError(
            f"cannot reshape {x.size} elements of shape {tuple(x.shape)} into the shape {shape}: "
            "the lengths must multiply to the same number, and one of them may be -1"
        ) from error


@reshape.vjp
def reshape_vjp(g, _out, _x, *, shape):
    return array_namespace(g).reshape(g, _x.shape)


@primitive(view=True)
def broadcast_to(x, /, shape):
    """``x`` repeated along new axes and along its axes of length 1 until it has ``shape``.

    Raises:
        ValueError: if the shape cannot be had by repeating.

    Backward. An element that was copied gets the sum of its copies' cotangents. The engine does this for every
    operation that broadcasts, so here the cotangent passes unchanged.

    >>> import tinyattn as ta
    >>> ta.broadcast_to(ta.tensor([1.0, 2.0]), (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    try:
        return array_namespace(x).broadcast_to(x, shape)
    except ValueError as error:
        raise ValueError(
            f"cannot broadcast shape {tuple(x.shape)} to {shape}: counted from the last, each axis must have the "
            "length asked for, or length 1, or be missing"
        ) from error


@broadcast_to.vjp
def broadcast_to_vjp(g, _out, _x, *, shape):
    return g


@primitive(view=True)
def transpose(x, /, axes=None):
    """``x`` with its axes in another order: axis i of the result is axis ``axes[i]`` of ``x``.

    Args:
        axes: a permutation of the axes, which may count from the end; None reverses their order.

    Raises:
        ValueError: if that is no permutation.

    Backward. The cotangent's axis i is the input's axis ``axes[i]``, so it takes the inverse permutation: the one with
    ``inverse[axes[i]] = i``. For an exchange of two axes that is the permutation itself, for a cycle of three not.

    >>> import tinyattn as ta
    >>> ta.transpose(ta.zeros((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    try:
        return array_namespace(x).transpose(x, axes)
    except ValueError as error:
        raise ValueError(
            f"transpose got axes {axes} for shape {tuple(x.shape)}: expected each of its {x.ndim} axes once; "
            "swapaxes exchanges two"
        ) from error


@transpose.vjp
def transpose_vjp(g, _out, _x, *, axes=None):
    if axes is None:
        return array_namespace(g).transpose(g)
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position  # a negative axis counts from the end of this list too
    return array_namespace(g).transpose(g, tuple(inverse))


@with_numpys_arguments
def swapaxes(x, axis1, axis2):
    """``x`` with two of its axes exchanged.

    >>> import tinyattn as ta
    >>> ta.swapaxes(ta.zeros((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    x = _with_shape(x)
    order = list(range(x.ndim))
    axis1, axis2 = normalised_axis(axis1, x.ndim), normalised_axis(axis2, x.ndim)
    order[axis1], order[axis2] = axis2, axis1
    return transpose(x, tuple(order))


@with_numpys_arguments
def moveaxis(x, source, destination):
    """``x`` with the axes ``source`` moved to the positions ``destination``; the others keep their order.

    Args:
        source, destination: an axis each, or equally many.

    >>> import tinyattn as ta
    >>> ta.moveaxis(ta.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = _with_shape(x)
    sources = normalised_axes(source, x.ndim)
    destinations = normalised_axes(destination, x.ndim)
    if len(sources) != len(destinations):
        raise ValueError(
            f"moveaxis got {len(sources)} source axes and {len(destinations)} destinations: "
            "expected one destination for each"
        )
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(destinations, sources)):
        order.insert(target, axis)
    return transpose(x, tuple(order))


@with_numpys_arguments
def expand_dims(x, axis):
    """``x`` with new axes of length 1, at the positions ``axis`` of the result.

    >>> import tinyattn as ta
    >>> ta.expand_dims(ta.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    x = _with_shape(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = normalised_axes(axis, x.ndim + count)
    lengths = iter(x.shape)
    return reshape(x, tuple(1 if i in new else next(lengths) for i in range(x.ndim + count)))


@with_numpys_arguments
def squeeze(x, axis=None):
    """``x`` without the axes ``axis``, which must have length 1; None drops all such axes.

    Raises:
        ValueError: for an axis of another length.

    >>> import tinyattn as ta
    >>> ta.squeeze(ta.zeros((1, 2, 1))).shape
    (2,)
    """
    x = _with_shape(x)
    if axis is None:
        dropped = [position for position, length in enumerate(x.shape) if length == 1]
    else:
        dropped = normalised_axes(axis, x.ndim)
    for position in dropped:
        if x.shape[position] != 1:
            raise ValueError(
                f"cannot squeeze axis {position} of shape {x.shape}: it has length {x.shape[position]}, expected 1"
            )
    return reshape(x, tuple(n for position, n in enumerate(x.shape) if position not in dropped))


@primitive(view=True)
def flip(x, /, axis=None):
    """``x`` with the order of its elements reversed along ``axis``, or along several; None means all.

    Backward. Reversing twice changes nothing: the cotangent is reversed the same way.

    >>> import tinyattn as ta
    >>> ta.flip(ta.tensor([1.0, 2.0, 3.0]))
    Tensor([3., 2., 1.])
    """
    return array_namespace(x).flip(x, axis)


@flip.vjp
def flip_vjp(g, _out, _x, *, axis=None):
    return array_namespace(g).flip(g, axis)


@primitive
def tril(x, /, k=0):
    """The lower triangle of the matrices in the last two axes; what lies above diagonal ``k`` becomes 0.

    Backward. An element that was replaced by 0 had no influence: the cotangent is cut in the same way.

    >>> import tinyattn as ta
    >>> ta.tril(ta.ones((2, 2)))
    Tensor([[1., 0.],
            [1., 1.]])
    """
    _check_matrices(x, "tril")
    return array_namespace(x).tril(x, k)


@tril.vjp
def tril_vjp(g, _out, _x, *, k=0):
    return array_namespace(g).tril(g, k)


@primitive
def triu(x, /, k=0):
    """The upper triangle of the matrices in the last two axes; what lies below diagonal ``k`` becomes 0.

    Backward. As for ``tril``: the cotangent is cut in the same way.

    >>> import tinyattn as ta
    >>> ta.triu(ta.ones((2, 2)))
    Tensor([[1., 1.],
            [0., 1.]])
    """
    _check_matrices(x, "triu")
    return array_namespace(x).triu(x, k)


@triu.vjp
def triu_vjp(g, _out, _x, *, k=0):
    return array_namespace(g).triu(g, k)


@with_numpys_arguments
def concatenate(arrays, axis=0):
    """Several tensors one after the other along ``axis``; None lays all their elements in one row.

    Args:
        arrays: a sequence of tensors whose shapes agree on all other axes. One may occur twice.

    Raises:
        ValueError: if there are none, or their shapes do not agree.

    >>> import tinyattn as ta
    >>> ta.concatenate([ta.ones(2), ta.zeros(1)])
    Tensor([1., 1., 0.])
    """
    arrays = _sequence_of_arrays(arrays, axis, "concatenate")
    if axis is None:
        return concatenate([reshape(x, (-1,)) for x in arrays])
    first = arrays[0]
    axis = normalised_axis(axis, first.ndim)
    for position, x in enumerate(arrays):
        if x.ndim != first.ndim or _without(x.shape, axis) != _without(first.shape, axis):
            raise ValueError(
                f"cannot concatenate along axis {axis}: array {position} has shape {tuple(x.shape)}, "
                f"expected that of array 0, {tuple(first.shape)}, on all other axes"
            )
    return concatenate_arrays(*arrays, axis=axis)


@primitive(variadic=True)
def concatenate_arrays(*arrays, axis=0):
    """The rule of ``concatenate``.

    Backward. Each input is a stretch of the output, and its cotangent is that stretch of the output's.
    """
    return array_namespace(*arrays).concatenate(arrays, axis=axis)


@concatenate_arrays.vjp
def concatenate_arrays_vjp(g, _out, *_arrays, position, axis=0):
    start = sum(x.shape[axis] for x in _arrays[:position])
    stretch = slice(start, start + _arrays[position].shape[axis])
    return g[(slice(None),) * axis + (stretch,)]


@with_numpys_arguments
def stack(arrays, axis=0):
    """Several tensors of one shape side by side along a new axis, at position ``axis`` of the result.

    Raises:
        ValueError: if there are none, or their shapes differ.

    >>> import tinyattn as ta
    >>> ta.stack([ta.ones(2), ta.zeros(2)], axis=-1).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    arrays = _sequence_of_arrays(arrays, axis, "stack")
    for position, x in enumerate(arrays):
        if x.shape != arrays[0].shape:
            raise ValueError(
                f"cannot stack: array {position} has shape {tuple(x.shape)}, "
                f"expected that of array 0, {tuple(arrays[0].shape)}"
            )
    axis = normalised_axis(axis, arrays[0].ndim + 1)
    return concatenate([expand_dims(x, axis) for x in arrays], axis=axis)


@with_numpys_arguments
def split(x, indices_or_sections, axis=0):
    """The parts of ``x`` along ``axis``, as a list of tensors that share its memory.

    Args:
        indices_or_sections: into how many equal parts, or the positions at which to cut.

    Raises:
        ValueError: if the axis cannot be cut into equal parts.

    >>> import tinyattn as ta
    >>> ta.split(ta.tensor([1.0, 2.0, 3.0, 4.0]), 2)
    [Tensor([1., 2.]), Tensor([3., 4.])]
    >>> ta.split(ta.tensor([1.0, 2.0, 3.0, 4.0]), [1])
    [Tensor([1.]), Tensor([2., 3., 4.])]
    """
    if not isinstance(x, Tensor):
        x = Tensor(x)
    axis = normalised_axis(axis, x.ndim)
    length = x.shape[axis]
    try:
        sections = operator.index(indices_or_sections)
    except TypeError:
        cuts = [operator.index(cut) for cut in indices_or_sections]
    else:
        if sections < 1 or length % sections:
            raise ValueError(
                f"cannot split axis {axis} of shape {x.shape} into {sections} equal parts: "
                f"its length {length} is not a multiple of {sections}; give the positions of the cuts instead"
            )
        cuts = (
            range(length // sections, length, length // sections)
            if length
            else [0] * (sections - 1)
        )
    before = (slice(None),) * axis
    starts, ends = [0, *cuts], [*cuts, length]
    return [x[(*before, slice(start, end))] for start, end in zip(starts, ends)]


def normalised_axis(axis, ndim):
    """``axis`` counted from the front.

    Raises:
        AxisError: if there is no such axis; NumPy's error, an IndexError and a ValueError.

    >>> normalised_axis(-1, 3)
    2
    """
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(
            f"axis {axis} does not exist in an array with {ndim} axes: expected {-ndim} <= axis < {ndim}"
        )
    return axis % ndim


def normalised_axes(axis, ndim):
    """One axis or several, as a list, counted from the front.

    Raises:
        ValueError: if one occurs twice.

    >>> normalised_axes((-1, 0), 3)
    [2, 0]
    """
    axes = axis if isinstance(axis, (tuple, list)) else [axis]
    axes = [normalised_axis(each, ndim) for each in axes]
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis {axis} names an axis twice")
    return axes


def _check_matrices(x, name):
    if x.ndim < 2:
        raise ValueError(f"{name} needs matrices in the last two axes, got shape {tuple(x.shape)}")


def _with_shape(x, device=None):
    """``x``, or the tensor that a sequence or a number means."""
    return x if hasattr(x, "shape") else Tensor(x, device=device)


def _sequence_of_arrays(arrays, axis, name):
    if hasattr(axis, "shape"):
        raise TypeError(f"{name} takes the tensors as one sequence: {name}([x, y], axis=0)")
    arrays = listed(arrays, f"the first argument of {name}()")  # of one tensor, its rows
    if not arrays:
        raise ValueError(f"{name} needs at least one array, got an empty sequence")
    given = [getattr(x, "_data", x) for x in arrays if hasattr(x, "shape")]
    device = backend_of(given[0]).device if given else None
    return [_with_shape(x, device) for x in arrays]


def _without(shape, axis):
    return tuple(shape[:axis]) + tuple(shape[axis + 1 :])
