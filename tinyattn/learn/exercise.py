"""Exercises: their parts, and the file that a learner completes."""

import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

from ..autograd import PRIMITIVES
from ..autograd.backward import unbroadcast
from ..data import InputError
from ..error_messages import did_you_mean

# In the order in which they are meant to be done.
PATH = (
    "cotangent",
    "add",
    "matmul",
    "sum_and_mean",
    "sigmoid",
    "softmax",
    "cross_entropy",
    "gelu",
    "layer_norm",
    "embedding",
    "attention",
    "graph",
)


@dataclass(frozen=True)
class Extreme:
    """Extreme inputs, at which numerically unstable formulas fail; compared with the rule row by row."""

    what: str
    inputs: tuple
    parameters: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Walkthrough:
    """The lines of ``tinyattn explain`` that contain the numbers of a backward pass.

    Args:
        operation: the operation to explain.
        inputs: for each input the name of its line, an array, or None.
        out: the name of the output's line.
        gradients: for each input the name of its gradient's line, or None.
        cotangent: the name of the line of the output's cotangent; None if it is 1.
        parameters: the parameters of the call.
    """

    operation: str
    inputs: tuple
    out: str
    gradients: tuple
    cotangent: str | None = "g"
    parameters: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Vjp:
    """A backward pass to write, ``(g, out, *inputs, **parameters)``: the gradient of each input, judged by the checker.

    Args:
        stub: the function that the learner completes.
        primitive: the name of the operation.
        cases: survey ``Case``s, the shapes and parameters to try.
        extremes: ``Extreme``s.
        undoes_broadcasting: whether the answer has to sum over broadcast axes; otherwise the engine does.
        walkthrough: a ``Walkthrough``, for the operations of ``tinyattn explain``.
    """

    stub: Callable
    primitive: str
    cases: tuple
    extremes: tuple = ()
    undoes_broadcasting: bool = False
    walkthrough: Walkthrough | None = None

    @property
    def name(self):
        return self.stub.__name__

    def solution(self):
        """The library's rule, as one function that returns the gradients of all inputs."""
        rules = dict(PRIMITIVES[self.primitive].vjps)

        def vjp(g, out, *inputs, **parameters):
            gradients = [None] * len(inputs)
            for position, rule in rules.items():
                if inputs[position] is not None:
                    gradient = rule(g, out, *inputs, **parameters)
                    if self.undoes_broadcasting:
                        gradient = unbroadcast(gradient, inputs[position].shape, self.primitive)
                    gradients[position] = gradient
            return tuple(gradients)

        return vjp


@dataclass(frozen=True)
class Function:
    """A function to write other than a backward pass; compared with the solution on random arguments.

    Args:
        stub: the function that the learner completes.
        answer: the solution.
        draw: maps a NumPy generator to a list of ``(label, arguments)``, with new arguments in each call.
        mistakes: description of a wrong result -> (a function with that mistake, an explanation).
        outputs: maps a result to ``{name: array}``.
    """

    stub: Callable
    answer: Callable
    draw: Callable
    mistakes: dict
    outputs: Callable

    @property
    def name(self):
        return self.stub.__name__

    def solution(self):
        return self.answer


@dataclass(frozen=True)
class Exercise:
    """An exercise of the course: ``words`` is the text, ``given`` the complete functions in the file."""

    title: str
    minutes: int
    words: str
    parts: tuple
    hints: tuple
    try_it: Callable
    given: tuple = ()
    imports: str = "import numpy as np\n"

    @property
    def name(self):
        return self.try_it.__module__.rpartition(".")[2]

    def file(self):
        """The text of the file that the learner completes."""
        number = PATH.index(self.name) + 1
        words = f"{number} of {len(PATH)}. {self.words.strip()}"
        head = f'"""{words}\n\nCheck it with:  tinyattn learn check {self.name}.py\n"""\n'
        blocks = [
            head,
            self.imports,
            *(f"\n{source(one)}" for one in self.given),
            *(f"\n{source(part.stub)}" for part in self.parts),
            f'\n# A place to try it:  python {self.name}.py\nif __name__ == "__main__":\n{body(self.try_it)}',
        ]
        return "\n".join(blocks)


@functools.cache
def exercise(name):
    """Look up an ``Exercise`` by name.

    Raises:
        InputError: for an unknown name.

    >>> exercise("softmax").title
    'Softmax'
    """
    if name not in PATH:
        hint = did_you_mean(name, PATH)
        raise InputError(f"there is no exercise {name!r}; {hint}")
    return importlib.import_module(f".exercises.{name}", __package__).EXERCISE


def source(function):
    """The source of a function of an exercise."""
    return textwrap.dedent(inspect.getsource(function))


def body(function):
    """The source of a function's body, indented by four spaces."""
    lines = inspect.getsource(function).splitlines(keepends=True)[1:]
    return textwrap.indent(textwrap.dedent("".join(lines)), "    ")
