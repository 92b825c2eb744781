"""Temporarily replace the vector-Jacobian products of primitives."""

import contextlib

from .layers import _LAYERS
from .primitive import _KERNELS, PRIMITIVES


@contextlib.contextmanager
def replaced_vjps(products):
    """Replace vector-Jacobian products of some primitives, and disable their kernels, inside a ``with`` block.

    Kernels of whole layers are disabled too, because they compute several primitives.

    The registry is modified, so that the block affects all threads and processes forked inside it. A graph must be
    recorded and traversed both inside or both outside the block.

    Args:
        products: name of a primitive -> {position of the input: function}, with the signature of ``Primitive.vjp``.
            Other inputs keep their product; an empty dict only disables the kernels.

    Raises:
        KeyError: for an unknown primitive.

    >>> import tinyattn as ta
    >>> x = ta.tensor(2.0, requires_grad=True)
    >>> with replaced_vjps({"square": {0: lambda g, _out, x: g * 100 * x}}):
    ...     ta.square(x).backward()
    >>> x.grad.item()
    200.0
    """
    own = {name: dict(PRIMITIVES[name].vjps) for name in products}
    kernels = {key: kernel for key, kernel in _KERNELS.items() if key[0] in products}
    layers = dict(_LAYERS)
    try:
        _LAYERS.clear()
        for key in kernels:
            del _KERNELS[key]
        for name, functions in products.items():
            for position, function in functions.items():
                PRIMITIVES[name]._register_vjp(position, function)
        yield
    finally:
        _KERNELS.update(kernels)
        _LAYERS.update(layers)
        for name, functions in own.items():
            PRIMITIVES[name].vjps = functions
            PRIMITIVES[name]._saved_positions.clear()
