"""What an exercise is made of, and the file that a learner gets."""

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
    "walk",
)


@dataclass(frozen=True)
class Extreme:
    """Inputs at which formulas break that are right elsewhere; judged against our rule, row by row."""

    what: str
    inputs: tuple
    parameters: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Walkthrough:
    """Where ``tinyattn explain`` has the numbers of a backward pass, as the names of its lines.

    A name for each gradient, and for each input a name or an array; None where there is none. ``cotangent`` is the
    name of the output's, None if it is 1; ``parameters`` are those of the call.
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
        stub: the function that the learner completes; its name is theirs.
        primitive: the name of the operation.
        cases: survey ``Case``s, the shapes and parameters to try.
        extremes: ``Extreme``s.
        undoes_broadcasting: whether the answer has to sum over the axes along which an input was copied. Elsewhere the
            engine does it.
        walkthrough: a ``Walkthrough``, for the operations that ``explain`` knows.
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
        """Our rule, as one function that returns the gradients of all inputs."""
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
    """A function to write that is no backward pass of an operation; compared with ours on random arguments.

    Args:
        stub: the function that the learner completes.
        answer: ours.
        draw: from a NumPy generator to a list of ``(label, arguments)``; each call makes new arguments.
        mistakes: what the result then is or does -> (a function that makes the mistake, why it is one).
        outputs: from a result to ``{name: array}``.
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
    """A step of the course. ``words`` are what the learner reads, ``given`` the functions that are in the file."""

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
    """The ``Exercise`` of a name.

    Raises:
        InputError: for a name that no exercise has.

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
