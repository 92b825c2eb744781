"""Tensor: an array that records the operations it is computed with."""

import sys
import weakref

import numpy as np

from ..backend import backend_of, is_array
from .inputs import fresh_array, plain_input, raw
from .numpy_protocol import ClassOnlyMethod, call_function, call_ufunc
from .pytorch_names import ElementCount


class Tensor:
    """An array on a device, with automatic differentiation.

    Args:
        data: a number, a nested sequence of numbers, an array, or a Tensor; it is copied.
        requires_grad: whether ``backward()`` computes ``.grad``; for floating-point tensors only.
        dtype: the element type. By default that of an array; Python floats become float32.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"strict"``; by default the device of a tensor or GPU array, for
            other data the default device.

    Raises:
        TypeError: for data that is not numeric, for a list of tensors that require a gradient (use ``stack``, which
            keeps the graph), and for an integer tensor that should require a gradient.
        ValueError: for an unknown device.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    Tensor([2., 4.])
    """

    __slots__ = ("_data", "_node", "_requires_grad", "_version", "_hooks", "grad", "__weakref__")

    is_tensor = True
    __array_ufunc__ = ClassOnlyMethod(call_ufunc)
    __array_function__ = call_function

    def __init__(self, data, requires_grad=False, dtype=None, device=None):
        self._data = fresh_array(data, dtype, device)
        self._node = None
        self._requires_grad = False
        self._version = [0]  # the version counter, shared by all tensors that share this memory
        self._hooks = None
        self.grad = None
        if requires_grad:
            self.requires_grad = True

    @classmethod
    def _wrap(cls, array):
        """Wrap ``array`` without copying, outside any graph."""
        self = Tensor.__new__(cls)
        self._data = array
        self._node = None
        self._requires_grad = False
        self._version = [0]
        self._hooks = None
        self.grad = None
        return self

    # ------------------------------------------------------------------------------------------------- the array

    @property
    def data(self):
        """The array itself, outside the graph; backward raises if a graph needs the content before a write.

        Assigning copies new content of the same shape, cast to the dtype of the tensor.

        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> y = (x * x).sum()
        >>> x.data[0] = 5.0
        >>> y.backward()
        Traceback (most recent call last):
        ...
        RuntimeError: input x of mul was changed after it was used...
        """
        return backend_of(self._data).tracked(self._data, self.bump_version)

    @data.setter
    def data(self, value):
        backend = backend_of(self._data)
        value = value._data if isinstance(value, Tensor) else value
        array = backend.asarray(value, dtype=self._data.dtype)
        if array.shape != self._data.shape:
            raise ValueError(
                f"cannot assign data of shape {array.shape} to a tensor of shape {self.shape}: "
                "the shapes must be equal, nothing is broadcast"
            )
        # A copy, so that later writes to the caller's array do not affect this tensor.
        self._data = backend.untracked(array).copy()
        self.bump_version()

    def bump_version(self):
        """Increment the version counter after a write to this tensor's memory, so that live graphs detect it."""
        self._version[0] += 1

    @property
    def shape(self):
        """The length of each axis, a tuple."""
        return self._data.shape

    @property
    def ndim(self):
        """The number of axes."""
        return self._data.ndim

    @property
    def size(self):
        """The number of elements."""
        return ElementCount(self._data.size)

    @property
    def dtype(self):
        """The element type, a NumPy dtype."""
        return self._data.dtype

    @property
    def device(self):
        """The device's name, such as ``"cpu"``."""
        return backend_of(self._data).device

    @property
    def is_leaf(self):
        """Whether the tensor is not the result of a recorded operation."""
        return self._node is None

    @property
    def requires_grad(self):
        """Whether the gradient with respect to this tensor is computed; can be set on leaves."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        if value and self._data.dtype.kind not in "fc":
            raise TypeError(
                f"a tensor of dtype {self._data.dtype} cannot require a gradient: "
                "gradients are real numbers, make it float32 or float64 first"
            )
        if self._node is not None and not value:
            raise RuntimeError(
                "requires_grad can only be changed on a leaf tensor: use .detach() for a copy outside the graph"
            )
        self._requires_grad = bool(value)

    def numpy(self):
        """A copy as a NumPy array on the host, from any device."""
        return np.array(backend_of(self._data).to_host(self._data))

    def item(self):
        """The only element, as a Python number.

        >>> Tensor([2.5]).item()
        2.5
        """
        if self._data.size != 1:
            raise ValueError(f"item() needs a tensor with one element, got shape {self.shape}")
        return self.numpy().item()

    def tolist(self):
        """The elements as nested Python lists."""
        return self.numpy().tolist()

    def detach(self):
        """A tensor that shares this memory, outside the graph."""
        tensor = Tensor._wrap(self._data)
        tensor._version = self._version
        return tensor

    # --------------------------------------------------------------------------------------------- the backward pass

    def backward(self, grad=None, retain_graph=False, create_graph=False):
        """Backpropagate: accumulate the gradient of this tensor in the ``.grad`` of the leaves it depends on.

        Args:
            grad: the cotangent, of this tensor's shape; by default 1 for a scalar tensor.
            retain_graph: keep the graph for another backward.
            create_graph: record the backward pass, so that gradients can be differentiated again.

        Raises:
            RuntimeError: if nothing was recorded, the graph was freed by an earlier backward, or an array that it
                needs was modified in place.
            ValueError: if ``grad`` is missing or has another shape.
        """
        from .backward import accumulate_into_leaves

        accumulate_into_leaves(self, grad, retain_graph or create_graph, create_graph)

    def retain_grad(self):
        """Store the gradient of this intermediate result in ``.grad`` in the next backward."""
        if not self._requires_grad:
            raise RuntimeError("retain_grad() needs a tensor that requires a gradient")
        if self._node is not None:
            self._node.retained = weakref.ref(self)

    def register_hook(self, function):
        """Call ``function(gradient)`` during backward, with the complete gradient of this tensor.

        A return value other than None replaces the gradient. Returns a handle with ``remove()``.

        >>> x = Tensor(3.0, requires_grad=True)
        >>> handle = x.register_hook(lambda gradient: gradient * 10)
        >>> (x * x).backward()
        >>> x.grad.item()
        60.0
        """
        if not self._requires_grad:
            raise RuntimeError("register_hook() needs a tensor that requires a gradient")
        owner = self if self._node is None else self._node
        attribute = "_hooks" if owner is self else "hooks"
        hooks = getattr(owner, attribute)
        if hooks is None:
            hooks = {}
            setattr(owner, attribute, hooks)
        return HookHandle(hooks, function)

    # ------------------------------------------------------------------------------------------------ the protocols

    def __array_namespace__(self, *, api_version=None):
        return sys.modules["tinyattn"]

    def __array__(self, dtype=None, copy=None):
        if self.device != "cpu":
            raise TypeError(
                f"a tensor on {self.device} is not converted to a NumPy array implicitly: use .numpy()"
            )
        return np.array(self._data, dtype=dtype)

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a tensor without axes")
        return (self[position] for position in range(self.shape[0]))

    def __bool__(self):
        if self.size != 1:
            raise ValueError(
                f"the truth value of a tensor of shape {self.shape} is ambiguous: use (x > 0).all() or .any()"
            )
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self._data.dtype.kind not in "iu":
            raise TypeError(f"a tensor of dtype {self.dtype} cannot be an index")
        return int(self.item())

    def __format__(self, specification):
        if specification and self.size == 1:
            return format(self.item(), specification)
        return format(str(self), specification)

    def __repr__(self):
        name = type(self).__name__
        text = np.array2string(self.numpy(), separator=", ", prefix=f"{name}(")
        dtype = "" if self.dtype == np.float32 else f", dtype={self.dtype}"
        device = "" if self.device == "cpu" else f', device="{self.device}"'
        return f"{name}({text}{dtype}{device}{self._origin()})"

    def _origin(self):
        if self._node is not None:
            return f", made_by={self._node.primitive.name}"
        return ", requires_grad=True" if self._requires_grad else ""

    def _repr_html_(self):
        from .html import tensor_html

        return tensor_html(self)

    def __reduce_ex__(self, protocol):
        self._require_leaf("copied or pickled")
        return super().__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        self._require_leaf("deep-copied")
        copied = type(self)._wrap(self._data.copy())
        memo[id(self)] = copied
        copied._requires_grad = self._requires_grad
        if self.grad is not None:
            copied.grad = Tensor._wrap(self.grad._data.copy())
        return copied

    def _require_leaf(self, what):
        if self._node is not None:
            raise RuntimeError(
                f"only leaf tensors can be {what}, this one was made by {self._node.primitive.name}: "
                "use .detach() first"
            )

    def _operand(self, other):
        """The array of the other operand, which must be on this device."""
        array = plain_input(raw(other))
        if is_array(array) and backend_of(array) is not backend_of(self._data):
            raise TypeError(
                f"a tensor on {self.device} is not compared with one on {backend_of(array).device}: "
                "nothing is moved silently, move one with .to(device)"
            )
        return array

    # Comparisons and logical operators return plain arrays on the same device, because they have no gradient.

    def __eq__(self, other):
        if other is None or isinstance(other, str):
            return NotImplemented
        result = self._data == self._operand(other)
        if isinstance(other, Tensor):
            result = backend_of(self._data).equality(result, self is other)
        return result

    def __ne__(self, other):
        if other is None or isinstance(other, str):
            return NotImplemented
        return self._data != self._operand(other)

    def __lt__(self, other):
        return self._data < self._operand(other)

    def __le__(self, other):
        return self._data <= self._operand(other)

    def __gt__(self, other):
        return self._data > self._operand(other)

    def __ge__(self, other):
        return self._data >= self._operand(other)

    def __invert__(self):
        return ~self._data

    def __and__(self, other):
        return self._data & self._operand(other)

    def __or__(self, other):
        return self._data | self._operand(other)

    def __xor__(self, other):
        return self._data ^ self._operand(other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    __hash__ = object.__hash__  # identity: two parameters with equal values are two parameters


class HookHandle:
    """The handle of a hook in ``hooks``, with which it can be removed; the hook stays without the handle too."""

    def __init__(self, hooks, function):
        self._hooks = hooks
        self._key = object()
        hooks[self._key] = function

    def remove(self):
        """Remove the hook; calling it again has no effect."""
        self._hooks.pop(self._key, None)


def tensor(data, requires_grad=False, dtype=None, device=None):
    """A Tensor with a copy of ``data``: see ``Tensor``.

    >>> tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    return Tensor(data, requires_grad=requires_grad, dtype=dtype, device=device)
