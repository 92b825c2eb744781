"""Flat storage: all parameters of a group in one buffer, so that an update is a few operations on long arrays.

A model has dozens of parameters, many of them short. Updating each one separately costs more call overhead than
arithmetic. The parameters of a group therefore become views of one buffer; their gradients and the optimizer state
have buffers of the same layout. An update rule works on plain one-dimensional arrays.
"""

import copy
import math

import numpy as np

from ..backend import array_namespace, backend_of

_ALIGNMENT = 64  # bytes: each parameter is aligned to a cache line


class FlatStorage:
    """One buffer for ``parameters``, which must have the same device and dtype, and one for their gradients.

    Attributes:
        values: the one-dimensional buffer of all parameters; each parameter is a view of its slice.
        gradients: a buffer of the same layout, at least float32, so that float16 parameters are updated in float32.
        slices: the slice of each parameter.
    """

    def __init__(self, parameters):
        self.parameters = list(parameters)
        first = self.parameters[0]._data
        self.backend = backend_of(first)
        self.dtype = first.dtype
        self.state_dtype = np.promote_types(self.dtype, np.float32)
        self.slices = []
        step = max(1, _ALIGNMENT // self.dtype.itemsize)
        end = 0
        for parameter in self.parameters:
            self.slices.append(slice(end, end + parameter.size))
            end += -(-parameter.size // step) * step
        self.size = end
        self.allocate(self.backend.zeros)

    def __deepcopy__(self, memo):
        """New storage for the copied parameters: copied views would not alias the new buffer."""
        return FlatStorage(copy.deepcopy(self.parameters, memo))

    def zeros(self):
        """A buffer of zeros of this layout, for optimizer state."""
        return self.backend.zeros((self.size,), self.state_dtype)

    def unflatten(self, flat):
        """Views of ``flat`` of the shapes of the parameters."""
        return [
            flat[piece].reshape(parameter.shape)
            for piece, parameter in zip(self.slices, self.parameters)
        ]

    def allocate(self, zeros):
        """Move parameters and gradients to new buffers, allocated by ``zeros(shape, dtype)``."""
        self.values = zeros((self.size,), self.dtype)
        self.views = self.unflatten(self.values)
        self.adopt()
        self.gradients = zeros((self.size,), self.state_dtype)
        self.gradient_views = self.unflatten(self.gradients)
        self._padding = zeros((_ALIGNMENT,), self.dtype)

    def adopt(self):
        """Copy parameters whose array was replaced into the buffer, and make them views of it again."""
        for parameter, view in zip(self.parameters, self.views):
            data = parameter._data
            if data is view:
                continue
            if (
                data.shape != view.shape
                or data.dtype != view.dtype
                or backend_of(data) is not self.backend
            ):
                raise RuntimeError(
                    f"a parameter of shape {view.shape} ({self.dtype}, {self.backend.device}) now has shape "
                    f"{data.shape} ({data.dtype}, {parameter.device}): create the optimizer after moving the model"
                )
            view[...] = data
            parameter._data = view

    def gather_gradients(self):
        """Copy the gradients into the buffer; returns a list of whether each parameter has a gradient."""
        self.adopt()
        present = []
        for parameter, view in zip(self.parameters, self.gradient_views):
            gradient = parameter.grad
            present.append(gradient is not None)
            if gradient is not None and gradient._data is not view:
                if gradient.shape != view.shape:
                    raise ValueError(
                        f"a parameter of shape {view.shape} has a gradient of shape {gradient.shape}"
                    )
                view[...] = gradient._data
        return present

    def copy_gradients(self, gradients):
        """Copy the gradients of all parameters into the buffer by one concatenation, instead of one copy for each.

        Args:
            gradients: ``{parameter: array}``, with all parameters in it.
        """
        xp = array_namespace(self.gradients)
        pieces = []
        ends = [piece.start for piece in self.slices[1:]] + [self.size]
        for parameter, piece, end in zip(self.parameters, self.slices, ends):
            pieces.append(gradients[parameter].reshape(-1))
            if end > piece.stop:
                pieces.append(self._padding[: end - piece.stop])
        xp.concatenate(pieces, out=self.gradients)

    def runs(self, labels):
        """Maximal slices of the buffer over neighboring parameters of the same label, as (label, slice).

        Parameters with the label None are skipped.

        >>> from tinyattn import tensor
        >>> storage = FlatStorage([tensor([1.0] * 16), tensor([2.0] * 16), tensor([3.0] * 16)])
        >>> storage.runs([1, 1, 2])
        [(1, slice(0, 32, None)), (2, slice(32, 48, None))]
        >>> storage.runs([1, None, 1])
        [(1, slice(0, 16, None)), (1, slice(32, 48, None))]
        """
        found = []
        previous = None
        for label, piece in zip(labels, self.slices):
            if label is not None:
                if found and label == previous:
                    found[-1] = (label, slice(found[-1][1].start, piece.stop))
                else:
                    found.append((label, piece))
            previous = label
        return found


def cache_blocks(piece, backend, elements=1 << 17, shares=8):
    """Split ``piece`` into slices of equal length that fit into the CPU cache; a single slice on a GPU.

    The number of slices, if more than one, is about a multiple of ``shares``, to balance the load of workers.

    >>> from tinyattn.backend import get_backend
    >>> cache_blocks(slice(0, 25), get_backend("cpu"), elements=10, shares=4)
    [slice(0, 7, None), slice(7, 14, None), slice(14, 21, None), slice(21, 25, None)]
    """
    size = piece.stop - piece.start
    count = math.ceil(size / elements)
    if backend.kind == "cuda" or count <= 1:
        return [piece]
    step = math.ceil(size / (math.ceil(count / shares) * shares))
    return [
        slice(start, min(start + step, piece.stop))
        for start in range(piece.start, piece.stop, step)
    ]
