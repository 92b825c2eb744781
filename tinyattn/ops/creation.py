"""New tensors: float32 unless another dtype is named, on the default device unless another device is."""

import operator

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, default_random, get_backend, is_array, native_dtype


def zeros(shape, dtype=np.float32, device=None, requires_grad=False):
    """A tensor of zeros.

    Args:
        shape: the lengths of the axes, a tuple, or one number.

    >>> import tinyattn as ta
    >>> ta.zeros((1, 2))
    Tensor([[0., 0.]])
    """
    return _finished(get_backend(device).zeros(shape, _checked_dtype(dtype)), requires_grad)


def ones(shape, dtype=np.float32, device=None, requires_grad=False):
    """A tensor of ones.

    >>> import tinyattn as ta
    >>> ta.ones(3)
    Tensor([1., 1., 1.])
    """
    return full(shape, 1, dtype, device, requires_grad)


def full(shape, fill_value, dtype=None, device=None, requires_grad=False):
    """A tensor with the same number everywhere.

    Args:
        dtype: by default float32 for a float, int64 for a whole number, as ``tensor(fill_value)`` has it.

    >>> import tinyattn as ta
    >>> ta.full((2,), 0.5)
    Tensor([0.5, 0.5])
    """
    dtype = None if dtype is None else _checked_dtype(dtype)
    number = Tensor(fill_value, dtype=dtype, device="cpu")
    array = get_backend(device).xp.full(shape, number.item(), dtype=number.dtype)
    return _finished(array, requires_grad)


def arange(start, stop=None, step=1, dtype=None, device=None, requires_grad=False):
    """Numbers from ``start`` to before ``stop``, ``step`` apart; with one argument from 0 to before it.

    Args:
        dtype: by default int64 if all three are whole numbers, else float32.

    >>> import tinyattn as ta
    >>> ta.arange(3).tolist()
    [0, 1, 2]
    >>> ta.arange(0, 1, 0.25)
    Tensor([0.  , 0.25, 0.5 , 0.75])
    """
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = all(isinstance(number, (int, np.integer)) for number in (start, stop, step))
        dtype = np.int64 if whole else np.float32
    array = get_backend(device).xp.arange(start, stop, step, dtype=native_dtype(dtype))
    return _finished(array, requires_grad)


def eye(n, m=None, dtype=np.float32, device=None, requires_grad=False):
    """The identity matrix (n, n), or a matrix (n, m) with ones on the main diagonal.

    >>> import tinyattn as ta
    >>> ta.eye(2)
    Tensor([[1., 0.],
            [0., 1.]])
    """
    array = get_backend(device).xp.eye(n, m, dtype=native_dtype(dtype))
    return _finished(array, requires_grad)


def randn(*shape, dtype=np.float32, device=None, requires_grad=False):
    """Draws of the standard normal distribution, from the stream that ``manual_seed`` starts.

    Args:
        shape: the lengths of the axes, one by one or as a tuple.
        dtype: a floating-point type.

    >>> import tinyattn as ta
    >>> random = ta.manual_seed(0)
    >>> ta.randn(2, 3).shape, ta.randn((2, 3)).shape
    ((2, 3), (2, 3))
    """
    numbers = default_random().normal(size=_lengths(shape, "randn"))
    return _drawn(numbers, dtype, device, requires_grad)


def rand(*shape, dtype=np.float32, device=None, requires_grad=False):
    """Draws of the uniform distribution on [0, 1), from the stream that ``manual_seed`` starts.

    Args:
        shape: the lengths of the axes, one by one or as a tuple.
        dtype: a floating-point type; the draws are multiples of its spacing below 1, so that none is rounded up to 1.

    >>> import tinyattn as ta
    >>> random = ta.manual_seed(0)
    >>> x = ta.rand(1000)
    >>> bool(((x >= 0) & (x < 1)).all())
    True
    """
    dtype = _floating(dtype)
    numbers = default_random().uniform(size=_lengths(shape, "rand"))
    per_unit = 2.0 ** (np.finfo(dtype).nmant + 1)
    return _drawn(np.floor(numbers * per_unit) / per_unit, dtype, device, requires_grad)


def zeros_like(x, dtype=None, requires_grad=False):
    """Zeros of the shape, the dtype and on the device of ``x``.

    >>> import tinyattn as ta
    >>> ta.zeros_like(ta.ones(2))
    Tensor([0., 0.])
    """
    return full_like(x, 0, dtype, requires_grad)


def ones_like(x, dtype=None, requires_grad=False):
    """Ones of the shape, the dtype and on the device of ``x``.

    >>> import tinyattn as ta
    >>> ta.ones_like(ta.zeros(2))
    Tensor([1., 1.])
    """
    return full_like(x, 1, dtype, requires_grad)


def full_like(x, fill_value, dtype=None, requires_grad=False):
    """The same number everywhere, with the shape, the dtype and on the device of ``x``.

    >>> import tinyattn as ta
    >>> ta.full_like(ta.zeros(2), 0.5)
    Tensor([0.5, 0.5])
    """
    array = x._data if isinstance(x, Tensor) else x
    array = array if is_array(array) else Tensor(array)._data
    xp = backend_of(array).xp
    dtype = native_dtype(array.dtype if dtype is None else dtype)
    return _finished(xp.full(array.shape, fill_value, dtype=dtype), requires_grad)


def _drawn(numbers, dtype, device, requires_grad):
    host = np.asarray(numbers, dtype=_floating(dtype))
    return _finished(get_backend(device).asarray(host), requires_grad)


def _lengths(shape, name):
    lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    try:
        return tuple(operator.index(length) for length in lengths)
    except TypeError:
        raise TypeError(
            f"{name}() got {shape} as its shape: expected whole numbers, as in {name}(2, 3)"
        ) from None


def _floating(dtype):
    dtype = _checked_dtype(dtype)
    if dtype.kind != "f":
        raise TypeError(
            f"random numbers are drawn as floating-point numbers, {dtype} is no such type"
        )
    return dtype


def _checked_dtype(dtype):
    if isinstance(dtype, (int, np.integer)):
        raise TypeError(
            f"expected a dtype, got the number {dtype}: several lengths make one shape, as in zeros((2, 3))"
        )
    return native_dtype(dtype)


def _finished(array, requires_grad):
    tensor = Tensor._wrap(array)
    if requires_grad:
        tensor.requires_grad = True
    return tensor
