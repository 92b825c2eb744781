"""Drawing of a recorded graph: operations, shapes, and small values and gradients."""

import numpy as np

from ..autograd import Tensor
from ..autograd.backward import backward_pass
from ..backend import is_array
from ..nn import Module, Parameter
from .folding import repeated_parts
from .numbers import format_array
from .pictures import Picture, _figure, need

MAX_PRINTED = 9  # largest array whose elements are printed [elements]
MAX_DRAWN = 200  # operations
MAX_AREA = 1600  # square inches
MAX_COLLECTED = 20_000  # operations, before repeated parts are folded
CHARACTER_WIDTH = 0.075  # inches, at the font size of the labels
LINE_HEIGHT = 0.16  # inches


def draw_graph(loss, names=None):
    """Draw the recorded graph of ``loss``: the inputs at the top, each operation below its operands.

    Runs a backward pass for the gradients. The graph is retained and ``.grad`` is not changed, so that
    ``loss.backward()`` may follow.

    Args:
        loss: a scalar tensor; for other shapes the gradients are those of the sum.
        names: names of the inputs: a module (for the names of its parameters) or a dict of name to tensor. Of repeated
            parts, such as the blocks of a GPT, the first is drawn; the others are one box. A large parameter that only
            one operation reads is listed in the box of that operation.

    Returns:
        A ``Picture``.

    Raises:
        ValueError: if nothing was recorded, or if the graph is too large to draw.
        RuntimeError: if the graph was freed by a backward pass.
        ImportError: if matplotlib or grandalf is missing.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, 2.0], requires_grad=True)
    >>> draw_graph((x * x).sum(), names={"x": x})
    <Picture: 2 operations on 1 input: mul, sum>
    """
    need("matplotlib", "draw_graph")
    need("grandalf", "draw_graph")
    if not isinstance(loss, Tensor) or loss._node is None:
        raise ValueError(
            "draw_graph() needs a tensor with a recorded graph: expected a result that depends on a tensor with "
            "requires_grad=True, computed outside no_grad()"
        )
    nodes, leaves = _collect(loss._node)
    called = _names(names)
    folds = repeated_parts(nodes, called)
    folded = {id(node): fold for fold in folds for node in fold.nodes}
    shown = [node for node in nodes if id(node) not in folded]
    if len(shown) > MAX_DRAWN:
        raise ValueError(f"{len(shown)} operations are too many to draw: {_ADVICE}")
    readers = {}
    for node in shown:
        for parent in node.parents:
            readers.setdefault(id(parent), []).append(node)
    gradients = _gradients(loss, nodes)
    values = _values(loss, nodes)
    boxes = {
        id(n): _Box(n.primitive.name, n.shape, values.get(id(n)), gradients.get(id(n)))
        for n in shown
    }
    for leaf in leaves:
        reading = readers.get(id(leaf), [])
        title = called.get(id(leaf), "parameter" if isinstance(leaf, Parameter) else "input")
        if isinstance(leaf, Parameter) and leaf.size > MAX_PRINTED and len(reading) == 1:
            # A separate box and arrow would add no information.
            boxes[id(reading[0])].add(f"reads {title} {leaf.shape}")
        elif reading:
            gradient = gradients.get(id(leaf))
            boxes[id(leaf)] = _Box(title, leaf.shape, leaf._data, gradient, leaf=True)
    for fold in folds:
        box = _Box(fold.title, fold.nodes[-1].shape, None, None)
        box.add(f"like {fold.like}, {len(fold.nodes)} operations")
        boxes.update({id(node): box for node in fold.nodes})
    edges = {
        (id(boxes[id(parent)]), id(boxes[id(node)])): (boxes[id(parent)], boxes[id(node)])
        for node in nodes
        for parent in node.parents
        if id(parent) in boxes and boxes[id(parent)] is not boxes[id(node)]
    }.values()
    drawn = list({id(box): box for box in boxes.values()}.values())
    _lay_out(drawn, edges)
    operations = ", ".join(node.primitive.name for node in shown[:6]) + (
        ", ..." if shown[6:] else ""
    )
    description = (
        f"{len(nodes)} operation{'s' * (len(nodes) != 1)} on {len(leaves)} "
        f"input{'s' * (len(leaves) != 1)}: {operations}"
    )
    return Picture(_draw(drawn, edges), description)


_ADVICE = "draw a part of the expression, or pass the model, draw_graph(loss, model), to fold repeated blocks"


class _Box:
    def __init__(self, title, shape, value, gradient, leaf=False):
        self.title, self.leaf = title, leaf
        self.lines = [f"shape {tuple(shape)}" if shape else "a number"]
        for name, array in (("value", value), ("grad", gradient)):
            if array is not None and array.size <= MAX_PRINTED and array.ndim <= 2:
                rows = format_array(Tensor._wrap(array).numpy(), digits=3)
                self.lines += [f"{name if k == 0 else '':<5} {row}" for k, row in enumerate(rows)]
        self.xy = (0.0, 0.0)  # the center

    def add(self, line):
        """Add a line of text."""
        self.lines.append(line)

    @property
    def w(self):
        """Width in inches, also read by grandalf."""
        return CHARACTER_WIDTH * max(len(text) for text in [self.title, *self.lines]) + 0.25

    @property
    def h(self):
        """Height in inches, also read by grandalf."""
        return LINE_HEIGHT * (len(self.lines) + 1) + 0.16


def _collect(root):
    """Nodes that ``root`` depends on, in recording order, and their leaves."""
    nodes, leaves, stack = {}, {}, [root]
    while stack:
        node = stack.pop()
        if id(node) in nodes:
            continue
        if node.parents is None:
            raise RuntimeError(
                f"the graph was freed (at {node.primitive.name}) by a backward pass: "
                "draw it before backward(), or pass retain_graph=True to backward()"
            )
        nodes[id(node)] = node
        if len(nodes) > MAX_COLLECTED:
            raise ValueError(
                f"more than {MAX_COLLECTED:,} operations are too many to draw: draw a part of the expression"
            )
        for parent in node.parents:
            if isinstance(parent, Tensor):
                leaves[id(parent)] = parent
            elif parent is not None:
                stack.append(parent)
    return sorted(nodes.values(), key=lambda node: node.order), list(leaves.values())


def _gradients(loss, nodes):
    """Gradients of all nodes and leaves, a dict of id to array."""
    found, before = {}, [node.hooks for node in nodes]

    def keeper(node):
        def keep(gradient):
            found[id(node)] = gradient._data

        return keep

    for node in nodes:
        node.hooks = {**(node.hooks or {}), "draw_graph": keeper(node)}
    try:
        seed = Tensor._wrap(np.ones_like(loss.numpy())).to(loss.device)
        leaves = backward_pass([loss], [seed], retain_graph=True, create_graph=False)
    finally:
        for node, hooks in zip(nodes, before):
            node.hooks = hooks
    found.update({id(leaf): gradient for leaf, (gradient, _) in leaves.items()})
    return found


def _values(loss, nodes):
    """Values of the nodes that are still in memory or that the rules can recompute, a dict of id to array."""
    values = {id(loss._node): loss._data}
    for node in nodes:
        if node.out is not None:
            values[id(node)] = node.out
        for parent, array in zip(node.parents, node.inputs):
            if parent is not None and is_array(array):
                values.setdefault(id(parent), array)
    for node in nodes:
        if id(node) in values:
            continue
        inputs = []
        for parent, array in zip(node.parents, node.inputs):
            if isinstance(parent, Tensor):
                array = parent._data
            elif parent is not None:
                array = values.get(id(parent))
            inputs.append(array)
        if all(is_array(array) or isinstance(array, (int, float)) for array in inputs):
            value = node.primitive.forward(*inputs, **node.parameters)
            # Full reductions in NumPy return scalars instead of arrays.
            values[id(node)] = value if is_array(value) else np.asarray(value)
    return values


def _names(names):
    if names is None:
        return {}
    pairs = names.named_parameters() if isinstance(names, Module) else names.items()
    return {id(tensor): name for name, tensor in pairs}


def _lay_out(boxes, edges):
    """Place the boxes in layers with few edge crossings (Sugiyama's method, from grandalf)."""
    from grandalf.graphs import Edge, Graph, Vertex
    from grandalf.layouts import SugiyamaLayout

    vertices = {id(box): Vertex(box) for box in boxes}
    for box in boxes:
        vertices[id(box)].view = box
    graph = Graph(
        list(vertices.values()),
        [Edge(vertices[id(a)], vertices[id(b)]) for a, b in edges],
    )
    layout = SugiyamaLayout(graph.C[0])
    layout.xspace, layout.yspace = 0.35, 0.4
    layout.init_all()
    layout.draw()


def _draw(boxes, edges):
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    left = min(box.xy[0] - box.w / 2 for box in boxes) - 0.2
    right = max(box.xy[0] + box.w / 2 for box in boxes) + 0.2
    top = min(box.xy[1] - box.h / 2 for box in boxes) - 0.2
    bottom = max(box.xy[1] + box.h / 2 for box in boxes) + 0.2
    width, height = right - left, bottom - top
    if width * height > MAX_AREA:
        raise ValueError(
            f"a picture of {width:.0f} x {height:.0f} inches is too large to draw: {_ADVICE}"
        )
    figure = _figure((width, height))
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(left, right), ylim=(bottom, top))
    axes.axis("off")
    for above, below in edges:
        axes.add_patch(
            FancyArrowPatch(
                (above.xy[0], above.xy[1] + above.h / 2),
                (below.xy[0], below.xy[1] - below.h / 2),
                arrowstyle="-|>",
                mutation_scale=9,
                color="#6b7480",
                linewidth=1,
                shrinkA=0,
                shrinkB=0,
            )
        )
    for box in boxes:
        x, y = box.xy[0] - box.w / 2, box.xy[1] - box.h / 2
        axes.add_patch(
            FancyBboxPatch(
                (x, y),
                box.w,
                box.h,
                boxstyle="round,pad=0,rounding_size=0.06",
                facecolor="#e3eefa" if box.leaf else "#f6f7f9",
                edgecolor="#1f6fb2" if box.leaf else "#8a939e",
            )
        )
        style = {"family": "monospace", "va": "center", "ha": "left"}
        axes.text(x + 0.1, y + 0.17, _plain(box.title), fontsize=9, weight="bold", **style)
        for k, text in enumerate(box.lines):
            color = "#a04d00" if text.startswith("grad") else "#333a42"
            line = y + 0.17 + LINE_HEIGHT * (k + 1)
            axes.text(x + 0.1, line, _plain(text), fontsize=8, color=color, **style)
    return figure


def _plain(text):
    """Escape dollar signs, which delimit formulas in matplotlib."""
    return text.replace("$", r"\$")
