"""Flat storage: parameters side by side in one buffer, so that an update is a few operations on long arrays.

A model has some fifty parameters, many of them short. Updating each by itself costs more in calls than in arithmetic.
Here the parameters of a group become views of one buffer, and their gradients are gathered in another of the same
layout; so is the state of the optimiser. An update rule then sees plain one-dimensional arrays.
"""

import copy
import math

import numpy as np

from ..backend import backend_of

_ALIGNMENT = 64  # bytes: the first element of each parameter starts a cache line


class FlatStorage:
    """One buffer for ``parameters``, which must share device and dtype, and one for their gradients.

    Attributes:
        values: all parameters, one-dimensional; each parameter is a view of its slice.
        gradients: laid out alike; float32 at least, so that float16 parameters are updated in float32.
        slices: where each parameter lies.
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
        """Storage of its own for the copied parameters: copied views would not alias the new buffer."""
        return FlatStorage(copy.deepcopy(self.parameters, memo))

    def zeros(self):
        """Zeros of this layout, for the state of an optimiser."""
        return self.backend.zeros((self.size,), self.state_dtype)

    def unflatten(self, flat):
        """Views of ``flat``, one for each parameter, of its shape."""
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

    def adopt(self):
        """Make every parameter a view of the buffer again, with the content it has now."""
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
                    f"{data.shape} ({data.dtype}, {parameter.device}): make the optimiser after moving the model"
                )
            view[...] = data
            parameter._data = view

    def gather_gradients(self):
        """Copy the gradients into the buffer; returns for each parameter whether it has one."""
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

    def runs(self, labels):
        """Slices of the buffer, as long as possible, over neighbours that have one label, as (label, slice).

        Parameters whose label is None are left out.

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

    def mark_changed(self, changed):
        """Bump the versions of the parameters that were written to, so that live graphs notice; a boolean for each."""
        for parameter, was_changed in zip(self.parameters, changed):
            if was_changed:
                parameter.bump_version()


def cache_blocks(piece, backend, elements=1 << 17, shares=8):
    """Slices that cut ``piece`` into equal blocks that stay in the processor's cache; one block on a GPU.

    More than one are a multiple of ``shares``, so that workers share them evenly.

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
