"""The backward pass: the traversal of the graph, from outputs to leaves, which visits each operation once.

The loop takes operations from a priority queue in reverse recording order, which is a reverse topological order: when
an operation is taken, all contributions to its cotangent have arrived. There is no recursion, so that a chain of
100,000 operations is no problem.

Ownership. The cotangent that an operation returns may be the array it was given (addition returns it twice), so it is
*borrowed* and never written to. The sum with a second contribution is a new array, which the backward pass *owns*,
and to which further contributions are added in place. Kernels return new arrays by contract, which are owned
immediately.
"""

import heapq

import numpy as np

from ..backend import array_namespace, backend_of, is_array
from . import anomaly
from .modes import current_mode, set_grad_enabled
from .node import Outline
from .tensor import Tensor


def accumulate_into_leaves(output, cotangent, retain_graph, create_graph):
    """``Tensor.backward``: accumulate gradients in the ``.grad`` of the leaves, if all of backward has succeeded."""
    gradients = backward_pass([output], [cotangent], retain_graph, create_graph)
    for leaf in gradients:
        if leaf.grad is not None and not isinstance(leaf.grad, Tensor):
            raise TypeError(
                f"the .grad of a tensor of shape {leaf.shape} was set to a {type(leaf.grad).__name__}: "
                "expected a Tensor or None"
            )
    with np.errstate(all="ignore"):
        for leaf, (gradient, owned) in gradients.items():
            if create_graph:
                leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient
            elif leaf.grad is None:
                leaf.grad = Tensor._wrap(gradient if owned else gradient.copy())
            elif leaf.grad._requires_grad:
                leaf.grad = Tensor._wrap(leaf.grad._data + gradient)
            else:
                leaf.grad._data += gradient
                leaf.grad.bump_version()


def gradient_map(output, cotangent=None):
    """The gradients of all leaves that ``output`` depends on, ``{leaf: array}``, without changing any ``.grad``.

    The graph is freed. The arrays do not share memory.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, 2.0], requires_grad=True)
    >>> gradient_map((x * x).sum())[x]
    array([2., 4.], dtype=float32)
    """
    gradients = backward_pass([output], [cotangent], False, False)
    return {leaf: array if owned else array.copy() for leaf, (array, owned) in gradients.items()}


def backward_pass(outputs, cotangents, retain_graph, create_graph, targets=None):
    """The gradients of the leaves, or of ``targets``, as ``{tensor: (gradient, whether it is owned)}``.

    Gradients are arrays, or recorded tensors with ``create_graph``. With ``targets``, only operations on a path to a
    target are run.
    """
    pending = {}  # Node or leaf Tensor -> (cotangent, owned)
    queue = []
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if not output._requires_grad:
            raise RuntimeError(
                "this tensor does not depend on any tensor that requires a gradient: "
                "set requires_grad=True on a leaf, and compute outside no_grad()"
            )
        cotangent = _seed(output, cotangent, create_graph)
        _deliver(pending, queue, output._node or output, cotangent, False, create_graph)

    captured_nodes, wanted = {}, None
    if targets is not None:
        captured_nodes = {target._node: target for target in targets if target._node is not None}
        wanted = _nodes_reaching(targets, [output._node for output in outputs])

    captured = {}
    with set_grad_enabled(create_graph), np.errstate(all="ignore"):
        while queue:
            _, node = heapq.heappop(queue)
            cotangent, owned = pending.pop(node)
            if node.hooks or node.retained:
                cotangent, owned = _run_hooks(node.hooks, cotangent, owned)
                _retain(node, cotangent, create_graph)
            if node in captured_nodes:
                captured[captured_nodes[node]] = (cotangent, False)
                if not _has_wanted_input(node, wanted):
                    continue  # the operation that computed this target is neither run nor freed
            _step_back(node, cotangent, pending, queue, retain_graph, create_graph, wanted)

        for leaf, (cotangent, owned) in pending.items():
            if wanted is None or leaf in wanted:
                captured[leaf] = _run_hooks(leaf._hooks, cotangent, owned)
    return captured


def _seed(output, cotangent, create_graph):
    """Check the cotangent of an output; returns an array, or a tensor with ``create_graph``."""
    data = output._data
    if cotangent is None:
        if data.size != 1:
            raise ValueError(
                f"the gradient of a tensor of shape {data.shape} needs a cotangent of that shape: pass grad=... to "
                "backward(), or grad_outputs=... to grad(); only for a single number it is 1 by default"
            )
        cotangent = Tensor._wrap(backend_of(data).xp.ones(data.shape, dtype=data.dtype))
    elif not isinstance(cotangent, Tensor):
        cotangent = Tensor(cotangent, dtype=data.dtype, device=output.device)
    if cotangent.shape != data.shape:
        raise ValueError(
            f"the cotangent has shape {cotangent.shape}, expected that of the output, {data.shape}"
        )
    return _like(cotangent, output, "the cotangent", create_graph)


def _like(given, tensor, what, create_graph):
    """Cast a cotangent from the user to the dtype of ``tensor``; an array, or a tensor with ``create_graph``."""
    if backend_of(given._data) is not backend_of(tensor._data):
        raise TypeError(
            f"{what} is on {given.device}, expected that of the tensor, {tensor.device}: nothing is moved silently"
        )
    if given.dtype != tensor.dtype:
        given = given.astype(tensor.dtype)
    return given if create_graph else given._data


def _nodes_reaching(targets, roots):
    """The targets, and the operations from which one of them can be reached."""
    reached, stack = set(), [node for node in roots if node is not None]
    while stack:
        node = stack.pop()
        if node not in reached:
            reached.add(node)
            stack.extend(
                parent
                for parent in node.parents or ()
                if parent is not None and not isinstance(parent, Tensor)
            )
    wanted = {target._node or target for target in targets}
    for node in sorted(reached, key=lambda node: node.order):
        if _has_wanted_input(node, wanted):
            wanted.add(node)
    return wanted


def _has_wanted_input(node, wanted):
    """Whether an input of the operation is wanted; those of a freed one are unknown."""
    return any(parent in wanted for parent in node.parents or () if parent is not None)


def _step_back(node, g, pending, queue, retain_graph, create_graph, wanted):
    """Propagate the cotangent ``g`` of an operation to its inputs, and free its saved arrays."""
    if node.parents is None:
        raise RuntimeError(
            f"the graph was already freed (at {node.primitive.name}, shape {node.shape}) by an earlier backward: "
            "pass retain_graph=True to the first one, or compute the forward pass again"
        )
    for version, saved, position in node.versions:
        if version[0] != saved:
            raise _changed_after_use(node, position)
    cotangents = None
    if node.backward is not None and not create_graph:
        cotangents = node.backward(g, node.residuals)
        if not isinstance(cotangents, tuple):
            cotangents = (cotangents,)
    if create_graph:
        inputs, out = _saved_tensors(node)
    else:
        inputs, out = node.inputs and list(node.inputs), node.out
    watched = current_mode.get().anomaly
    accumulate = None if create_graph or watched else node.primitive.accumulate
    for position, parent in enumerate(node.parents):
        if parent is None or (wanted is not None and parent not in wanted):
            continue
        if accumulate is not None and pending.get(parent, (None, False))[1]:
            accumulate(pending[parent][0], g, **node.parameters)
            continue
        like = parent._data if isinstance(parent, Tensor) else parent
        cotangent = None if cotangents is None else cotangents[position]
        fresh = cotangent is not None and cotangent is not g
        if cotangent is None:  # no kernel, or an input left to the rule
            node.primitive.require_vjp(position)
            if inputs is None:
                names = node.primitive.input_names
                name = names[position] if names else f"input {position}"
                raise RuntimeError(
                    f"the kernel of {node.primitive.name} left {name} to the rule, for which first_order() saved "
                    f'nothing: register the kernel with left_to_rule=("{name}",)'
                )
            if inputs[position] is None:
                inputs[position] = Outline(like)
            cotangent = node.primitive.cotangent(position, g, out, inputs, node.parameters)
            fresh = accumulate is not None
        if type(cotangent) is not type(g):
            cotangent = _as_cotangent(cotangent, g)
        if cotangent.shape != like.shape:
            cotangent = unbroadcast(cotangent, like.shape, node.primitive.name)
        if cotangent.dtype != like.dtype:
            cotangent = cotangent.astype(like.dtype)
        if watched:
            anomaly.check_backward(node.primitive.name, cotangent, g, node.line)
        _deliver(pending, queue, parent, cotangent, fresh, create_graph)
    if not retain_graph:
        node.parents = node.inputs = node.out = node.residuals = node.backward = None
        node.versions = ()


def _as_cotangent(value, g):
    """Convert the result of a rule to the type of ``g``; NumPy's reductions, for example, return scalars."""
    if isinstance(g, Tensor):
        return value if isinstance(value, Tensor) else Tensor._wrap(value)
    return value if is_array(value) else backend_of(g).asarray(value)


def _saved_tensors(node):
    """The saved inputs and output of a node as tensors of the graph, for a recorded backward."""
    if node.inputs is None:
        raise RuntimeError(
            f"{node.primitive.name} (shape {node.shape}) was recorded inside first_order(), which saves nothing for "
            "create_graph=True: run the forward pass outside of it"
        )
    inputs = []
    for array, parent in zip(node.inputs, node.parents, strict=True):
        if array is None or parent is None or isinstance(array, Outline):
            inputs.append(array)
        elif isinstance(parent, Tensor):
            inputs.append(parent)
        else:
            inputs.append(_tensor_of(array, parent))
    out = None if node.out is None else _tensor_of(node.out, node)
    return inputs, out


def _tensor_of(array, node):
    tensor = Tensor._wrap(array)
    tensor._node = node
    tensor._requires_grad = True
    return tensor


def _changed_after_use(node, position):
    if position is None:
        what = "the output"
    else:
        names = node.primitive.input_names
        what = f"input {names[position] if names else position}"
    return RuntimeError(
        f"{what} of {node.primitive.name} was changed after it was used, but backward needs the old content: "
        "modify a copy, or run the forward pass again"
    )


def _deliver(pending, queue, receiver, cotangent, owned, create_graph):
    """Add a cotangent to the contributions that have arrived for a node or a leaf."""
    held = pending.get(receiver)
    if held is None:
        pending[receiver] = (cotangent, owned)
        if not isinstance(receiver, Tensor):
            heapq.heappush(queue, (-receiver.order, receiver))
        return
    earlier, earlier_owned = held
    if create_graph:
        pending[receiver] = (earlier + cotangent, False)
    elif earlier_owned:
        earlier += cotangent
    elif owned:
        cotangent += earlier
        pending[receiver] = (cotangent, True)
    else:
        total = earlier + cotangent
        if not isinstance(total, type(earlier)):
            total = backend_of(earlier).asarray(total)
        pending[receiver] = (total, True)


def _run_hooks(hooks, cotangent, owned):
    """Call each hook with the gradient, which it may replace."""
    if not hooks:
        return cotangent, owned
    recorded = isinstance(cotangent, Tensor)
    for hook in list(hooks.values()):
        seen = cotangent if recorded else Tensor._wrap(cotangent)
        answer = hook(seen)
        if answer is not None:
            if not isinstance(answer, Tensor):
                answer = Tensor(answer, dtype=seen.dtype, device=seen.device)
            if answer.shape != seen.shape:
                raise ValueError(
                    f"a hook returned a gradient of shape {answer.shape}, expected {seen.shape}"
                )
            cotangent = _like(answer, seen, "the gradient that a hook returned", recorded)
        owned = False  # the hook may have a reference to it
    return cotangent, owned


def _retain(node, cotangent, create_graph):
    tensor = node.retained and node.retained()
    if tensor is not None:
        gradient = cotangent if create_graph else Tensor._wrap(cotangent.copy())
        tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient


def unbroadcast(cotangent, shape, name):
    """Sum ``cotangent`` over the axes along which an input of ``shape`` was broadcast.

    Broadcasting copies an input along an axis, so by linearity its cotangent is the sum over the copies.

    >>> unbroadcast(np.ones((2, 3)), (3,), "add")
    array([2., 2., 2.])
    """
    added = len(cotangent.shape) - len(shape)
    lengths = list(zip((1,) * added + tuple(shape), cotangent.shape))
    if added < 0 or any(before not in (1, after) for before, after in lengths):
        raise RuntimeError(
            f"the backward of {name} returned a cotangent of shape {tuple(cotangent.shape)} "
            f"for an input of shape {tuple(shape)}"
        )
    xp = array_namespace(cotangent)
    stretched = tuple(
        i for i, (before, after) in enumerate(lengths) if i < added or before != after
    )
    if stretched:
        if cotangent.dtype.char == "e":  # sums need float32's range and digits
            cotangent = cotangent.astype(np.float32)
        cotangent = xp.sum(cotangent, axis=stretched, keepdims=True)
    return xp.reshape(cotangent, shape)
