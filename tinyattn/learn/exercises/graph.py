"""The backward pass of a graph: the order of the operations, and the accumulation of cotangents."""

from types import SimpleNamespace

import numpy as np

from ..exercise import Exercise, Function

WORDS = """
The backward pass of a graph

The engine itself. A forward pass was recorded as a list of operations, in the order in which they ran. Each has
    op.inputs    the names of its inputs, such as ("a", "b"); a name may occur twice, as in a * a
    op.output    the name of its output; each operation has a new one
    op.vjp       a function of the cotangent of the output: a tuple, the cotangent of each input
Names are strings. A name that is no operation's output is an input of the graph, such as a parameter.

backward(operations, output, g) returns the gradients: a dict with the cotangent of every name that `output` depends on,
`output` itself included, given that its own is g. A name that `output` does not depend on is not in it.

Three things go wrong here, in published engines too: the order, the accumulation for a value that is used twice, and
the ownership of arrays. A vjp may return the array that it was given, once or twice (addition does): never write into
it.
"""


def backward(operations, output, g):
    """The gradients {name: array} of everything that `output` depends on, from its cotangent g."""
    raise NotImplementedError("backward is yours to write")


def try_it():
    # b = a * a at a = 3, and c = a + b.
    multiply = SimpleNamespace(inputs=("a", "a"), output="b", vjp=lambda g: (g * 3.0, g * 3.0))
    add = SimpleNamespace(inputs=("a", "b"), output="c", vjp=lambda g: (g, g))
    print(backward([multiply, add], "c", np.array(1.0)), "expected a: 7, b: 1, c: 1")


def our_backward(operations, output, g):
    gradients = {output: g}
    for op in reversed(operations):
        if op.output not in gradients:
            continue  # the output does not depend on it
        for name, cotangent in zip(op.inputs, op.vjp(gradients[op.output])):
            gradients[name] = gradients[name] + cotangent if name in gradients else cotangent
    return gradients


def draw_records(random):
    for label, operations in RECORDS.items():
        made = [(tuple(inputs), name, kind) for name, (kind, *inputs) in operations.items()]
        values = {name: random.standard_normal(3) for inputs, _, _ in made for name in inputs}
        record = []
        for inputs, name, kind in made:
            arguments = [values[one] for one in inputs]
            values[name], vjp = KINDS[kind](*arguments)
            record.append(SimpleNamespace(inputs=inputs, output=name, vjp=vjp))
        output = [name for name in operations if name != "unused"][-1]
        yield label, (record, output, random.standard_normal(3))


KINDS = {
    "add": lambda a, b: (a + b, lambda g: (g, g)),
    "mul": lambda a, b: (a * b, lambda g: (g * b, g * a)),
    "sin": lambda a: (np.sin(a), lambda g: (g * np.cos(a),)),
    "neg": lambda a: (-a, lambda g: (-g,)),
}

# label -> name of the output -> (kind, *names of the inputs)
RECORDS = {
    "a chain": {"b": ("sin", "a"), "c": ("neg", "b"), "d": ("sin", "c")},
    "a value used by two operations": {
        "b": ("sin", "a"),
        "c": ("neg", "b"),
        "d": ("mul", "b", "c"),
    },
    "a value used twice by one operation": {"b": ("mul", "a", "a"), "c": ("add", "b", "b")},
    "a residual connection": {
        "h": ("sin", "x"),
        "y": ("add", "x", "h"),
        "k": ("mul", "y", "w"),
        "z": ("add", "y", "k"),
    },
    "paths of different lengths": {
        "b": ("sin", "a"),
        "c": ("sin", "b"),
        "d": ("sin", "c"),
        "e": ("mul", "d", "a"),
        "f": ("add", "e", "b"),
    },
    "an operation that the output does not depend on": {
        "b": ("sin", "a"),
        "c": ("mul", "a", "b"),
        "unused": ("mul", "c", "z"),
    },
    "sums of sums": {
        "c": ("add", "a", "b"),
        "d": ("add", "a", "c"),
        "e": ("add", "c", "d"),
        "f": ("add", "e", "a"),
    },
}


def _in_forward_order(operations, output, g):
    gradients = {output: g}
    for op in operations:
        if op.output in gradients:
            for name, cotangent in zip(op.inputs, op.vjp(gradients[op.output])):
                gradients[name] = gradients[name] + cotangent if name in gradients else cotangent
    return gradients


def _overwriting(operations, output, g):
    gradients = {output: g}
    for op in reversed(operations):
        if op.output in gradients:
            gradients.update(zip(op.inputs, op.vjp(gradients[op.output])))
    return gradients


def _keeping_the_first(operations, output, g):
    gradients = {output: g}
    for op in reversed(operations):
        if op.output in gradients:
            for name, cotangent in zip(op.inputs, op.vjp(gradients[op.output])):
                gradients.setdefault(name, cotangent)
    return gradients


def _once_for_each_operation(operations, output, g):
    gradients = {output: g}
    for op in reversed(operations):
        if op.output in gradients:
            for name, cotangent in dict(zip(op.inputs, op.vjp(gradients[op.output]))).items():
                gradients[name] = gradients[name] + cotangent if name in gradients else cotangent
    return gradients


def _in_place(operations, output, g):
    gradients = {output: g.copy()}
    for op in reversed(operations):
        if op.output in gradients:
            for name, cotangent in zip(op.inputs, op.vjp(gradients[op.output])):
                if name in gradients:
                    gradients[name] += cotangent
                else:
                    gradients[name] = cotangent
    return gradients


def _before_it_is_complete(operations, output, g):
    """Depth first, passing on the sum so far each time."""
    made = {op.output: op for op in operations}
    gradients = {}

    def visit(name, cotangent):
        gradients[name] = gradients[name] + cotangent if name in gradients else cotangent
        if name in made:
            op = made[name]
            for one, part in zip(op.inputs, op.vjp(gradients[name])):
                visit(one, part)

    visit(output, g)
    return gradients


def _without_the_output(operations, output, g):
    gradients = our_backward(operations, output, g)
    del gradients[output]
    return gradients


def _without_intermediate_values(operations, output, g):
    gradients = our_backward(operations, output, g)
    return {
        name: gradient
        for name, gradient in gradients.items()
        if name not in {op.output for op in operations}
    }


def _from_ones(operations, output, g):
    return our_backward(operations, output, np.ones_like(g))


EXERCISE = Exercise(
    title="The backward pass of a graph",
    minutes=30,
    words=WORDS,
    imports="from types import SimpleNamespace\n\nimport numpy as np\n",
    parts=(
        Function(
            backward,
            our_backward,
            draw_records,
            mistakes={
                "goes through the operations in the order in which they ran": (
                    _in_forward_order,
                    "an operation's vjp is called after those of all operations that use its output: reverse order",
                ),
                "overwrites where cotangents meet": (
                    _overwriting,
                    "a value that is used twice affects the loss in two ways: its cotangents add up",
                ),
                "keeps the first cotangent where several meet": (
                    _keeping_the_first,
                    "a value that is used twice affects the loss in two ways: its cotangents add up",
                ),
                "counts an input once that an operation has twice": (
                    _once_for_each_operation,
                    "in a * a both factors are a: vjp returns two cotangents, which add up like any others",
                ),
                "adds in place into an array that it does not own": (
                    _in_place,
                    "the vjp of an addition returns the same array twice: += on one changes the other, and the "
                    "cotangent of the output with it",
                ),
                "passes a cotangent on before it is complete": (
                    _before_it_is_complete,
                    "each vjp is called once, with the complete cotangent; otherwise the first part counts twice",
                ),
                "leaves out the output itself": (
                    _without_the_output,
                    "the output depends on itself, with the cotangent g",
                ),
                "leaves out what operations computed": (
                    _without_intermediate_values,
                    "the cotangent of an intermediate value is asked for too",
                ),
                "begins with ones": (_from_ones, "the cotangent of the output is given: g"),
            },
            outputs=dict,
        ),
    ),
    hints=(
        "When may the vjp of an operation be called? Which cotangent must be complete, and what completes it?",
        "The operations are listed in the order in which they ran: every input was computed before it was used. In "
        "which order is, for each operation, everything that uses its output processed before it?",
        "If a name already has a cotangent and another one is computed, what happens to the two? Why is `a = a + b` "
        "safe there and `a += b` not? What if an operation's output has no cotangent at all?",
    ),
    try_it=try_it,
)
