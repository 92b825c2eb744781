"""Creation of tensors: by default of dtype float32, and on the default device."""

import operator

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, default_random, get_backend, is_array, native_dtype


def zeros(shape, dtype=np.float32, device=None, requires_grad=False):
    """A tensor of zeros.

    Args:
        shape: a tuple, or the length of a vector.

    >>> import tinyattn as ta
    >>> ta.zeros((1, 2))
    Tensor([[0., 0.]])
    """
    return _wrapped(get_backend(device).zeros(shape, _checked_dtype(dtype)), requires_grad)


def ones(shape, dtype=np.float32, device=None, requires_grad=False):
    """A tensor of ones.

    >>> import tinyattn as ta
    >>> ta.ones(3)
    Tensor([1., 1., 1.])
    """
    return full(shape, 1, dtype, device, requires_grad)


def full(shape, fill_value, dtype=None, device=None, requires_grad=False):
    """A tensor filled with one number.

    Args:
        dtype: by default that of ``tensor(fill_value)``: float32 for a float, int64 for an integer.

    >>> import tinyattn as ta
    >>> ta.full((2,), 0.5)
    Tensor([0.5, 0.5])
    """
    dtype = None if dtype is None else _checked_dtype(dtype)
    number = Tensor(fill_value, dtype=dtype, device="cpu")
    array = get_backend(device).xp.full(shape, number.item(), dtype=number.dtype)
    return _wrapped(array, requires_grad)


def arange(start, stop=None, step=1, dtype=None, device=None, requires_grad=False):
    """Evenly spaced numbers in [``start``, ``stop``), ``step`` apart; with one argument, in [0, ``start``).

    Args:
        dtype: by default int64 if all three are integers, otherwise float32.

    >>> import tinyattn as ta
    >>> ta.arange(3).tolist()
    [0, 1, 2]
    >>> ta.arange(0, 1, 0.25)
    Tensor([0.  , 0.25, 0.5 , 0.75])
    """
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        integers = all(isinstance(number, (int, np.integer)) for number in (start, stop, step))
        dtype = np.int64 if integers else np.float32
    array = get_backend(device).xp.arange(start, stop, step, dtype=native_dtype(dtype))
    return _wrapped(array, requires_grad)


def eye(n, m=None, dtype=np.float32, device=None, requires_grad=False):
    """The identity matrix (n, n), or a matrix (n, m) with ones on the main diagonal.

    >>> import tinyattn as ta
    >>> ta.eye(2)
    Tensor([[1., 0.],
            [0., 1.]])
    """
    array = get_backend(device).xp.eye(n, m, dtype=native_dtype(dtype))
    return _wrapped(array, requires_grad)


def randn(*shape, dtype=np.float32, device=None, requires_grad=False):
    """Samples from the standard normal distribution, drawn from the random stream that ``manual_seed`` seeds.

    Args:
        shape: the shape, as a tuple or as separate lengths.
        dtype: a floating-point type.

    Raises:
        TypeError: for a dtype that is not floating-point, and lengths that are not integers.

    >>> import tinyattn as ta
    >>> random = ta.manual_seed(0)
    >>> ta.randn(2, 3).shape, ta.randn((2, 3)).shape
    ((2, 3), (2, 3))
    """
    numbers = default_random().normal(size=_lengths(shape, "randn"))
    return _drawn(numbers, dtype, device, requires_grad)


def rand(*shape, dtype=np.float32, device=None, requires_grad=False):
    """Samples from the uniform distribution on [0, 1), drawn from the random stream that ``manual_seed`` seeds.

    Args:
        shape: the shape, as a tuple or as separate lengths.
        dtype: a floating-point type; samples are multiples of its spacing below 1, so that none is rounded up to 1.

    Raises:
        TypeError: as ``randn``.

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
    """Zeros with the shape, dtype and device of ``x``.

    >>> import tinyattn as ta
    >>> ta.zeros_like(ta.ones(2))
    Tensor([0., 0.])
    """
    return full_like(x, 0, dtype, requires_grad)


def ones_like(x, dtype=None, requires_grad=False):
    """Ones with the shape, dtype and device of ``x``.

    >>> import tinyattn as ta
    >>> ta.ones_like(ta.zeros(2))
    Tensor([1., 1.])
    """
    return full_like(x, 1, dtype, requires_grad)


def full_like(x, fill_value, dtype=None, requires_grad=False):
    """A tensor filled with one number, with the shape, dtype and device of ``x``.

    >>> import tinyattn as ta
    >>> ta.full_like(ta.zeros(2), 0.5)
    Tensor([0.5, 0.5])
    """
    array = x._data if isinstance(x, Tensor) else x
    array = array if is_array(array) else Tensor(array)._data
    xp = backend_of(array).xp
    dtype = native_dtype(array.dtype if dtype is None else dtype)
    return _wrapped(xp.full(array.shape, fill_value, dtype=dtype), requires_grad)


def _drawn(numbers, dtype, device, requires_grad):
    host = np.asarray(numbers, dtype=_floating(dtype))
    return _wrapped(get_backend(device).asarray(host), requires_grad)


def _lengths(shape, name):
    lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    try:
        return tuple(operator.index(length) for length in lengths)
    except TypeError:
        raise TypeError(
            f"{name}() got {shape} as its shape: expected integers, as in {name}(2, 3)"
        ) from None


def _floating(dtype):
    dtype = _checked_dtype(dtype)
    if dtype.kind != "f":
        raise TypeError(f"random numbers need a floating-point dtype, such as float32, got {dtype}")
    return dtype


def _checked_dtype(dtype):
    if isinstance(dtype, (int, np.integer)):
        raise TypeError(
            f"expected a dtype, got the number {dtype}: give several lengths as one shape, as in zeros((2, 3))"
        )
    return native_dtype(dtype)


def _wrapped(array, requires_grad):
    tensor = Tensor._wrap(array)
    if requires_grad:
        tensor.requires_grad = True
    return tensor
