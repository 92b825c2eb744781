"""The autograd graph of PyTorch outputs: its nodes, and the ``torch.autograd.Function``s among them."""

import sys


def function_class(fn):
    """The ``torch.autograd.Function`` that ``fn`` is, or whose ``apply`` it is; else None."""
    base = sys.modules["torch"].autograd.Function
    for value in (fn, getattr(fn, "__self__", None)):
        if isinstance(value, type) and issubclass(value, base):
            return value
    return None


def nodes(outputs):
    """The nodes of the graph, each before those that it passes gradients to."""
    stack = [output.grad_fn for output in outputs if output.grad_fn is not None]
    waiting, order = {}, []
    reachable, unseen = set(stack), list(stack)
    while unseen:
        for following, _ in unseen.pop().next_functions:
            if following is not None:
                waiting[following] = waiting.get(following, 0) + 1
                if following not in reachable:
                    reachable.add(following)
                    unseen.append(following)
    ready = [node for node in dict.fromkeys(stack) if not waiting.get(node)]
    while ready:
        node = ready.pop()
        order.append(node)
        for following, _ in node.next_functions:
            if following is not None:
                waiting[following] -= 1
                if not waiting[following]:
                    ready.append(following)
    return order


def function_classes(outputs):
    """The ``torch.autograd.Function``s whose nodes are in the graph."""
    classes = [getattr(node, "_forward_cls", None) for node in nodes(outputs)]
    return list(dict.fromkeys(cls for cls in classes if cls is not None))
