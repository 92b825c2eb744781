"""The capstone: train a GPT with a learner's backward passes instead of the library's.

The learner's functions replace the vector-Jacobian products in the engine's registry, and the kernels of their
operations are disabled. The model is composed of the operations of the course: a linear layer is matmul and add, and
attention is matmul, softmax, where and dropout, unless the exercise on attention is solved.
"""

import contextlib
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..autograd import no_grad
from ..autograd.backward import unbroadcast
from ..autograd.modes import watch_operations
from ..autograd.replacement import replaced_vjps
from ..backend import Random, use_random
from ..data import InputError
from ..ops import add, linear, matmul
from ..train.loading import make_model
from .answer import Answer, AnswerError
from .exercise import PATH, Vjp, exercise
from .process import check_file
from .verdict import describe_error
from .worker import load

# A model of what the exercises are about; options that are given override them.
OPTIONS = {
    "positions": "learned",
    "activation": "gelu",
    "norm_kind": "layer_norm",
    "qk_norm": False,
    "bias": True,
}


class RuleError(RuntimeError):
    """A learner's function failed in training; the message is a sentence for the learner."""


@dataclass
class Rules:
    """The results and functions of the exercises in a directory.

    Attributes:
        results: exercise -> ``Result``, for each that has a file.
        functions: primitive -> the learner's function, for those with which a model can be trained.
        wrong: the primitives among them whose function is wrong.
    """

    results: dict = field(default_factory=dict)
    functions: dict = field(default_factory=dict)
    wrong: list = field(default_factory=list)

    def products(self):
        """The learner's functions, as for ``replaced_vjps``."""
        return {name: _Rule(function, name).products() for name, function in self.functions.items()}

    def kernels_off(self):
        """The library's rules for the same operations, without kernels, as for ``replaced_vjps``."""
        return {name: {} for name in self.functions}

    def options(self, given):
        """The options of a run: those ``given``, and defaults with which the model consists of these operations."""
        options = {**OPTIONS, **given}
        solved = "attention" in self.functions and not options.get("dropout")
        if self.functions and not solved:
            options.setdefault("attention", "dense")
        return options


class _Rule(Answer):
    """An ``Answer`` that raises RuleError: it runs during training, possibly in a worker process."""

    def gradients(self, g, out, inputs, parameters):
        try:
            gradients = super().gradients(g, out, inputs, parameters)
            return tuple(
                d if d is None else unbroadcast(d, inputs[position].shape, self.name)
                for position, d in enumerate(gradients)
            )
        except AnswerError as error:
            raise RuleError(str(error)) from None
        except (Exception, SystemExit) as error:
            raise RuleError(
                f"{self.name} failed in training: {describe_error(error, self.function)}"
            ) from None


def load_rules(directory, progress=lambda name: None):
    """Check the exercises in a directory, each in a separate process, and load their functions.

    Args:
        directory: where the files are.
        progress: called with the name of each exercise before it is checked.

    Raises:
        InputError: if the directory has no file of an exercise.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise InputError(f"--rules: there is no directory {directory}")
    rules = Rules()
    for name in PATH:
        path = directory / f"{name}.py"
        if not path.is_file():
            continue
        progress(name)
        result, _ = check_file(path, name)
        rules.results[name] = result
        verdicts = {verdict.name: verdict for verdict in result.verdicts}
        usable = [
            part
            for part in exercise(name).parts
            if isinstance(part, Vjp) and part.name in verdicts and verdicts[part.name].usable
        ]
        functions = load(path) if usable else {}
        for part in usable:
            rules.functions[part.primitive] = functions[part.name]
            if not verdicts[part.name].passed:
                rules.wrong.append(part.primitive)
    if not rules.results:
        raise InputError(
            f"--rules: {directory} holds no exercise: begin with tinyattn learn start {PATH[0]}"
        )
    return rules


@contextlib.contextmanager
def in_place(products):
    """Use ``products`` without kernels inside a ``with`` block, with linear layers composed of primitives.

    Args:
        products: as for ``replaced_vjps``.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced_vjps(products))
        if {"matmul", "add"} & set(products):
            stack.enter_context(_composed_linear_layers())
        yield


@contextlib.contextmanager
def _composed_linear_layers():
    places = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(("tinyattn.nn.", "tinyattn.models."))
        and getattr(module, "linear", None) is linear
    ]
    for module in places:
        module.linear = _affine
    try:
        yield
    finally:
        for module in places:
            module.linear = linear


def _affine(x, weight, bias=None):
    """``linear`` from a matmul and an add."""
    y = matmul(x, weight)
    return y if bias is None else add(y, bias)


def used_primitives(config):
    """The names of the operations that the model of a ``TrainConfig`` runs: ``{name: the parameters of its calls}``."""
    model = make_model(config, 7, Random(0))
    ids = np.zeros((1, min(4, config.architecture.block_size)), np.int64)
    calls = {}

    def note(primitive, _arrays, parameters):
        calls.setdefault(primitive.name, []).append(parameters)

    with no_grad(), use_random(Random(0)), watch_operations(note):
        model.train().loss(ids, ids)
    return calls


def describe(rules, config):
    """Lines of text: whose rules the model of a ``TrainConfig`` uses, and which exercises it does not use.

    Raises:
        InputError: if the model calls an operation with parameters that the learner's function does not accept.
    """
    with in_place(rules.kernels_off()):
        calls = used_primitives(config)
    for name, function in rules.functions.items():
        for parameters in calls.get(name, ()):
            try:
                Answer(function, name).accepted(parameters)
            except AnswerError as error:
                raise InputError(f"--rules: this model needs another {name}: {error}") from None
    yours = [name for name in calls if name in rules.functions]
    ours = [name for name in calls if name not in rules.functions]
    idle = []
    for name in rules.results:
        parts = exercise(name).parts
        if not any(isinstance(part, Vjp) and part.primitive in calls for part in parts):
            idle.append(name)
    lines = [f"rules  yours: {', '.join(yours) or 'none'}"]
    wrong = [name for name in rules.wrong if name in calls]
    if wrong:
        lines.append(f"       WRONG, and used on purpose: {', '.join(wrong)}")
    lines.append(f"       ours: {', '.join(ours)}")
    if idle:
        lines.append(f"       not used by this model: {', '.join(idle)}")
    unsolved = [name for name in rules.results if not rules.results[name].passed]
    unsolved = [name for name in unsolved if not _primitives(name) & set(rules.wrong)]
    if unsolved:
        lines.append(f"       not solved, ours in its place: {', '.join(unsolved)}")
    return "\n".join(lines)


def _primitives(name):
    return {part.primitive for part in exercise(name).parts if isinstance(part, Vjp)}
