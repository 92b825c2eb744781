"""The backend interface, and the lookup of the backend and the namespace of an array."""

import numpy as np

from .host import reject_masked


class Backend:
    """A device: its array module, and the operations that differ between array modules.

    Attributes:
        device: the name of the device, such as ``"cpu"`` or ``"cuda:1"``.
        kind: the name under which kernels are registered: ``"cpu"``, ``"cuda"`` or ``"strict"``.
        xp: the array namespace (NumPy, CuPy, or the strict namespace).
        array_type: the class of this backend's arrays.
        before_reading: called with the backend before ``to_host`` on a device, where work may have failed unnoticed.
    """

    device: str
    kind: str
    xp: object
    array_type: type
    before_reading = None

    def asarray(self, data, dtype=None):
        """Convert a host array, a sequence, or an array of this backend to an array of this backend."""
        raise NotImplementedError

    def to_host(self, array):
        """Convert an array to a NumPy array, which may share its memory."""
        raise NotImplementedError

    def empty(self, shape, dtype):
        """An uninitialized array."""
        return self.xp.empty(shape, dtype=dtype)

    def zeros(self, shape, dtype):
        """An array of zeros."""
        return self.xp.zeros(shape, dtype=dtype)

    def tracked(self, array, on_write):
        """A view of ``array`` that calls ``on_write()`` after every write through it."""
        raise NotImplementedError

    def untracked(self, array):
        """A plain array of this backend, without write tracking, for operations."""
        return array

    def equality(self, array, same):
        """Wrap the elementwise equality of two tensors; ``same``: whether they are the same object."""
        return array

    def scatter_add(self, target, index, values):
        """Add ``values`` to ``target[index]`` in place; repeated indices accumulate."""
        raise NotImplementedError

    def check_indices(self, ids, size, name="index"):
        """Raise IndexError if an integer of ``ids`` is not in ``-size .. size - 1``.

        NumPy raises itself, but CuPy wraps around silently; this check makes all devices behave alike.
        """
        if ids.size == 0:
            return
        lowest, highest = int(ids.min()), int(ids.max())
        if lowest < -size or highest >= size:
            wrong = lowest if lowest < -size else highest
            raise IndexError(
                f"{name} {wrong} is out of range for an axis of size {size}: "
                f"expected {-size} <= {name} < {size}"
            )

    def precisions(self):
        """In which of ``"tf32"`` and ``"float16"`` the device can train besides float32."""
        return ()

    def synchronize(self):
        """Wait until the device has finished all work; no effect on a CPU."""

    def __repr__(self):
        return f"<Backend {self.device}>"


_BACKENDS_BY_ARRAY_TYPE = {}


def register_array_type(array_type, find):
    """Register ``find(array)``, which returns the backend of an array of ``array_type``, for ``backend_of``."""
    _BACKENDS_BY_ARRAY_TYPE[array_type] = find


def backend_of(array):
    """The backend of ``array``.

    Raises:
        TypeError: if ``array`` is not an array of a registered backend, or is a masked array.

    >>> import numpy as np
    >>> backend_of(np.zeros(3))
    <Backend cpu>
    """
    find = _BACKENDS_BY_ARRAY_TYPE.get(type(array))
    if find is not None:
        return find(array)
    for array_type, find in _BACKENDS_BY_ARRAY_TYPE.items():
        if isinstance(array, array_type):
            reject_masked(array)
            return find(array)
    raise TypeError(
        f"expected an array of a known backend, got {type(array).__name__}: "
        "convert it with tinyattn.tensor(...)"
    )


def is_array(value):
    """Whether ``value`` is an array of a registered backend (not a Tensor, not a scalar).

    Raises:
        TypeError: for a masked array, so that no mask in user input is ignored.

    >>> import numpy as np
    >>> is_array(np.zeros(3)), is_array(3.0), is_array([1, 2])
    (True, False, False)
    """
    if type(value) in _BACKENDS_BY_ARRAY_TYPE:
        return True
    if not isinstance(value, tuple(_BACKENDS_BY_ARRAY_TYPE)):
        return False
    reject_masked(value)
    return True


def array_namespace(*values):
    """The array namespace of ``values``: NumPy, CuPy, the strict namespace, or tinyattn itself.

    A rule is written once against this namespace. If any value is a Tensor, the namespace is tinyattn, so that the
    operations of the rule are recorded. Python scalars and None are ignored.

    Source: the array API standard, ``__array_namespace__``.

    >>> import numpy as np
    >>> array_namespace(np.ones(2)) is np
    True
    """
    namespace = np
    found = False
    for value in values:
        if getattr(value, "is_tensor", False):
            return value.__array_namespace__()
        if not found and not isinstance(value, np.generic) and is_array(value):
            # Ask the backend: CuPy's arrays do not implement __array_namespace__.
            namespace = backend_of(value).xp
            found = True
    return namespace
