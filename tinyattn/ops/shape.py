"""Shape manipulation: operations that move elements; backward moves the cotangents back."""

import operator

from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ..autograd import Tensor, primitive
from ..autograd.pytorch_names import with_numpys_arguments
from ..backend import array_namespace, backend_of, listed


@primitive(view=True)
def reshape(x, /, shape):
    """Give ``x`` a new shape with the same elements in the same order; one length may be -1.

    Raises:
        ValueError: if the shape has another number of elements.

    Backward. The cotangent is reshaped to the input's shape.

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
    """Broadcast ``x`` to ``shape``: repeat it along new axes and along axes of length 1.

    Raises:
        ValueError: if the shapes are not compatible.

    Backward. An element gets the sum of the cotangents of its copies. The engine computes this sum for all operations
    that broadcast, so the cotangent is returned unchanged.

    >>> import tinyattn as ta
    >>> ta.broadcast_to(ta.tensor([1.0, 2.0]), (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    try:
        return array_namespace(x).broadcast_to(x, shape)
    except ValueError as error:
        raise ValueError(
            f"cannot broadcast shape {tuple(x.shape)} to {shape}: counted from the last, each axis must have the "
            "target's length, or length 1, or be missing"
        ) from error


@broadcast_to.vjp
def broadcast_to_vjp(g, _out, _x, *, shape):
    return g


@primitive(view=True)
def transpose(x, /, axes=None):
    """Permute the axes of ``x``: axis i of the result is axis ``axes[i]`` of ``x``.

    Args:
        axes: a permutation of the axes, which may be negative; None reverses their order.

    Raises:
        ValueError: if ``axes`` is not a permutation.

    Backward. The cotangent's axis i is the input's axis ``axes[i]``, so it is permuted by the inverse:
    ``inverse[axes[i]] = i``. This equals the permutation itself for a swap of two axes, but not for a cycle of three.

    >>> import tinyattn as ta
    >>> ta.transpose(ta.zeros((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    try:
        return array_namespace(x).transpose(x, axes)
    except ValueError as error:
        raise ValueError(
            f"transpose got axes {axes} for shape {tuple(x.shape)}: expected each of its {x.ndim} axes once; "
            "use swapaxes to exchange two"
        ) from error


@transpose.vjp
def transpose_vjp(g, _out, _x, *, axes=None):
    if axes is None:
        return array_namespace(g).transpose(g)
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position  # negative axes index this list from the end, too
    return array_namespace(g).transpose(g, tuple(inverse))


@with_numpys_arguments
def swapaxes(x, axis1, axis2):
    """Swap two axes of ``x``.

    >>> import tinyattn as ta
    >>> ta.swapaxes(ta.zeros((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    x = _with_shape(x)
    order = list(range(x.ndim))
    axis1, axis2 = normalize_axis_index(axis1, x.ndim), normalize_axis_index(axis2, x.ndim)
    order[axis1], order[axis2] = axis2, axis1
    return transpose(x, tuple(order))


@with_numpys_arguments
def moveaxis(x, source, destination):
    """Move the axes ``source`` of ``x`` to the positions ``destination``; the others keep their order.

    Args:
        source, destination: one axis each, or the same number of axes.

    >>> import tinyattn as ta
    >>> ta.moveaxis(ta.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = _with_shape(x)
    sources = normalize_axis_tuple(source, x.ndim, "source")
    destinations = normalize_axis_tuple(destination, x.ndim, "destination")
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
    """Insert axes of length 1 at the positions ``axis`` of the result.

    >>> import tinyattn as ta
    >>> ta.expand_dims(ta.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    x = _with_shape(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = normalize_axis_tuple(axis, x.ndim + count, "axis")
    lengths = iter(x.shape)
    return reshape(x, tuple(1 if i in new else next(lengths) for i in range(x.ndim + count)))


@with_numpys_arguments
def squeeze(x, axis=None):
    """Remove axes of length 1 from ``x``.

    Args:
        axis: one axis or several; None removes all of length 1.

    Raises:
        ValueError: if an axis has another length.

    >>> import tinyattn as ta
    >>> ta.squeeze(ta.zeros((1, 2, 1))).shape
    (2,)
    """
    x = _with_shape(x)
    if axis is None:
        removed = [position for position, length in enumerate(x.shape) if length == 1]
    else:
        removed = normalize_axis_tuple(axis, x.ndim, "axis")
    for position in removed:
        if x.shape[position] != 1:
            raise ValueError(
                f"cannot squeeze axis {position} of shape {x.shape}: it has length {x.shape[position]}, expected 1"
            )
    return reshape(x, tuple(n for position, n in enumerate(x.shape) if position not in removed))


@primitive(view=True)
def flip(x, /, axis=None):
    """Reverse the order of elements along ``axis``, one or several; None reverses all axes.

    Backward. Flipping is its own inverse, so the cotangent is flipped along the same axes.

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
    """The lower triangle of the matrices in the last two axes; elements above diagonal ``k`` are set to 0.

    Backward. The output does not depend on the elements set to 0: the cotangent is masked in the same way.

    Raises:
        ValueError: for fewer than two axes.

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
    """The upper triangle of the matrices in the last two axes; elements below diagonal ``k`` are set to 0.

    Backward. As for ``tril``, the cotangent is masked in the same way.

    Raises:
        ValueError: for fewer than two axes.

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
    """Join tensors along the existing axis ``axis``; None flattens them first.

    Args:
        arrays: a sequence of tensors whose shapes are equal on all other axes. A tensor may occur twice.

    Raises:
        ValueError: if there are none, or their shapes are not compatible.

    >>> import tinyattn as ta
    >>> ta.concatenate([ta.ones(2), ta.zeros(1)])
    Tensor([1., 1., 0.])
    """
    arrays = _sequence_of_arrays(arrays, axis, "concatenate")
    if axis is None:
        return concatenate([reshape(x, (-1,)) for x in arrays])
    first = arrays[0]
    axis = normalize_axis_index(axis, first.ndim)
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

    Backward. Each input is a slice of the output, and its cotangent is that slice of the output's.
    """
    return array_namespace(*arrays).concatenate(arrays, axis=axis)


@concatenate_arrays.vjp
def concatenate_arrays_vjp(g, _out, *_arrays, position, axis=0):
    start = sum(x.shape[axis] for x in _arrays[:position])
    return g[(slice(None),) * axis + (slice(start, start + _arrays[position].shape[axis]),)]


@with_numpys_arguments
def stack(arrays, axis=0):
    """Join tensors of equal shape along a new axis, at position ``axis`` of the result.

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
    axis = normalize_axis_index(axis, arrays[0].ndim + 1)
    return concatenate([expand_dims(x, axis) for x in arrays], axis=axis)


@with_numpys_arguments
def split(x, indices_or_sections, axis=0):
    """Split ``x`` along ``axis`` into a list of views.

    Args:
        indices_or_sections: number of equal parts, or the positions at which to split.

    Raises:
        ValueError: if the axis cannot be split into equal parts.

    >>> import tinyattn as ta
    >>> ta.split(ta.tensor([1.0, 2.0, 3.0, 4.0]), 2)
    [Tensor([1., 2.]), Tensor([3., 4.])]
    >>> ta.split(ta.tensor([1.0, 2.0, 3.0, 4.0]), [1])
    [Tensor([1.]), Tensor([2., 3., 4.])]
    """
    x = x if isinstance(x, Tensor) else Tensor(x)
    axis = normalize_axis_index(axis, x.ndim)
    length = x.shape[axis]
    try:
        sections = operator.index(indices_or_sections)
    except TypeError:
        cuts = [operator.index(cut) for cut in indices_or_sections]
    else:
        if sections < 1 or length % sections:
            raise ValueError(
                f"cannot split axis {axis} of shape {x.shape} into {sections} equal parts: "
                f"its length {length} is not a multiple of {sections}; give the positions at which to split instead"
            )
        cuts = (
            range(length // sections, length, length // sections)
            if length
            else [0] * (sections - 1)
        )
    before = (slice(None),) * axis
    starts, ends = [0, *cuts], [*cuts, length]
    return [x[(*before, slice(start, end))] for start, end in zip(starts, ends)]


def _check_matrices(x, name):
    if x.ndim < 2:
        raise ValueError(f"{name} needs matrices in the last two axes, got shape {tuple(x.shape)}")


def _with_shape(x, device=None):
    """``x`` itself, or a number or sequence as a tensor."""
    return x if hasattr(x, "shape") else Tensor(x, device=device)


def _sequence_of_arrays(arrays, axis, name):
    if hasattr(axis, "shape"):
        raise TypeError(f"{name} takes the tensors as one sequence: {name}([x, y], axis=0)")
    arrays = listed(arrays, f"the first argument of {name}()")  # a tensor is a sequence of its rows
    if not arrays:
        raise ValueError(f"{name} needs at least one array, got an empty sequence")
    given = [getattr(x, "_data", x) for x in arrays if hasattr(x, "shape")]
    device = backend_of(given[0]).device if given else None
    return [_with_shape(x, device) for x in arrays]


def _without(shape, axis):
    return tuple(shape[:axis]) + tuple(shape[axis + 1 :])
