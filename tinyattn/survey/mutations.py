"""Break a rule on purpose, and see which check notices.

A gradient check contracts the outputs with some cotangent before it differences them, and what that cotangent cannot
see, the check cannot find. Three are common. ``y.sum()`` is a cotangent of ones; ``(y**2).sum()`` is the cotangent 2y;
``gradcheck`` draws a random one. The outputs of softmax add up to 1 whatever its inputs are, so under ones its true
gradient is zero, and so is that of any rule that is wrong by a factor.
"""

import contextlib
import sys
from dataclasses import dataclass

import numpy as np

from ..autograd import PRIMITIVES, Tensor, reference
from ..checker import gradient_report
from ..checker.report import GradcheckError
from ..mutation.rewrite import code_from, running, source_of

CHECKS = ("ones", "sum(y**2)", "random")


@dataclass(frozen=True)
class Mistake:
    """A change to the text of one function: what it amounts to, and which line becomes which."""

    what: str
    function: str
    right: str
    wrong: str


@dataclass(frozen=True)
class Outcome:
    """Whether each of the three checks saw a mistake."""

    mistake: Mistake
    seen: dict  # name of the check -> bool


SOFTMAX = "return y * (g - xp.sum(g * y, axis=axis, keepdims=True))"
LAYER_NORM = "return (p - mean_p - z * mean_pz) / sigma"
CROSS_ENTROPY = "return xp.where(kept[..., None], g[..., None] * (softmax.rule(logits) - q), 0)"
ATTENTION = "return weights * (dweights - xp.sum(weights * dweights, axis=-1, keepdims=True))"
GELU = "return g * (cumulative + x * density)"
MATMUL = "return xp.matmul(g, xp.swapaxes(b, -1, -2))"

MISTAKES = {
    "softmax": [
        Mistake("returns zeros", "softmax_vjp", SOFTMAX, "return 0 * g"),
        Mistake("is 7 times too large", "softmax_vjp", "return y *", "return 7 * y *"),
        Mistake("lacks the outer y", "softmax_vjp", "return y * (", "return ("),
        Mistake("has the wrong sign", "softmax_vjp", "return y *", "return -y *"),
        Mistake("lacks the subtracted mean", "softmax_vjp", SOFTMAX, "return y * g"),
        Mistake("sums along the wrong axis", "softmax_vjp", "axis=axis", "axis=0"),
        Mistake("averages instead of summing", "softmax_vjp", "xp.sum", "xp.mean"),
    ],
    "layer_norm": [
        Mistake("returns zeros", "normalise_layer_vjp_x", LAYER_NORM, "return 0 * g"),
        Mistake("lacks the variance term", "normalise_layer_vjp_x", " - z * mean_pz", ""),
        Mistake("has the wrong sign", "normalise_layer_vjp_x", "return (p", "return -(p"),
        Mistake("lacks the mean term", "normalise_layer_vjp_x", " - mean_p ", " "),
        Mistake("is not divided by the deviation", "normalise_layer_vjp_x", " / sigma", ""),
        Mistake("divides by the variance", "normalise_layer_vjp_x", "/ sigma", "/ sigma**2"),
        Mistake("adds the variance term", "normalise_layer_vjp_x", "- z * mean", "+ z * mean"),
    ],
    "cross_entropy": [
        Mistake(
            "forgets the cotangent",
            "cross_entropy_vjp_logits",
            "g[..., None] * (",
            "(g[..., None] ** 0) * (",
        ),
        Mistake(
            "lacks the target",
            "cross_entropy_vjp_logits",
            "softmax.rule(logits) - q",
            "softmax.rule(logits)",
        ),
        Mistake(
            "has the wrong sign", "cross_entropy_vjp_logits", "g[..., None] *", "-g[..., None] *"
        ),
        Mistake(
            "counts ignored places",
            "cross_entropy_vjp_logits",
            "kept[..., None],",
            "kept[..., None] | True,",
        ),
        Mistake(
            "adds up instead of averaging",
            "cross_entropy_vjp_logits",
            "kept, reduction)",
            'kept, "sum")',
        ),
    ],
    "attention": [
        Mistake(
            "lacks the softmax's subtracted mean",
            "_score_cotangent",
            ATTENTION,
            "return weights * dweights",
        ),
        Mistake("lacks the weights", "_score_cotangent", "return weights *", "return"),
        Mistake("sums over the queries", "_score_cotangent", "axis=-1", "axis=-2"),
        Mistake("forgets the scale of dQ", "attention_vjp_q", " * _factor(q, scale)", ""),
        Mistake(
            "does not transpose the weights in dV",
            "attention_vjp_v",
            "_transposed(weights) @ g",
            "weights @ g",
        ),
        Mistake("does not transpose dS in dK", "attention_vjp_k", "_transposed(ds)", "ds"),
        Mistake(
            "ignores which output's cotangent it is", "attention_vjp_v", "@ g", "@ g[..., ::-1, :]"
        ),
    ],
    "matmul": [
        Mistake("does not transpose b", "matmul_vjp_a", MATMUL, "return xp.matmul(g, b)"),
        Mistake(
            "turns the cotangent's rows round",
            "matmul_vjp_a",
            MATMUL,
            "return xp.matmul(g[::-1], xp.swapaxes(b, -1, -2))",
        ),
        Mistake(
            "transposes the cotangent",
            "matmul_vjp_a",
            MATMUL,
            "return xp.matmul(g.T, xp.swapaxes(b, -1, -2))",
        ),
        Mistake("does not transpose a", "matmul_vjp_b", "xp.swapaxes(a, -1, -2)", "a"),
        Mistake("forgets the cotangent", "matmul_vjp_b", "-2), g)", "-2), g**0)"),
    ],
    "gelu": [
        Mistake("lacks the density term", "gelu_vjp", " + x * density", ""),
        Mistake("lacks x before the density", "gelu_vjp", "x * density", "density"),
        Mistake("has a density twice too wide", "gelu_vjp", "-0.5 * x * x", "-0.25 * x * x"),
        Mistake("forgets the cotangent", "gelu_vjp", "return g * (", "return (g**0) * ("),
        Mistake("is a thousandth too large", "gelu_vjp", "return g *", "return 1.001 * g *"),
    ],
}


def break_rule(name, seed=0):
    """Plant the known mistakes of primitive ``name``, one after the other: an ``Outcome`` for each as it is done.

    >>> outcome = next(break_rule("softmax"))
    >>> outcome.mistake.what, outcome.seen
    ('returns zeros', {'ones': False, 'sum(y**2)': True, 'random': True})
    """
    if name not in MISTAKES:
        raise ValueError(
            f"no mistakes are known for {name!r}: expected one of {', '.join(MISTAKES)}"
        )
    call, inputs = _example(name, seed)
    for mistake in MISTAKES[name]:
        with planted(name, mistake):
            yield Outcome(mistake, {check: _sees(check, call, inputs, seed) for check in CHECKS})


@contextlib.contextmanager
def planted(name, mistake):
    """Run the rule of primitive ``name`` with a mistake in it inside the block; kernels are off.

    Raises:
        LookupError: if the line that the mistake changes is not there, once.
    """
    function = vars(sys.modules[PRIMITIVES[name].forward.__module__])[mistake.function]
    source = source_of(function)
    if source.count(mistake.right) != 1:
        raise LookupError(f"{mistake.function} does not have {mistake.right!r}, once:\n{source}")
    code = code_from(function, source.replace(mistake.right, mistake.wrong))
    with reference(), running(function, code):
        yield


def _example(name, seed):
    """A call that shows the mistakes, and its inputs: what a test of the operation might well use."""
    random = np.random.default_rng(seed)
    primitive = PRIMITIVES[name]
    if name == "cross_entropy":
        logits, target = random.standard_normal((4, 5)), np.array([1, 3, -100, 0])
        return lambda z: primitive(z, target), [Tensor(logits)]
    if name == "layer_norm":
        x = random.standard_normal((3, 6))
        return lambda x: primitive(x, None, None, axes=(-1,), eps=1e-5), [Tensor(x)]
    if name == "attention":
        arrays = random.standard_normal((3, 2, 4, 4))  # as many queries as keys as channels
        return lambda q, k, v: primitive(q, k, v, None), [Tensor(array) for array in arrays]
    if name == "matmul":
        return primitive, [Tensor(array) for array in random.standard_normal((2, 4, 4))]
    return primitive, [Tensor(random.standard_normal((3, 4)))]


def _sees(check, call, inputs, seed):
    """Whether a check with this cotangent calls the gradient wrong."""

    def squares(*tensors):
        y = call(*tensors)
        return (y * y).sum()

    fn = squares if check == "sum(y**2)" else call
    cotangent = None if check == "random" else np.ones(fn(*inputs).shape)
    try:
        return not gradient_report(fn, inputs, cotangent=cotangent, seed=seed).passed
    except GradcheckError:
        return True
