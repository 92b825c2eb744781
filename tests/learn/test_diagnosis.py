"""What a diagnosis states about answers that are in no table of mistakes, or were not when they were written."""

import math

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.learn.exercise import PATH, exercise
from tinyattn.learn.judge import judge

PARTS = {part.name: part for name in PATH for part in exercise(name).parts}


def total(x, axis=-1):
    return x.sum(axis=axis, keepdims=True)


def density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def gelu_answer(slope):
    return lambda g, y, x: g * slope(x, y)


def silu_slope(x, rate):
    s = 1 / (1 + np.exp(-rate * x))
    return s + rate * x * s * (1 - s)


def tanh_slope(x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)


def layer_norm_answer(variance_factor=lambda n: 1, rows=np.sum, axes_of=lambda axes: axes):
    def vjp(g, y, x, w, b, axes=(-1,), eps=1e-5):
        c = x - x.mean(axes, keepdims=True)
        sigma = np.sqrt((c * c).mean(axes, keepdims=True) + eps)
        z, p = c / sigma, g * w
        means = [q.mean(axes_of(axes), keepdims=True) for q in (p, p * z)]
        dx = (p - means[0] - variance_factor(x.size // sigma.size) * z * means[1]) / sigma
        copies = tuple(range(x.ndim - w.ndim))
        return dx, rows(g * z, axis=copies), g.sum(axis=copies)

    return vjp


def attention_answer(mean=lambda p, d: total(p * d), causal_too=True):
    def vjp(g, out, q, k, v, mask=None, causal=False, scale=None):
        scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        s = scale * q @ np.swapaxes(k, -1, -2)
        visible = np.ones(s.shape, bool) if mask is None else np.broadcast_to(mask, s.shape)
        if causal and causal_too:
            visible = visible & np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2], dtype=bool)
        s = np.where(visible, s, -np.inf)
        largest = s.max(-1, keepdims=True)
        e = np.exp(s - np.where(np.isfinite(largest), largest, 0))
        p = e / np.maximum(total(e), 1)
        d = g @ np.swapaxes(v, -1, -2)
        ds = scale * p * (d - mean(p, d))
        return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ g

    return vjp


def matmul_averages_over_rows(g, out, a, b):
    return g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g / a.shape[-2]


ANSWERS = {
    "half the variance term": (
        "layer_norm_vjp",
        layer_norm_answer(lambda n: 0.5),
        "dx has 0.5 times the variance term",
    ),
    "n - 1 in the variance term": (
        "layer_norm_vjp",
        layer_norm_answer(lambda n: n / (n - 1)),
        "dx has the variance term with a factor that differs from case to case: 1.25 for",
    ),
    "mean of dw over the rows": (
        "layer_norm_vjp",
        layer_norm_answer(rows=np.mean),
        "dweight is right up to a factor, 1 / the number of outputs for each of its elements",
    ),
    "means along the last axis": (
        "layer_norm_vjp",
        layer_norm_answer(axes_of=lambda axes: -1),
        "all wrong cases, and no right one, have axes=(-2, -1)",
    ),
    "mean of db over the rows of a": (
        "matmul_vjp",
        matmul_averages_over_rows,
        "db is right up to a factor, 1 / the length of axis -2 of a",
    ),
    "sign of the mean term in attention": (
        "attention_vjp",
        attention_answer(lambda p, d: -total(p * d)),
        "dq and dk: each has -1 times the mean term of the softmax",
    ),
    "sum without the weights in attention": (
        "attention_vjp",
        attention_answer(lambda p, d: total(d)),
        "dq and dk: each lacks the weights in the mean",
    ),
    "no causal mask": (
        "attention_vjp",
        attention_answer(causal_too=False),
        "all wrong cases, and no right one, have causal=True",
    ),
    "sign in log-softmax": (
        "log_softmax_vjp",
        lambda g, y, x, axis=-1: g + np.exp(y) * total(g, axis),
        "dx has -1 times the subtracted term",
    ),
    "weighted sum in log-softmax": (
        "log_softmax_vjp",
        lambda g, y, x, axis=-1: g - np.exp(y) * total(g * np.exp(y), axis),
        "dx weights the sum by the probabilities",
    ),
    "log-softmax in softmax": (
        "softmax_vjp",
        lambda g, y, x, axis=-1: g - y * total(g, axis),
        "dx is that of log-softmax",
    ),
    "no y_j in softmax": (
        "softmax_vjp",
        lambda g, y, x, axis=-1: g * y - total(g * y, axis),
        "dx lacks y_j in the subtracted term",
    ),
    "slope of GELU at y": (
        "gelu_vjp",
        gelu_answer(lambda x, y: 0.5 * (1 + ta.erf.forward(y / math.sqrt(2))) + y * density(y)),
        "dx takes the slope at y",
    ),
    "y for Phi": (
        "gelu_vjp",
        gelu_answer(lambda x, y: y + x * density(x)),
        "dx has y where Phi belongs",
    ),
    "erf for Phi": (
        "gelu_vjp",
        gelu_answer(lambda x, y: ta.erf.forward(x / math.sqrt(2)) + x * density(x)),
        "dx has erf where Phi belongs",
    ),
    "erf(x)": (
        "gelu_vjp",
        gelu_answer(lambda x, y: 0.5 * (1 + ta.erf.forward(x)) + x * density(x)),
        "dx has erf(x) for erf(x / sqrt(2))",
    ),
    "sqrt(pi)": (
        "gelu_vjp",
        gelu_answer(lambda x, y: 0.5 * (1 + ta.erf.forward(x / 2**0.5)) + 2**0.5 * x * density(x)),
        "dx divides by sqrt(pi) and not by sqrt(2 pi)",
    ),
    "SiLU": ("gelu_vjp", gelu_answer(lambda x, y: silu_slope(x, 1)), "dx is that of SiLU"),
    "sigmoid": (
        "gelu_vjp",
        gelu_answer(lambda x, y: silu_slope(x, 1.702)),
        "dx is that of x sigmoid(1.702 x)",
    ),
    "tanh": (
        "gelu_vjp",
        gelu_answer(lambda x, y: tanh_slope(x)),
        "dx is that of the tanh approximation",
    ),
}


@pytest.mark.parametrize("mistake", ANSWERS)
def test_a_wrong_answer_has_this_sentence_in_its_diagnosis(mistake):
    function, answer, sentence = ANSWERS[mistake]
    verdict = judge(PARTS[function], answer)
    assert not verdict.passed and sentence in verdict.diagnosis, verdict.diagnosis
