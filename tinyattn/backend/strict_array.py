"""An array in host memory with the restrictions of CuPy arrays, to test code without a GPU.

Where CuPy 14 differs from NumPy, ``StrictArray`` follows CuPy:

- no implicit conversion between host and device: ``numpy.asarray(strict)`` and ``strict + numpy_array`` are a
  TypeError (Python and NumPy scalars are allowed, and host arrays as an index);
- reductions and indexing return zero-dimensional arrays, never scalars; ``int``, ``float``, ``bool`` and ``item``
  convert them;
- integer arrays as an index wrap around silently if out of range;
- floats outside the range of an integer dtype saturate;
- no floating-point warnings;
- only the methods of CuPy.

Dtypes follow NEP 50 in both: a Python scalar takes the array's dtype, but ``numpy.float64(2)`` promotes a float32 array
to float64. Therefore the engine converts NumPy scalars to Python scalars.
"""

from types import SimpleNamespace

import numpy as np

from .launches import note_launch
from .strict_semantics import cast, device_index

_SCALAR_TYPES = (bool, int, float, complex, np.generic)
_NO_CONVERSION = (
    "a strict array is not converted to a NumPy array implicitly (CuPy raises too): "
    "use `.get()`, or `.numpy()` of a tensor"
)


class StrictArray:
    """An n-dimensional array that behaves like ``cupy.ndarray``, in host memory.

    Create one with the functions of its namespace, ``get_backend("strict").xp``.

    Args:
        memory: the NumPy array to wrap, without copying.
        on_write: called after every write through this array or its views.

    >>> from tinyattn.backend import get_backend
    >>> xp = get_backend("strict").xp
    >>> xp.sum(xp.ones((2, 3))).shape
    ()
    >>> import numpy as np
    >>> np.ones(3) + xp.ones(3)
    Traceback (most recent call last):
        ...
    TypeError: unsupported type <class 'numpy.ndarray'>: ...
    """

    __slots__ = ("__weakref__", "_memory", "_on_write")
    __array_priority__ = 100
    __hash__ = None
    _namespace = None  # set by strict_namespace, which needs this class first

    def __init__(self, memory, on_write=None):
        self._memory = memory
        self._on_write = on_write

    # Attributes

    shape = property(lambda self: self._memory.shape)
    ndim = property(lambda self: self._memory.ndim)
    size = property(lambda self: self._memory.size)
    dtype = property(lambda self: self._memory.dtype)
    strides = property(lambda self: self._memory.strides)
    itemsize = property(lambda self: self._memory.itemsize)
    nbytes = property(lambda self: self._memory.nbytes)
    T = property(lambda self: self._view(self._memory.T))
    mT = property(lambda self: self._view(self._memory.mT))

    @property
    def flags(self):
        flags = self._memory.flags  # CuPy has only these three, because no array is read-only
        return SimpleNamespace(
            c_contiguous=flags.c_contiguous, f_contiguous=flags.f_contiguous, owndata=flags.owndata
        )

    @property
    def base(self):
        base = self._memory.base
        return None if base is None else StrictArray(base)

    @shape.setter
    def shape(self, shape):
        self._memory.shape = shape

    def __array_namespace__(self, *, api_version=None):
        return type(self)._namespace

    # To and from the host

    def __array__(self, dtype=None, copy=None):
        raise TypeError(_NO_CONVERSION)

    def get(self):
        """A copy as a NumPy array."""
        note_launch("read")
        return self._memory.copy()

    def set(self, array):
        """Copy a NumPy array of the same shape and dtype into this one."""
        if not isinstance(array, np.ndarray):
            raise TypeError(f"expected a numpy.ndarray, got {type(array).__name__}")
        if array.dtype != self.dtype or array.shape != self.shape:
            raise ValueError(
                f"expected {self.dtype} of shape {self.shape}, "
                f"got {array.dtype} of shape {array.shape}"
            )
        self._memory[...] = array
        self._report()

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    # NumPy's functions dispatch to the namespace

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        function = getattr(type(self)._namespace, ufunc.__name__, None)
        if method != "__call__" or function is None:
            return NotImplemented
        if any(_takes_over(value) for value in inputs):
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return function(*inputs, **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        own = getattr(type(self)._namespace, function.__name__, None)
        if own is None or not all(issubclass(t, (StrictArray, np.ndarray)) for t in types):
            return NotImplemented
        return own(*args, **kwargs)

    # Indexing

    def __getitem__(self, index):
        index, is_view = device_index(self._memory.shape, _unwrapped_index(index))
        result = self._memory[index]
        if is_view:
            if not isinstance(result, np.ndarray):  # a single element: an ellipsis makes it a view
                result = self._memory[(*index, ...) if isinstance(index, tuple) else (index, ...)]
            return self._view(result)
        note_launch("take")
        result = _as_array(result)
        return StrictArray(result if result.base is None else result.copy())

    def __setitem__(self, index, value):
        note_launch("set")
        if isinstance(value, StrictArray):
            value = cast(value._memory, self.dtype)
        elif isinstance(value, np.ndarray) and value.size != 1:
            raise ValueError(
                f"a NumPy array of shape {value.shape} cannot be assigned to a strict array "
                "implicitly (CuPy raises too): convert it with asarray first"
            )
        index, _ = device_index(self._memory.shape, _unwrapped_index(index))
        with np.errstate(all="ignore"):
            self._memory[index] = value
        self._report()

    # Copies, views, casts

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if not copy and self.dtype == dtype:
            return self
        note_launch("astype")
        return StrictArray(cast(self._memory, dtype, order))

    def copy(self, order="C"):
        note_launch("copy")
        return StrictArray(self._memory.copy(order))

    def view(self, dtype=None):
        return self._view(self._memory.view() if dtype is None else self._memory.view(dtype))

    def reshape(self, *shape, order="C"):
        result = self._memory.reshape(*shape, order=order)
        if not np.may_share_memory(result, self._memory):
            note_launch("copy")
        return self._view(result)

    def ravel(self, order="C"):
        return self._view(self._memory.ravel(order))

    def flatten(self, order="C"):
        return StrictArray(self._memory.flatten(order))

    def squeeze(self, axis=None):
        return self._view(self._memory.squeeze(axis))

    def swapaxes(self, axis1, axis2):
        return self._view(self._memory.swapaxes(axis1, axis2))

    def transpose(self, *axes):
        return self._view(self._memory.transpose(*axes))

    def diagonal(self, offset=0, axis1=0, axis2=1):
        return self._view(self._memory.diagonal(offset, axis1, axis2))

    def fill(self, value):
        self[...] = value

    def sort(self, axis=-1):
        self._memory.sort(axis)
        self._report()

    def clip(self, min=None, max=None, out=None):
        return self._namespace.clip(self, min, max, out)

    # Write tracking

    def _view(self, memory):
        return StrictArray(memory, self._on_write)

    def _report(self):
        if self._on_write is not None:
            self._on_write()


def operand(value):
    """The NumPy value of an operand: a strict array's memory or a scalar.

    Raises:
        TypeError: for anything else, in particular host arrays.
    """
    if isinstance(value, StrictArray):
        return value._memory
    if isinstance(value, _SCALAR_TYPES):
        return value
    raise TypeError(
        f"unsupported type {type(value)}: a strict array works with strict arrays and scalars only "
        "(CuPy raises too); convert with asarray first"
    )


def _unwrapped_index(index):
    if isinstance(index, tuple):
        return tuple(_unwrapped_index(entry) for entry in index)
    return index._memory if isinstance(index, StrictArray) else index


def _as_array(result):
    return result if isinstance(result, np.ndarray) else np.asarray(result)


def _takes_over(other):
    """Whether the class of ``other`` implements mixed operations itself, as Tensor does."""
    return not isinstance(other, StrictArray) and getattr(other, "__array_ufunc__", other) is None


def _add_methods():
    def method_of(name):
        def method(self, *args, **keywords):
            return getattr(self._namespace, name)(self, *args, **keywords)

        method.__name__ = name
        return method

    names = (
        "all any argmax argmin argsort cumprod cumsum dot max mean min nonzero prod repeat round std "
        "sum take trace var"
    )
    for name in names.split():
        setattr(StrictArray, name, method_of(name))


def _add_conversions():
    """The methods that return Python values, those of the NumPy array in host memory."""

    def method_of(name):
        def method(self, *args):
            if name != "__len__":
                note_launch("read")
            return getattr(self._memory, name)(*args)

        method.__name__ = name
        return method

    names = (
        "item tolist tobytes __int__ __float__ __complex__ __bool__ __repr__ __str__ __format__ "
        "__len__"
    )
    for name in names.split():
        setattr(StrictArray, name, method_of(name))


def _add_operators():
    def compute(ufunc, *operands, out=None):
        note_launch(ufunc.__name__)
        with np.errstate(all="ignore"):
            return ufunc(*operands, out=out)

    def binary_operator(ufunc, is_reflected=False):
        def method(self, other):
            if _takes_over(other):
                return NotImplemented
            operands = (self._memory, operand(other))
            return StrictArray(_as_array(compute(ufunc, *operands[:: -1 if is_reflected else 1])))

        return method

    def in_place(ufunc):
        def method(self, other):
            if _takes_over(other):
                return NotImplemented
            compute(ufunc, self._memory, operand(other), out=self._memory)
            self._report()
            return self

        return method

    def unary(ufunc):
        return lambda self: StrictArray(_as_array(compute(ufunc, self._memory)))

    binary = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "truediv": np.true_divide,
        "floordiv": np.floor_divide,
        "mod": np.remainder,
        "pow": np.power,
        "matmul": np.matmul,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "lshift": np.left_shift,
        "rshift": np.right_shift,
    }
    for name, ufunc in binary.items():
        setattr(StrictArray, f"__{name}__", binary_operator(ufunc))
        setattr(StrictArray, f"__r{name}__", binary_operator(ufunc, is_reflected=True))
        if name != "matmul":  # CuPy has no in-place matrix product
            setattr(StrictArray, f"__i{name}__", in_place(ufunc))
    comparisons = {
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
    }
    for name, ufunc in comparisons.items():
        setattr(StrictArray, f"__{name}__", binary_operator(ufunc))
    for name, ufunc in {
        "neg": np.negative,
        "pos": np.positive,
        "abs": np.absolute,
        "invert": np.invert,
    }.items():
        setattr(StrictArray, f"__{name}__", unary(ufunc))


_add_methods()
_add_conversions()
_add_operators()
