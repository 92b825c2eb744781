"""Pairs of plain NumPy functions, ``(forward, backward)``, as problems."""

import inspect

import numpy as np

from ..arrays import ArrayProblem


def pair_problem(fn, inputs, params=(), dtype=None):
    """The problem of a pair of functions of NumPy arrays; None if ``fn`` is no pair.

    Args:
        fn: ``(forward, backward)``, called as ``forward(*arrays)`` and ``backward(cotangent, *arrays)``. If the last
            parameter of ``backward`` is called ``gradients``, it gets a list of arrays there and adds into them
            instead of returning gradients.
        inputs: an array, or a tuple or list of arrays and other arguments.
        params: has to be empty: what is checked is an argument of both functions.
        dtype: the dtype of the working copies; that of each array if None.

    >>> problem = pair_problem((np.sin, lambda g, x: g * np.cos(x)), np.array([0.0, 1.0]))
    >>> problem.gradients([np.ones(2)])[0]
    array([1.        , 0.54030231])
    """
    if not (isinstance(fn, (tuple, list)) and len(fn) == 2 and all(map(callable, fn))):
        return None
    if not (isinstance(params, (tuple, list)) and not params):
        raise TypeError(
            "params is given with a pair of functions: expected every checked array in inputs"
        )
    forward, backward = fn
    arrays = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    if dtype is not None:
        arrays = [array.astype(dtype) if _is_floating(array) else array for array in arrays]
    return ArrayProblem(forward, backward, arrays, accumulates=_accumulates(backward))


def _is_floating(value):
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fV"


def _accumulates(backward):
    try:
        names = list(inspect.signature(backward).parameters)
    except (TypeError, ValueError):  # a function of C code
        return False
    return names[-1:] == ["gradients"]
