"""Indexing, and its adjoint, scatter.

Indexing copies elements: y_k = x_{i(k)}. An index may occur several times, or not at all, so the cotangent of x_j is
    dx_j = sum over all k with i(k) = j of g_k,
and 0 if there is none. This is the adjoint of indexing, the operation ``scatter``. It is linear, and its own adjoint is
indexing, so that the two rules are each other's backward, for derivatives of any order.
"""

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..autograd import Tensor, primitive
from ..autograd.pytorch_names import with_numpys_arguments
from ..backend import backend_of, is_array
from .conversion import at_least_float32, in_dtype_of


def getitem(x, index):
    """``x[index]``, with basic and advanced indexing as in NumPy, on every device.

    Args:
        index: integers, slices, None, an ellipsis, boolean masks, arrays, lists or tensors of integers, or a tuple of
            these.

    Raises:
        IndexError: if an index is out of range or not an integer, a mask has another shape, or there are more indices
            than axes.

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
    if x.requires_grad:
        # Backward needs the present values, even if the caller overwrites the array.
        index = tuple(entry.copy() if is_array(entry) else entry for entry in index)
    return gather(x, index=index)


@primitive(view=True)
def view_at(x, /, index):
    """Basic indexing: a view of ``x`` at ``index``, a tuple of integers, slices, None and an ellipsis.

    Backward. No element occurs twice: the cotangent is written into zeros.
    """
    return x[index if Ellipsis in index else (*index, ...)]  # a 0-d array, not a scalar


@view_at.vjp
def view_at_vjp(g, _out, _x, *, index):
    return scatter.rule(g, index=index, shape=_x.shape)


@view_at.accumulator
def view_at_accumulate(array, g, *, index):
    array[index] += g


@primitive
def gather(x, /, index):
    """Advanced indexing: a copy of the elements of ``x`` at ``index``, a tuple with arrays of integers or masks.

    Backward. An element that occurs several times gets the sum of the cotangents.
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

    Backward. x_k contributes to y_{i(k)} only, with the derivative 1: dx_k = g_{i(k)}.

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
    else:  # no element occurs twice
        array[index] += values


@with_numpys_arguments
def take(x, indices, axis=None):
    """The elements of ``x`` at ``indices`` along ``axis``; None flattens ``x`` first.

    The axis is replaced by the axes of ``indices``; an integer removes it.

    Raises:
        IndexError: for an index out of range.

    >>> import tinyattn as ta
    >>> ta.take(ta.tensor([[1.0, 2.0], [3.0, 4.0]]), [1, 0, 1], axis=1).tolist()
    [[2.0, 1.0, 2.0], [4.0, 3.0, 4.0]]
    """
    x = x if isinstance(x, Tensor) else Tensor(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    return getitem(x, (slice(None),) * normalize_axis_index(axis, x.ndim) + (indices,))


def _checked_index(x, index):
    """``index`` as a checked tuple, with arrays on the device of ``x``; and whether it is basic, without arrays."""
    backend = backend_of(x._data)
    index = index if isinstance(index, tuple) else (index,)
    entries = [_entry(entry, backend) for entry in index]
    named = [entry for entry in entries if entry is not None and entry is not Ellipsis]
    consumed = sum(_axes_consumed(entry) for entry in named)
    if consumed > x.ndim:
        raise IndexError(
            f"got {consumed} indices for a tensor of shape {x.shape}: expected at most one per axis"
        )
    arrays = [entry for entry in named if is_array(entry)]
    if len(arrays) > 1:
        # As in NumPy, a mask among other arrays selects the indices where it is True.
        entries = [each for entry in entries for each in _mask_as_indices(entry)]

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
            entry = entry.astype(np.int64)  # NumPy converts an empty list to floats
    if entry.dtype.kind not in "biu":
        raise IndexError(
            f"a tensor is indexed by integers or booleans, got {entry.dtype} of shape {tuple(entry.shape)}"
        )
    if isinstance(entry, np.ndarray):
        entry = backend.asarray(entry.view(np.ndarray))  # host arrays are accepted like lists
    elif backend_of(entry) is not backend:
        raise TypeError(
            f"the index is on {backend_of(entry).device} and the tensor on {backend.device}: "
            "move one explicitly, with .to(device)"
        )
    return int(entry) if entry.ndim == 0 and entry.dtype.kind != "b" else entry


def _axes_consumed(entry):
    if entry is None:
        return 0
    return entry.ndim if is_array(entry) and entry.dtype.kind == "b" else 1


def _mask_as_indices(entry):
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
            f"a mask of shape {tuple(entry.shape)} does not match the axes from {axis} on of shape {x.shape}"
        )
