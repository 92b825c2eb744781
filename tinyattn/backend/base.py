"""What every backend offers, and how an array finds its own."""

import numpy as np

from .host import refuse_masked


class Backend:
    """One kind of array memory: the array module and the few operations that differ between modules.

    Attributes:
        device: the name a user writes, such as ``"cpu"`` or ``"cuda:1"``.
        kind: the name that kernels are registered under: ``"cpu"``, ``"cuda"`` or ``"strict"``.
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
        """This backend's array with the content of ``data``: a host array, a sequence, or one of its own."""
        raise NotImplementedError

    def to_host(self, array):
        """A NumPy array with the content of ``array``; it may share memory with it."""
        raise NotImplementedError

    def empty(self, shape, dtype):
        """An array whose content is undefined."""
        return self.xp.empty(shape, dtype=dtype)

    def zeros(self, shape, dtype):
        """An array of zeros."""
        return self.xp.zeros(shape, dtype=dtype)

    def tracked(self, array, on_write):
        """A view of ``array`` that calls ``on_write()`` whenever it is written through."""
        raise NotImplementedError

    def untracked(self, array):
        """``array`` as a plain array of this backend: what ``tracked`` made takes part in operations as this."""
        return array

    def equality(self, array, same):
        """The elementwise equality of two tensors; ``same`` tells whether they are one object."""
        return array

    def scatter_add(self, target, index, values):
        """Add ``values`` into ``target[index]`` in place; an index that occurs twice receives both."""
        raise NotImplementedError

    def check_indices(self, ids, size, name="index"):
        """Raise IndexError if an integer of ``ids`` does not lie in ``-size .. size - 1``.

        NumPy would raise by itself, CuPy wraps silently; asking here gives the same answer on every device.
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

    def synchronize(self):
        """Wait until all work given to the device is done; on a CPU it always is."""

    def __repr__(self):
        return f"<Backend {self.device}>"


_BACKENDS_BY_ARRAY_TYPE = {}


def register_array_type(array_type, find):
    """Let ``backend_of`` answer for arrays of ``array_type``: ``find(array)`` gives the backend."""
    _BACKENDS_BY_ARRAY_TYPE[array_type] = find


def backend_of(array):
    """The backend that ``array`` lives on.

    Raises:
        TypeError: for anything that is not an array of a known backend, and for a masked array.

    >>> import numpy as np
    >>> backend_of(np.zeros(3))
    <Backend cpu>
    """
    find = _BACKENDS_BY_ARRAY_TYPE.get(type(array))
    if find is not None:
        return find(array)
    for array_type, find in _BACKENDS_BY_ARRAY_TYPE.items():
        if isinstance(array, array_type):
            refuse_masked(array)
            return find(array)
    raise TypeError(
        f"expected an array of a known backend, got {type(array).__name__}: "
        "make it one with tinyattn.tensor(...)"
    )


def is_array(value):
    """Whether ``value`` is an array of a known backend (not a Tensor, not a scalar).

    Raises:
        TypeError: for a masked array. What users hand over passes here, so that no mask is ignored.
    """
    if type(value) in _BACKENDS_BY_ARRAY_TYPE:
        return True
    if not isinstance(value, tuple(_BACKENDS_BY_ARRAY_TYPE)):
        return False
    refuse_masked(value)
    return True


def array_namespace(*values):
    """The module whose functions work on ``values``: NumPy, CuPy, the strict namespace, or tinyattn itself.

    A rule is written once against this namespace. If any value is a Tensor the answer is tinyattn, so that what
    the rule computes is recorded; Python scalars and None have no say.

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
            # Through the backend: CuPy's arrays do not answer __array_namespace__ themselves.
            namespace = backend_of(value).xp
            found = True
    return namespace
