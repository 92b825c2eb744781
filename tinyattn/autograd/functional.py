"""Functional gradients: ``grad`` and the Hessian-vector product."""

from ..backend import listed
from .backward import backward_pass
from .tensor import Tensor


def grad(
    outputs, inputs, grad_outputs=None, create_graph=False, allow_unused=False, retain_graph=None
):
    """Compute the gradients of ``outputs`` with respect to ``inputs``, without changing any ``.grad``.

    Args:
        outputs: a tensor or a sequence of tensors, whose gradients are summed.
        inputs: a tensor or a sequence of tensors: leaves or intermediate results.
        grad_outputs: the cotangent of each output, of the same shape; optional for scalar outputs.
        create_graph: record the backward pass, so that the results can be differentiated again.
        allow_unused: return None for an input that the outputs do not depend on, instead of raising.
        retain_graph: keep the graph for another backward; by default as ``create_graph``.

    Returns:
        A tuple of tensors, one per input, of its shape and dtype.

    Raises:
        RuntimeError: if an input is unused or does not require a gradient, or the graph was freed.
        ValueError: for cotangents of another number or shape.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> (first,) = grad((x**3).sum(), x, create_graph=True)
    >>> grad(first.sum(), x)
    (Tensor([ 6., 12.]),)
    """
    outputs = _as_list(outputs, "outputs")
    inputs = _as_list(inputs, "inputs")
    for position, value in enumerate(outputs):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"output {position} of grad() is a {type(value).__name__}: expected a Tensor"
            )
    cotangents = (
        [None] * len(outputs) if grad_outputs is None else _as_list(grad_outputs, "grad_outputs")
    )
    if len(cotangents) != len(outputs):
        raise ValueError(
            f"got {len(cotangents)} grad_outputs for {len(outputs)} outputs: expected one for each"
        )
    for position, value in enumerate(inputs):
        if not isinstance(value, Tensor) or not value._requires_grad:
            raise RuntimeError(f"input {position} of grad() does not require a gradient")
    retain_graph = create_graph if retain_graph is None else retain_graph
    found = backward_pass(outputs, cotangents, retain_graph, create_graph, targets=inputs)
    gradients = []
    for position, value in enumerate(inputs):
        if value not in found and not allow_unused:
            raise RuntimeError(
                f"the outputs do not depend on input {position} (shape {value.shape}): "
                "pass allow_unused=True to get None for it"
            )
        gradient, _ = found.get(value, (None, False))
        if gradient is not None and not create_graph:
            gradient = Tensor._wrap(gradient.copy())
        gradients.append(gradient)
    return tuple(gradients)


def hvp(f, inputs, v):
    """The Hessian-vector product of ``f`` at ``inputs`` with ``v``, as the gradient of <gradient of f, v>.

    Args:
        f: a function of the inputs that returns a scalar tensor.
        inputs: a tensor or a sequence of tensors.
        v: a tensor or a sequence of tensors, of the shapes of the inputs.

    Returns:
        A tensor, or a tuple of tensors if ``inputs`` is a sequence.

    Source: B. A. Pearlmutter, "Fast Exact Multiplication by the Hessian" (1994).

    >>> x = Tensor([1.0, 2.0])
    >>> hvp(lambda x: (x**3).sum(), x, Tensor([1.0, 0.0]))
    Tensor([6., 0.])
    """
    leaves = [_fresh_leaf(value) for value in _as_list(inputs, "inputs")]
    directions = [_as_tensor(direction) for direction in _as_list(v, "v")]
    if [leaf.shape for leaf in leaves] != [direction.shape for direction in directions]:
        raise ValueError(
            f"v has the shapes {[direction.shape for direction in directions]}, "
            f"expected those of the inputs, {[leaf.shape for leaf in leaves]}"
        )
    first = grad(f(*leaves), leaves, create_graph=True, allow_unused=True)
    pairs = [
        (gradient, direction)
        for gradient, direction in zip(first, directions, strict=True)
        if gradient is not None and gradient.requires_grad
    ]
    second = [None] * len(leaves)
    if pairs:
        gradients, cotangents = zip(*pairs)
        second = grad(gradients, leaves, cotangents, allow_unused=True)
    products = tuple(
        leaf.detach() * 0 if product is None else product
        for leaf, product in zip(leaves, second, strict=True)
    )
    return products if isinstance(inputs, (list, tuple)) else products[0]


def _fresh_leaf(value):
    leaf = _as_tensor(value).detach()
    leaf.requires_grad = True
    return leaf


def _as_tensor(value):
    return value if isinstance(value, Tensor) else Tensor(value)


def _as_list(value, name):
    return listed(value, name) if isinstance(value, (list, tuple, set, frozenset)) else [value]
