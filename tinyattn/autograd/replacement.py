"""Other vector-Jacobian products in place of a primitive's own, for a while."""

import contextlib

from .primitive import _KERNELS, PRIMITIVES


@contextlib.contextmanager
def replaced_vjps(products):
    """Inside the block, run other vector-Jacobian products for some primitives, and none of their kernels.

    The registry itself is changed, so that the block holds in all threads and in processes forked inside it. Graphs
    recorded before the block must not be walked inside it, or the other way round.

    Args:
        products: name of the primitive -> {position of the input: function}, with the signature that ``Primitive.vjp``
            takes. Inputs that are left out keep their own; an empty dict switches off the kernels only.

    Raises:
        KeyError: for a name that no primitive has.

    >>> import tinyattn as ta
    >>> x = ta.tensor(2.0, requires_grad=True)
    >>> with replaced_vjps({"square": {0: lambda g, _out, x: g * 100 * x}}):
    ...     ta.square(x).backward()
    >>> x.grad.item()
    200.0
    """
    own = {name: dict(PRIMITIVES[name].vjps) for name in products}
    kernels = {key: kernel for key, kernel in _KERNELS.items() if key[0] in products}
    try:
        for key in kernels:
            del _KERNELS[key]
        for name, functions in products.items():
            for position, function in functions.items():
                PRIMITIVES[name]._register_vjp(position, function)
        yield
    finally:
        _KERNELS.update(kernels)
        for name, functions in own.items():
            PRIMITIVES[name].vjps = functions
            PRIMITIVES[name]._saved_positions.clear()
