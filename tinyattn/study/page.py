"""Rendering of the explorer page: one HTML file with the bundle of ``web/`` and a JSON payload.

The payload is in a script element of type application/json, with ``<``, ``>`` and ``&`` escaped, so that no text can
close the element or be parsed as markup. The content security policy of the page allows the script of the bundle only.

For every head, the payload has the scores S and the gradients dL/dP in float32 for the visible cells; the page computes
P, dL/dS and P*dL/dP from them in float64. A map has 4 bytes per cell before compression.

The JSON object:
    title, characters (the tokens), expected (the target of each position, or null), loss, gradcheck (a link or null)
    unit         what a token is: character, byte or token
    model        layers, heads, head_dim, parameters
    allowed      packed bits, length*length, in row-major order: 1 if a query sees a key
    own          index in steps of the run's own state; the others are snapshots, in 16 bits
    steps        in order: step, loss, scores, gradient, heads (kind, reason, shares)
    targets      losses of single characters: position, loss, rows (per layer the first and last row with a gradient
                 other than 0), gradient (of those rows, by layer and head)
    predictions  per position: loss, probability (of the target), top (character and probability)
    behaviors   key, name, definition, chance (share of uniform attention), mark (the threshold), without (the reason
                 if it cannot be measured)
    thresholds   the rule by which heads are classified, a sentence
    curve        step, loss, val_loss
    norms        places (names of layers) and series (name, values)
An array is {dtype, data}: the byte planes of its little-endian values, compressed with deflate, in base64; a 16-bit map
also has low and high, a number per head.
"""

import base64
import html
import json
import math
import zlib
from dataclasses import dataclass, field
from importlib.resources import files

import numpy as np

from .heads import BEHAVIORS, THRESHOLDS, cutoffs, even_shares, kind_of, measure_heads, reason_of

TOP = 5
MEGABYTE = 1_000_000


@dataclass
class Maps:
    """The attention of all heads at one training step.

    ``scores`` (scaled, -inf if masked) and ``gradient`` (dL/dP) have the shape (layers, heads, length, length).
    """

    step: int | str
    loss: float
    scores: np.ndarray
    gradient: np.ndarray


@dataclass
class Content:
    """The content of a page; the module docstring describes the fields."""

    title: str
    characters: list
    expected: list
    maps: Maps
    head_dim: int
    parameters: int
    losses: np.ndarray
    probabilities: np.ndarray
    vocabulary: list
    norms: dict
    unit: str = "character"
    snapshots: list = field(default_factory=list)
    targets: dict = field(default_factory=dict)
    curve: list = field(default_factory=list)
    gradcheck: str | None = None

    @property
    def allowed(self):
        """Boolean (length, length): the keys that each query sees in any head."""
        return np.isfinite(self.maps.scores).any(axis=(0, 1))


def softmax_rows(scores):
    """Softmax of scores (..., keys) in float64; a row of only -inf has weights of 0."""
    scores = np.asarray(scores, np.float64)
    highest = scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isfinite(highest), highest, 0.0))
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total > 0, total, 1.0)


def render(content):
    """Render ``content`` as a string of HTML.

    Raises:
        ValueError: if a number is not finite.
    """
    try:
        payload = json.dumps(
            payload_of(content), ensure_ascii=True, allow_nan=False, separators=(",", ":")
        )
    except ValueError:
        raise ValueError(
            "the model computes values on this text that are not finite, as its weights are too large: "
            "train it with a smaller learning rate"
        ) from None
    for sign in "<>&":
        payload = payload.replace(sign, f"\\u{ord(sign):04x}")
    template = (files(__package__) / "explorer.html").read_text("utf-8")
    before, after = template.split("__PAYLOAD__")
    before = before.replace("__TITLE__", html.escape(f"{content.title} - tinyattn"))
    return before + payload + after


def payload_of(content):
    """The JSON object of the page, made of Python numbers, strings and lists."""
    allowed = content.allowed
    layers, heads = content.maps.scores.shape[:2]
    even = even_shares(content.characters, allowed)
    # Sorted by step: the best state of a run may be older than its last snapshots.
    steps = [
        *((maps.step, _step(maps, content, even, pack_levels)) for maps in content.snapshots),
        (content.maps.step, _step(content.maps, content, even, pack_maps)),
    ]
    steps.sort(key=lambda pair: pair[0] if content.snapshots else 0)
    return {
        "title": content.title,
        "unit": content.unit,
        "characters": list(content.characters),
        "expected": list(content.expected),
        "loss": float(content.maps.loss),
        "model": {
            "layers": layers,
            "heads": heads,
            "head_dim": int(content.head_dim),
            "parameters": int(content.parameters),
        },
        "allowed": pack(np.packbits(allowed.ravel())),
        "steps": [packed for _, packed in steps],
        "own": [step for step, _ in steps].index(content.maps.step),
        "targets": [
            {"position": int(position), "loss": float(content.losses[position]), **packed}
            for position, packed in sorted(content.targets.items())
        ],
        "predictions": _predictions(content),
        "behaviors": [
            {
                "key": one.key,
                "name": one.name,
                "definition": one.definition,
                "mark": _finite(cutoffs(even)[one.key]),
                "chance": _finite(even[one.key]),
                "without": one.without,
            }
            for one in BEHAVIORS
        ],
        "thresholds": THRESHOLDS,
        "curve": content.curve,
        "norms": content.norms,
        "gradcheck": content.gradcheck,
    }


def _step(maps, content, even, pack_all):
    shares = measure_heads(softmax_rows(maps.scores), content.characters, content.allowed)
    layers, heads = maps.scores.shape[:2]
    measured = [
        [{key: float(share[layer, head]) for key, share in shares.items()} for head in range(heads)]
        for layer in range(layers)
    ]
    return {
        "step": maps.step,
        "loss": float(maps.loss),
        "scores": pack_all(maps.scores[..., content.allowed]),
        "gradient": pack_all(maps.gradient[..., content.allowed]),
        "heads": [
            [
                {
                    "kind": kind_of(one, even),
                    "reason": reason_of(one, even),
                    "shares": {k: _finite(v) for k, v in one.items()},
                }
                for one in layer
            ]
            for layer in measured
        ],
    }


def _predictions(content):
    rows = []
    for loss, probabilities, after in zip(content.losses, content.probabilities, content.expected):
        order = np.argsort(-probabilities, kind="stable")[:TOP]
        probability = None if after is None else math.exp(-loss)
        top = [[content.vocabulary[k], float(probabilities[k])] for k in order]
        rows.append({"loss": _finite(loss), "probability": probability, "top": top})
    return rows


def pack_target(gradient, allowed):
    """Pack dL/dP (layers, heads, length, length) of one token's loss."""
    rows, parts = [], []
    for layer in gradient:
        reached = np.flatnonzero((layer * allowed).any(axis=(0, 2)))
        first, last = (int(reached[0]), int(reached[-1])) if reached.size else (0, -1)
        rows.append([first, last])
        inside = allowed.copy()
        inside[:first] = inside[last + 1 :] = False
        parts.append(layer[:, inside].ravel())
    return {"rows": rows, "gradient": pack(np.concatenate(parts).astype(np.float32))}


def pack(array):
    """Pack an array of 1-, 2- or 4-byte numbers for the page."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    planes = little.view(np.uint8).reshape(-1, array.dtype.itemsize).T.tobytes()
    return {
        "dtype": array.dtype.name,
        "data": base64.b64encode(zlib.compress(planes, 9)).decode("ascii"),
    }


def pack_maps(cells):
    """Pack cells (layers, heads, cells) as float32."""
    return pack(cells.astype(np.float32).ravel())


def pack_levels(cells):
    """Quantize and pack cells (layers, heads, cells): 65,535 evenly spaced levels per head, and level 0 for -inf."""
    cells = cells.astype(np.float64).reshape(-1, cells.shape[-1])
    finite = np.isfinite(cells)
    low = np.where(finite, cells, np.inf).min(axis=1)
    high = np.where(finite, cells, -np.inf).max(axis=1)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    span = np.where(high > low, high - low, 1.0)[:, None]
    position = np.where(finite, (cells - low[:, None]) / span, 0.0)
    levels = np.where(finite, 1 + np.rint(position * 65534), 0).astype(np.uint16)
    return {**pack(levels.ravel()), "low": low.tolist(), "high": high.tolist()}


def _finite(value):
    """Convert NaN, which JSON lacks, to None."""
    value = float(value)
    return value if math.isfinite(value) else None
