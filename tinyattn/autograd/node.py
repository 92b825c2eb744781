"""Node: the record of one operation in the graph."""


class Outline:
    """The shape and dtype of an input that was not saved, for products that do not read its elements."""

    __slots__ = ("shape", "dtype")

    def __init__(self, like):
        self.shape = like.shape
        self.dtype = like.dtype

    @property
    def ndim(self):
        return len(self.shape)


class Node:
    """One recorded operation: the nodes of its inputs, and the data that backward needs.

    A node refers to the nodes of its inputs and to arrays, never to its own output: there is no reference cycle, and a
    graph is freed with its last tensor. ``order`` is the recording order, in which every operation comes after its
    inputs: it is a topological order of the graph.
    """

    __slots__ = (
        "primitive",
        "parameters",
        "parents",  # for each input: a Node, a leaf Tensor, or None if it needs no cotangent
        "inputs",  # the inputs that the vector-Jacobian products read, None for others; None if only a kernel can run
        "out",
        "versions",  # (version counter, its value when saved, name of what was saved)
        "backward",  # the kernel's backward, or None
        "residuals",
        "shape",
        "dtype",
        "order",
        "hooks",
        "retained",  # weak reference to the tensor that retains its .grad
        "line",
        "__weakref__",
    )

    def __repr__(self):
        return f"<Node {self.primitive.name} {self.shape}>"
