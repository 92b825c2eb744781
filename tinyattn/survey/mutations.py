"""Known mutations of rules, and which gradient check catches them.

A gradient check contracts the outputs with a cotangent before it forms differences, and it misses every error that the
cotangent does not see. Three choices are common: ``y.sum()`` is a cotangent of ones, ``(y**2).sum()`` is the cotangent
2y, and ``gradcheck`` draws a random one. The outputs of softmax sum to 1 for any input, so the gradient under a
cotangent of ones is zero, and a rule that is wrong by a factor passes.
"""

import contextlib
import functools
import sys
from dataclasses import dataclass

import numpy as np

from ..autograd import PRIMITIVES, Tensor, backward, reference
from ..checker import GradcheckError, gradient_report
from ..mutation.rewrite import code_from, running, source_of
from .mistakes import CHANGES

CHECKS = ("ones", "sum(y**2)", "random")


@dataclass(frozen=True)
class Mutation:
    """A change to the source of one function: ``before``, which occurs once, becomes ``after``.

    ``what`` continues the sentence "a rule whose gradient ..."; ``why`` explains a mistake that people make.
    """

    what: str
    function: str
    before: str
    after: str
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of a mutation: for each of the three checks, whether it catches it."""

    mutation: Mutation
    caught: dict  # name of the check -> bool


MUTATIONS = {
    name: [
        Mutation(what, function, *change)
        for function, changes in functions.items()
        for what, change in changes.items()
    ]
    for name, functions in CHANGES.items()
}


def break_rule(name, seed=0):
    """Check primitive ``name`` under each of its known mutations, and yield an ``Outcome`` for each.

    >>> outcome = next(break_rule("softmax"))
    >>> outcome.mutation.what, outcome.caught
    ('returns zeros', {'ones': False, 'sum(y**2)': True, 'random': True})
    """
    if name not in MUTATIONS:
        raise ValueError(
            f"no mutations are known for {name!r}: expected one of {', '.join(MUTATIONS)}"
        )
    for mutation in MUTATIONS[name]:
        call, inputs = _example(name, seed, mutation)
        with mutated(name, mutation):
            yield Outcome(
                mutation, {check: _catches(check, call, inputs, seed) for check in CHECKS}
            )


@contextlib.contextmanager
def mutated(name, *mutations):
    """Run the rule of primitive ``name`` with mutations inside the block; kernels are off.

    Raises:
        LookupError: if the text that a mutation changes does not occur once.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(reference())
        for function, code in _codes(name, mutations):
            stack.enter_context(running(function, code))
        yield


@functools.cache
def _codes(name, mutations):
    """Pairs of a function and its code after the mutations."""
    sources = {}
    for mutation in mutations:
        function = _function(name, mutation.function)
        source = sources.get(function) or source_of(function)
        if source.count(mutation.before) != 1:
            raise LookupError(
                f"{mutation.before!r} does not occur once in {mutation.function}:\n{source}"
            )
        sources[function] = source.replace(mutation.before, mutation.after)
    return [(function, code_from(function, source)) for function, source in sources.items()]


def rule_functions(name):
    """The functions of a primitive's backward: its products, and other functions that the table changes.

    >>> [function.__name__ for function in rule_functions("add")]
    ['add_vjp_x', 'add_vjp_y', 'unbroadcast']
    """
    changed = [_function(name, mutation.function) for mutation in MUTATIONS.get(name, ())]
    return list(dict.fromkeys([*PRIMITIVES[name].vjps.values(), *changed]))


def _function(name, function):
    """A function of a primitive's module, or of the backward pass, which undoes broadcasting for all of them."""
    functions = vars(sys.modules[PRIMITIVES[name].forward.__module__])
    return functions[function] if function in functions else getattr(backward, function)


def _example(name, seed, mutation):
    """A call of the primitive that the mutation affects, and its inputs."""
    random = np.random.default_rng(seed)
    primitive = PRIMITIVES[name]
    if name == "cross_entropy":
        logits, target = random.standard_normal((4, 5)), np.array([1, 3, -100, 0])
        return lambda z: primitive(z, target), [Tensor(logits)]
    if name == "layer_norm":
        x, weight = random.standard_normal((3, 6)), random.standard_normal(6)
        if "weight" in mutation.before + mutation.function:
            return lambda x, w: primitive(x, w, None, axes=(-1,), eps=1e-5), [
                Tensor(x),
                Tensor(weight),
            ]
        return lambda x: primitive(x, None, None, axes=(-1,), eps=1e-5), [Tensor(x)]
    if name == "attention":
        # (batch, length, head_dim), all axes but the first equal
        arrays = random.standard_normal((3, 2, 4, 4))
        return lambda q, k, v: primitive(q, k, v, None, causal=True), [Tensor(a) for a in arrays]
    if name == "embedding":
        ids = np.array([[0, 2, 2], [3, 0, 0]])
        return lambda w: primitive(ids, w), [Tensor(random.standard_normal((5, 2)))]
    if name in ("sum", "mean"):
        shape = (2, 4, 3) if "shape[0]" in mutation.after else (4, 4, 3)
        return lambda x: primitive(x, axis=1), [Tensor(random.standard_normal(shape))]
    if name == "add":
        return primitive, [
            Tensor(random.standard_normal((3, 4))),
            Tensor(random.standard_normal(4)),
        ]
    if name == "matmul":
        return primitive, [Tensor(array) for array in random.standard_normal((2, 4, 4))]
    return primitive, [Tensor(random.standard_normal((3, 4)))]


def _catches(check, call, inputs, seed):
    """Whether a check with this cotangent fails."""

    def squares(*tensors):
        y = call(*tensors)
        return (y * y).sum()

    fn = squares if check == "sum(y**2)" else call
    cotangent = None if check == "random" else np.ones(fn(*inputs).shape)
    try:
        return not gradient_report(fn, inputs, cotangent=cotangent, seed=seed).passed
    except GradcheckError:
        return True
