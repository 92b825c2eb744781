"""Subclasses of NumPy arrays for users: write tracking and tensor equality."""

import numpy as np


class TrackedArray(np.ndarray):
    """A view of a tensor's memory that reports writes.

    ``tensor.data`` returns it, so that backward detects writes to memory that a live graph needs, instead of computing
    a wrong gradient. Its views report writes too; the results of arithmetic are plain arrays.
    """

    _on_write = None

    def __array_finalize__(self, parent):
        self._on_write = getattr(parent, "_on_write", None)

    def _report(self):
        if self._on_write is not None:
            self._on_write()

    def __setitem__(self, index, value):
        super().__setitem__(index, value)
        self._report()

    def fill(self, value):
        super().fill(value)
        self._report()

    def sort(self, *args, **kwargs):
        super().sort(*args, **kwargs)
        self._report()

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **kwargs):
        plain_inputs = [_plain(value) for value in inputs]
        if out:
            kwargs["out"] = tuple(_plain(value) for value in out)
        result = getattr(ufunc, method)(*plain_inputs, **kwargs)
        written = inputs[:1] if method == "at" else out
        for value in written:
            if isinstance(value, TrackedArray):
                value._report()
        return out[0] if len(out) == 1 else result

    def __repr__(self):
        return repr(_plain(self))


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, TrackedArray) else value


class Equality(np.ndarray):
    """The elementwise equality of two tensors, whose truth value is their identity.

    ``a in [b]`` evaluates ``bool(a == b)``, which for plain arrays is an error unless they have one element. Here it is
    whether both are the same tensor, so that tensors can be found in lists. A single element keeps its own truth value.
    """

    same = None  # unknown for a view of a comparison: the truth value of several elements is an error again

    def __bool__(self):
        if self.size != 1 and self.same is not None:
            return self.same
        return bool(self.view(np.ndarray))
