"""What is recorded of one operation."""


class Outline:
    """What a vector-Jacobian product may still ask of an input that was not kept: everything but its elements."""

    __slots__ = ("shape", "dtype")

    def __init__(self, like):
        self.shape = like.shape
        self.dtype = like.dtype

    @property
    def ndim(self):
        return len(self.shape)


class Node:
    """One recorded operation: where its cotangent goes, and what its backward needs.

    A node refers to the nodes of its inputs and to arrays, never to its own output: there is no reference cycle, and
    a graph dies with its last tensor. ``order`` grows with time, so that an operation always has a higher number
    than those it depends on: the walk needs no other sorting.
    """

    __slots__ = (
        "primitive",
        "parameters",
        "parents",  # for each input: a Node, a leaf Tensor, or None where no cotangent is wanted
        "inputs",  # the inputs that the vector-Jacobian products read, None elsewhere; None if only a kernel will run
        "out",
        "versions",  # (version counter, its value when saved, name of what was saved)
        "backward",  # the kernel's backward, or None
        "residuals",
        "shape",
        "dtype",
        "order",
        "hooks",
        "retained",  # weak reference to the tensor whose .grad is wanted
        "line",
        "__weakref__",
    )

    def __repr__(self):
        return f"<Node {self.primitive.name} {self.shape}>"
