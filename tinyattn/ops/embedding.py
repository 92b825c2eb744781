"""Embedding lookup, and its adjoint, the sum of rows by id."""

from ..autograd import primitive
from ..backend import array_namespace, backend_of
from .conversion import at_least_float32


@primitive
def embedding(ids, weight, /, *, padding_idx=None):
    """Look up the rows ``ids`` of the table ``weight``.

    Args:
        ids: integers in 0 .. rows - 1, of any shape. Negative ids are errors: they do not count from the end.
        weight: (rows, ...).
        padding_idx: a row without gradient.

    Returns:
        The shape of ``ids`` followed by that of a row.

    Raises:
        IndexError: if an id is out of range (on every device), or ids are not integers.

    Backward. y_n = W[i_n] copies row r of W to every n with i_n = r, so the row gets the sum of their cotangents:
    dW[r] = sum over n with i_n = r of g_n.

    >>> import tinyattn as ta
    >>> ta.embedding([2, 0, 2], ta.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    Tensor([[3., 3.],
            [1., 1.],
            [3., 3.]])
    """
    check_ids(ids, weight.shape[0], "embedding", "id")
    return weight[ids]


@embedding.vjp("weight")
def embedding_vjp_weight(g, _out, ids, _weight, *, padding_idx=None):
    return sum_by_id.rule(g, ids, rows=_weight.shape[0], padding_idx=padding_idx)


@primitive
def sum_by_id(x, ids, /, *, rows, padding_idx=None):
    """A table of ``rows`` rows, row r the sum of all ``x_n`` with ``ids[n] = r``: the adjoint of ``embedding``.

    Row ``padding_idx`` is zero.

    Backward. y[r] = sum over n with i_n = r of x_n, so each x_n gets the cotangent of its row: dx_n = g[i_n], an
    embedding, and 0 for the padding row.

    >>> import tinyattn as ta
    >>> sum_by_id(ta.tensor([1.0, 2.0, 4.0]), [0, 1, 0], rows=2)
    Tensor([5., 2.])
    """
    backend = backend_of(x)
    x = at_least_float32(x)
    table = backend.zeros((rows,) + x.shape[ids.ndim :], x.dtype)
    backend.scatter_add(table, ids, x)
    if padding_idx is not None:
        table[padding_idx] = 0
    return table


@sum_by_id.vjp("x")
def sum_by_id_vjp_x(g, _out, _x, ids, *, rows, padding_idx=None):
    picked = embedding.rule(ids, g)
    if padding_idx is None:
        return picked
    is_padding = (ids == padding_idx % rows).reshape(ids.shape + (1,) * (picked.ndim - ids.ndim))
    return array_namespace(g).where(is_padding, 0, picked)


def check_ids(ids, size, operation, name):
    """Raise IndexError unless all of ``ids`` are integers in ``0 .. size - 1``."""
    if getattr(ids, "dtype", None) is None or ids.dtype.kind not in "iu":
        kind = getattr(ids, "dtype", type(ids).__name__)
        raise IndexError(
            f"{operation}() got the {name}s as {kind}: expected an array of integers in 0 .. {size - 1}"
        )
    if ids.size == 0:
        return
    lowest, highest = int(ids.min()), int(ids.max())
    if lowest < 0 or highest >= size:
        wrong = lowest if lowest < 0 else highest
        raise IndexError(
            f"{operation}() got the {name} {wrong}: expected integers in 0 .. {size - 1}"
        )
