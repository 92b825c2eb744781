"""Indexing, and its adjoint.

Indexing copies elements: y_k = x_{i(k)}. The index may name an element twice, and may leave elements out. Thus x_j has
the cotangent
    dx_j = sum over all k with i(k) = j of g_k,
0 where nothing points to j. That is the adjoint of indexing, the operation ``scatter``. It is linear, and its
own adjoint is indexing again, so that the two rules differentiate each other, as often as one likes.
"""

import numpy as np

from ..autograd import Tensor, primitive
from ..autograd.pytorch_names import with_numpys_arguments
from ..backend import backend_of, is_array
from .conversion import at_least_float32, in_dtype_of
from .shape import normalised_axis


def getitem(x, index):
    """``x[index]``, with all of NumPy's indexing, on every device.

    Args:
        index: whole numbers, slices, None, an ellipsis, boolean masks, arrays, lists or tensors of whole numbers, or a
            tuple of these.

    Raises:
        IndexError: for a number outside the axis, more indices than axes, a mask of another shape, and for an index
            that is not a whole number.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> x[[0, 0, 2]].sum().backward()
    >>> x.grad
    Tensor([2., 0., 1.])
    """
    x = x if isinstance(x, Tensor) else Tensor(x)
    index, is_basic = _checked_index(x, index)
    if is_basic:
        return view_at(x, index=index)
    if (
        x.requires_grad
    ):  # backward needs the index as it is now, whatever its owner writes into it later
        index = tuple(entry.copy() if is_array(entry) else entry for entry in index)
    return gather(x, index=index)


@primitive(view=True)
def view_at(x, /, index):
    """The part of ``x`` at ``index``, a tuple of whole numbers, slices, None and an ellipsis: a view.

    Backward. No element is named twice: the cotangent is put in its place among zeros.
    """
    return x[index if Ellipsis in index else (*index, ...)]  # else an element would be a number


@view_at.vjp
def view_at_vjp(g, _out, _x, *, index):
    return scatter.rule(g, index=index, shape=_x.shape)


@view_at.accumulator
def view_at_accumulate(array, g, *, index):
    array[index] += g


@primitive
def gather(x, /, index):
    """The elements of ``x`` at ``index``, a tuple with arrays of whole numbers or masks in it: a copy.

    Backward. An element that is named twice gets the sum of both cotangents.
    """
    return x[index]


@gather.vjp
def gather_vjp(g, _out, _x, *, index):
    return scatter.rule(g, index=index, shape=_x.shape)


@gather.accumulator
def gather_accumulate(array, g, *, index):
    _add_at(array, index, g)


@primitive
def scatter(x, /, index, shape):
    """Zeros of ``shape`` with ``x`` added at ``index``: the adjoint of indexing.

    Backward. y_j = sum_{k: i(k) = j} x_k depends on x_k with the factor 1 through y_{i(k)} alone: dx_k = g_{i(k)}.

    >>> import numpy as np
    >>> scatter(Tensor([1.0, 2.0, 3.0]), index=(np.array([0, 0, 2]),), shape=(4,))
    Tensor([3., 0., 3., 0.])
    """
    wide = at_least_float32(x)
    y = backend_of(x).zeros(shape, wide.dtype)
    _add_at(y, index, wide)
    return in_dtype_of(x, y)


@scatter.vjp
def scatter_vjp(g, _out, _x, *, index, shape):
    is_basic = not any(is_array(entry) for entry in index)
    return (view_at if is_basic else gather).rule(g, index=index)


def _add_at(array, index, values):
    if any(is_array(entry) and entry.dtype.kind != "b" for entry in index):
        backend_of(array).scatter_add(array, index, values)
    else:  # nothing occurs twice
        array[index] += values


@with_numpys_arguments
def take(x, indices, axis=None):
    """The elements of ``x`` at ``indices`` along ``axis``; with None, of all its elements in one row.

    The axis is replaced by the axes of ``indices``; a single number drops it.

    Raises:
        IndexError: for an index outside the axis.

    >>> import tinyattn as ta
    >>> ta.take(ta.tensor([[1.0, 2.0], [3.0, 4.0]]), [1, 0, 1], axis=1).tolist()
    [[2.0, 1.0, 2.0], [4.0, 3.0, 4.0]]
    """
    x = x if isinstance(x, Tensor) else Tensor(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    return getitem(x, (slice(None),) * normalised_axis(axis, x.ndim) + (indices,))


def _checked_index(x, index):
    """``index`` as a tuple with arrays of the device of ``x`` in it, checked; and whether it has no such arrays."""
    backend = backend_of(x._data)
    entries = [
        _entry(entry, backend) for entry in (index if isinstance(index, tuple) else (index,))
    ]
    named = [entry for entry in entries if entry is not None and entry is not Ellipsis]
    consumed = sum(_axes_consumed(entry) for entry in named)
    if consumed > x.ndim:
        raise IndexError(
            f"got {consumed} indices for a tensor of shape {x.shape}: one for each axis at most"
        )
    arrays = [entry for entry in named if is_array(entry)]
    if len(arrays) > 1:  # masks and numbers together: a mask means the numbers where it holds
        entries = [number for entry in entries for number in _mask_as_numbers(entry)]

    axis = 0
    for entry in entries:
        if entry is Ellipsis:
            axis += x.ndim - consumed
        elif entry is not None:
            _check_entry(entry, x, axis, backend)
            axis += _axes_consumed(entry)
    return tuple(entries), not arrays


def _entry(entry, backend):
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, (bool, np.bool_)):
        return backend.asarray(np.asarray(entry))
    if isinstance(entry, (int, np.integer)):
        return int(entry)
    if isinstance(entry, Tensor):
        entry = entry._data
    if not is_array(entry):
        entry = np.asarray(entry)
        if entry.size == 0:
            entry = entry.astype(np.int64)  # NumPy makes floats of an empty list
    if entry.dtype.kind not in "biu":
        raise IndexError(
            f"a tensor is indexed by whole numbers or booleans, got {entry.dtype} of shape {tuple(entry.shape)}"
        )
    if isinstance(entry, np.ndarray):
        entry = backend.asarray(entry.view(np.ndarray))  # like a list: it is no data
    elif backend_of(entry) is not backend:
        raise TypeError(
            f"the index is on {backend_of(entry).device} and the tensor on {backend.device}: "
            "nothing is moved silently, move one with .to(device)"
        )
    return int(entry) if entry.ndim == 0 and entry.dtype.kind != "b" else entry


def _axes_consumed(entry):
    if entry is None:
        return 0
    return entry.ndim if is_array(entry) and entry.dtype.kind == "b" else 1


def _mask_as_numbers(entry):
    if is_array(entry) and entry.dtype.kind == "b" and entry.ndim > 0:
        return backend_of(entry).xp.nonzero(entry)
    return (entry,)


def _check_entry(entry, x, axis, backend):
    if isinstance(entry, slice):
        return
    if isinstance(entry, int):
        if not -x.shape[axis] <= entry < x.shape[axis]:
            raise IndexError(
                f"index {entry} is out of range for axis {axis} of shape {x.shape}: "
                f"expected {-x.shape[axis]} <= index < {x.shape[axis]}"
            )
    elif entry.dtype.kind != "b":
        backend.check_indices(entry, x.shape[axis])
    elif tuple(entry.shape) != x.shape[axis : axis + entry.ndim]:
        raise IndexError(
            f"a mask of shape {tuple(entry.shape)} does not fit the axes from {axis} on of shape {x.shape}"
        )
