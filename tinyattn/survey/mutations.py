"""Known mutations of rules, and which gradient check catches them.

A gradient check contracts the outputs with a cotangent before it forms differences, and it misses every error that the
cotangent does not see. Three choices are common: ``y.sum()`` is a cotangent of ones, ``(y**2).sum()`` is the cotangent
2y, and ``gradcheck`` draws a random one. The outputs of softmax sum to 1 for any input, so the gradient under a
cotangent of ones is zero, and a rule that is wrong by a factor passes.
"""

import contextlib
import sys
from dataclasses import dataclass

import numpy as np

from ..autograd import PRIMITIVES, Tensor, reference
from ..checker import GradcheckError, gradient_report
from ..mutation.rewrite import code_from, running, source_of

CHECKS = ("ones", "sum(y**2)", "random")


@dataclass(frozen=True)
class Mutation:
    """A change to the source of one function: ``before``, which occurs once, becomes ``after``."""

    what: str
    function: str
    before: str
    after: str


@dataclass(frozen=True)
class Outcome:
    """Which of the three checks catches a mutation."""

    mutation: Mutation
    caught: dict  # name of the check -> bool


SOFTMAX = "return y * (g - xp.sum(g * y, axis=axis, keepdims=True))"
LAYER_NORM = "return (p - mean_p - z * mean_pz) / sigma"
ATTENTION = "softmax_vjp(dweights, weights, None)"

# primitive -> function -> what the gradient then is or does -> (before, after)
_CHANGES = {
    "softmax": {
        "softmax_vjp": {
            "returns zeros": (SOFTMAX, "return 0 * g"),
            "is 7 times too large": ("return y *", "return 7 * y *"),
            "lacks the outer y": ("return y * (", "return ("),
            "has the wrong sign": ("return y *", "return -y *"),
            "lacks the subtracted mean": (SOFTMAX, "return y * g"),
            "sums along the wrong axis": ("axis=axis", "axis=0"),
            "averages instead of summing": ("xp.sum", "xp.mean"),
        }
    },
    "layer_norm": {
        "layer_norm_vjp_x": {
            "returns zeros": (LAYER_NORM, "return 0 * g"),
            "lacks the variance term": (" - z * mean_pz", ""),
            "has the wrong sign": ("return (p", "return -(p"),
            "lacks the mean term": (" - mean_p ", " "),
            "is not divided by the deviation": (" / sigma", ""),
            "divides by the variance": ("/ sigma", "/ sigma**2"),
            "adds the variance term": ("- z * mean", "+ z * mean"),
        }
    },
    "cross_entropy": {
        "cross_entropy_vjp_logits": {
            "lacks the cotangent": ("g[..., None] *", "(g[..., None] ** 0) *"),
            "lacks the target": ("summing_to_zero(p - q, p, -1)", "p"),
            "has the wrong sign": ("g[..., None] *", "-g[..., None] *"),
            "counts ignored places": ("kept[..., None],", "kept[..., None] | True,"),
            "sums instead of averaging": ("kept, reduction)", 'kept, "sum")'),
        }
    },
    "attention": {
        "_score_cotangent": {
            "lacks the mean term of the softmax": (ATTENTION, "weights * dweights"),
            "lacks the outer weights": (ATTENTION, ATTENTION + " / weights"),
            "sums over the queries": ("weights, None)", "weights, None, axis=-2)"),
        },
        "attention_vjp_q": {"lacks the scale in dQ": (" * score_scale(q, scale)", "")},
        "attention_vjp_v": {
            "does not transpose the weights in dV": ("weights.swapaxes(-1, -2) @ g", "weights @ g"),
            "reverses the queries of the cotangent": ("@ g", "@ g[..., ::-1, :]"),
        },
        "attention_vjp_k": {"does not transpose dS in dK": ("ds.swapaxes(-1, -2)", "ds")},
    },
    "matmul": {
        "matmul_vjp_a": {
            "does not transpose b": ("xp.swapaxes(b, -1, -2)", "b"),
            "reverses the rows of the cotangent": ("matmul(g,", "matmul(g[::-1],"),
            "transposes the cotangent": ("matmul(g,", "matmul(g.T,"),
        },
        "matmul_vjp_b": {
            "does not transpose a": ("xp.swapaxes(a, -1, -2)", "a"),
            "lacks the cotangent": ("-2), g)", "-2), g**0)"),
        },
    },
    "gelu": {
        "gelu_vjp": {
            "lacks the density term": (" + x * density", ""),
            "lacks x before the density": ("x * density", "density"),
            "has a density twice too wide": ("-0.5 * x * x", "-0.25 * x * x"),
            "lacks the cotangent": ("return g * (", "return (g**0) * ("),
            "is a thousandth too large": ("return g *", "return 1.001 * g *"),
        }
    },
}

MUTATIONS = {
    name: [
        Mutation(what, function, before, after)
        for function, changes in functions.items()
        for what, (before, after) in changes.items()
    ]
    for name, functions in _CHANGES.items()
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
    call, inputs = _example(name, seed)
    for mutation in MUTATIONS[name]:
        with mutated(name, mutation):
            yield Outcome(
                mutation, {check: _catches(check, call, inputs, seed) for check in CHECKS}
            )


@contextlib.contextmanager
def mutated(name, mutation):
    """Run the rule of primitive ``name`` with a mutation inside the block; kernels are off.

    Raises:
        LookupError: if the text that the mutation changes does not occur once.
    """
    function = vars(sys.modules[PRIMITIVES[name].forward.__module__])[mutation.function]
    source = source_of(function)
    if source.count(mutation.before) != 1:
        raise LookupError(
            f"{mutation.before!r} does not occur once in {mutation.function}:\n{source}"
        )
    code = code_from(function, source.replace(mutation.before, mutation.after))
    with reference(), running(function, code):
        yield


def _example(name, seed):
    """A call of the primitive that all of its mutations affect, and its inputs."""
    random = np.random.default_rng(seed)
    primitive = PRIMITIVES[name]
    if name == "cross_entropy":
        logits, target = random.standard_normal((4, 5)), np.array([1, 3, -100, 0])
        return lambda z: primitive(z, target), [Tensor(logits)]
    if name == "layer_norm":
        x = random.standard_normal((3, 6))
        return lambda x: primitive(x, None, None, axes=(-1,), eps=1e-5), [Tensor(x)]
    if name == "attention":
        arrays = random.standard_normal(
            (3, 2, 4, 4)
        )  # (batch, length, head_dim), all axes but the first equal
        return lambda q, k, v: primitive(q, k, v, None), [Tensor(array) for array in arrays]
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
