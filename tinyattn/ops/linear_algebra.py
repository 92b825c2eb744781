"""Matrix multiplication and Einstein summation: sums of products over shared indices."""

import math
import string

from ..autograd import Tensor, primitive
from ..backend import array_namespace, backend_of


@primitive
def matmul(a, b, /):
    """The matrix product of ``a`` (..., n, k) and ``b`` (..., k, m), which is (..., n, m); also as ``@``.

    Leading axes broadcast. A vector is a row on the left and a column on the right, and its axis is removed from the
    result. For k = 0 the result is zeros.

    Raises:
        ValueError: if the inner dimensions differ, the leading axes do not broadcast, or an operand is a scalar.

    Backward. y_ij = sum_l a_il b_lj, so dy_ij/da_il = b_lj and
        da_il = sum_j g_ij b_lj,  that is  da = g b^T,  and likewise  db = a^T g.

    >>> import tinyattn as ta
    >>> ta.matmul(ta.tensor([[1.0, 2.0], [3.0, 4.0]]), ta.tensor([1.0, -1.0]))
    Tensor([-1., -1.])
    """
    _check_product(a, b)
    return array_namespace(a, b).matmul(a, b)


@matmul.vjp("a")
def matmul_vjp_a(g, _out, _a, b):
    xp = array_namespace(g)
    if b.ndim == 1:  # a column: (..., k, 1) and (..., n, 1)
        b, g = xp.expand_dims(b, -1), xp.expand_dims(g, -1)
    if _a.ndim == 1:  # a row: (..., 1, m)
        g = xp.expand_dims(g, -2)
    return xp.matmul(g, xp.swapaxes(b, -1, -2))  # (..., n, m) (..., m, k) -> (..., n, k)


@matmul.vjp("b")
def matmul_vjp_b(g, _out, a, _b):
    xp = array_namespace(g)
    is_column = _b.ndim == 1
    if is_column:
        g = xp.expand_dims(g, -1)
    if a.ndim == 1:  # a row: (1, k) and (..., 1, m)
        a, g = xp.expand_dims(a, -2), xp.expand_dims(g, -2)
    if _b.ndim <= 2 < a.ndim:
        # b has no batch axes: the sum over the batch is part of the product.
        a = xp.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
        g = xp.reshape(g, (math.prod(g.shape[:-1]), g.shape[-1]))
    db = xp.matmul(xp.swapaxes(a, -1, -2), g)  # (..., k, m)
    return db[..., 0] if is_column else db


def _check_product(a, b):
    shapes = f"shapes {getattr(a, 'shape', ())} and {getattr(b, 'shape', ())}"
    if not getattr(a, "ndim", 0) or not getattr(b, "ndim", 0):
        raise ValueError(
            f"matmul got {shapes}: both operands need at least one axis; use * for a product with a number"
        )
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise ValueError(
            f"matmul got {shapes}: the length of the last axis of the first, {a.shape[-1]}, must equal that of the "
            f"{'last but one' if b.ndim > 1 else 'only'} axis of the second, {inner}"
        )
    for left, right in zip(a.shape[-3::-1], b.shape[-3::-1]):
        if left != right and 1 not in (left, right):
            raise ValueError(
                f"matmul got {shapes}: the leading axes {a.shape[:-2]} and {b.shape[:-2]} do not broadcast"
            )


def einsum(subscripts, *operands):
    """Einstein summation: products of elements of the operands, summed over the indices that are not in the output.

    Args:
        subscripts: letters for the axes of each operand, separated by commas, as in ``"bqd,bkd->bqk"``. An index that
            occurs twice in an operand takes the diagonal. An ellipsis denotes leading axes, which broadcast. Without an
            arrow, the output has the letters that occur once, in alphabetical order.
        operands: tensors, one for each group of letters.

    Raises:
        ValueError: if the subscripts do not match the operands.

    >>> import tinyattn as ta
    >>> ta.einsum("ij,j->i", ta.tensor([[1.0, 2.0], [3.0, 4.0]]), ta.tensor([1.0, -1.0]))
    Tensor([-1., -1.])
    >>> ta.einsum("ii", ta.tensor([[1.0, 2.0], [3.0, 4.0]])).item()
    5.0
    """
    if not isinstance(subscripts, str):
        raise TypeError(
            f"einsum expects its subscripts first, a string, got {type(subscripts).__name__}"
        )
    operands = [Tensor(x) if isinstance(x, (list, tuple)) else x for x in operands]
    shapes = [tuple(getattr(operand, "shape", ())) for operand in operands]
    return contract(*operands, subscripts=explicit_subscripts(subscripts, shapes))


@primitive(variadic=True)
def contract(*operands, subscripts):
    """The rule of ``einsum``, for explicit subscripts: with an output, without spaces and ellipses.

    y_O = sum over all indices not in O of a_A b_B ..., where A, B and O are the indices of the operands and the output.

    Backward. y is linear in each operand: da_A = sum over all indices not in A of g_O b_B ..., again an Einstein sum,
    in which the cotangent replaces the operand. There are two special cases:
     - an index that only ``a`` has was summed over: da is the same for all its values, a product with ones;
     - an index that ``a`` has twice, as in "ii", took the diagonal: da is 0 elsewhere, a product with the identity
       delta_ij, where j is a new name for the second occurrence.
    """
    result = array_namespace(*operands).einsum(subscripts, *operands, optimize=len(operands) > 1)
    # For one operand, NumPy may return a view.
    return result.copy() if len(operands) == 1 else result


@contract.vjp
def contract_vjp(g, _out, *operands, position, subscripts):
    inputs, output = subscripts.split("->")
    inputs = inputs.split(",")
    wanted, shape = inputs[position], operands[position].shape
    factors = [(output, g)]
    factors += [(inputs[i], operand) for i, operand in enumerate(operands) if i != position]

    unused = (letter for letter in string.ascii_letters if letter not in subscripts)
    names = ""
    for letter, length in zip(wanted, shape):
        name = letter
        if letter in names:  # the diagonal
            name = next(unused)
            factors.append((letter + name, _constant(g, "eye", length)))
        elif not any(_length(letter, *factor) == length for factor in factors):
            factors.append((letter, _constant(g, "ones", length)))
        names += name
    subscripts = ",".join(letters for letters, _ in factors) + "->" + names
    return contract.rule(*(factor for _, factor in factors), subscripts=subscripts)


def _length(letter, letters, operand):
    """The length of the axis ``letter`` of an operand; None if it has no such axis."""
    return operand.shape[letters.index(letter)] if letter in letters else None


def _constant(like, function, length):
    array = getattr(like, "_data", like)
    return getattr(backend_of(array).xp, function)(length, dtype=array.dtype)


def explicit_subscripts(subscripts, shapes):
    """``subscripts`` with an explicit output, and letters instead of ellipses, checked against the operands' shapes.

    >>> explicit_subscripts("...i, i", [(2, 3), (3,)])
    'ai,i->a'
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    inputs = inputs.split(",")
    if len(inputs) != len(shapes):
        raise ValueError(
            f"einsum({subscripts!r}) has subscripts for {len(inputs)} operands, got {len(shapes)}"
        )
    unused = [letter for letter in string.ascii_letters if letter not in subscripts]
    extra = [len(shape) - len(term.replace("...", "")) for term, shape in zip(inputs, shapes)]
    longest = max((n for n, term in zip(extra, inputs) if "..." in term), default=0)
    leading = "".join(unused[: max(longest, 0)])
    if not arrow:
        named = "".join(inputs).replace("...", "")
        output = "..." * ("..." in subscripts) + "".join(
            sorted(c for c in set(named) if named.count(c) == 1)
        )

    terms, lengths = [], {}
    for position, (term, shape, n) in enumerate(zip(inputs, shapes, extra)):
        if n < 0 or (n and "..." not in term):
            raise ValueError(
                f"einsum({subscripts!r}): {term!r} does not match operand {position} of shape {shape}, "
                f"which has {len(shape)} axes"
            )
        term = term.replace("...", leading[longest - n :] if n else "", 1)
        if not all(letter in string.ascii_letters for letter in term):
            raise ValueError(
                f"einsum({subscripts!r}): {inputs[position]!r} has characters other than letters and one '...'"
            )
        terms.append(term)
        for letter, length in zip(term, shape):
            known = lengths.setdefault(letter, length)
            if length != known and 1 not in (length, known):
                name = letter if letter in subscripts else "..."
                raise ValueError(
                    f"einsum({subscripts!r}): index {name} has length {known} before and {length} in operand {position}"
                )
            lengths[letter] = length if known == 1 else known
    output = output.replace("...", leading, 1)
    if len(set(output)) != len(output) or not set(output) <= set(lengths):
        raise ValueError(
            f"einsum({subscripts!r}): the output may name each index of the operands once, got {output!r}"
        )
    return ",".join(terms) + "->" + output
