"""Writes the explorer: one HTML file with the bundle of ``web/`` and a run's numbers in it.

The numbers go in as JSON in a script element of a type that no browser runs, with every ``<``, ``>``
and ``&`` written as an escape, so that no text can end the element or be taken for markup; the page's
content policy moreover allows the one script of the bundle and nothing else.

Stored for every head are the scores S and the gradients dL/dP in float32, over the cells that may be
attended to; the page computes P, dL/dS and P*dL/dP from them in float64. A map takes 4 bytes a cell,
less what deflating its byte planes saves.

The JSON object:
    title, characters, expected (what each position is to predict, or null), loss, gradcheck (a link or null)
    model        layers, heads, head_dim, parameters
    allowed      packed bits, length*length, row by row: 1 where a query may attend to a key
    own          which of the steps is the run's own state: the others are snapshots, in 16 bits
    steps        in order: step, loss, scores, gradient, heads (kind, reason, shares)
    targets      losses of single characters: position, loss, rows (first and last per layer outside
                 of which the gradient is 0), gradient (layer by layer, head by head, those rows)
    predictions  a position: loss, probability (of what came), top (character and probability)
    behaviours   key, name, definition, chance (what even attention gives), mark (the threshold),
                 without (what the text lacks where it has no share)
    thresholds   how a head gets its name, a sentence
    curve        step, loss, val_loss
    norms        places (names of layers) and series (name, values)
An array is {dtype, data}: the byte planes of its little-endian values, deflated, in base64; a 16-bit
map adds low and high, a number a head.
"""

import base64
import html
import json
import math
import zlib
from dataclasses import dataclass, field
from importlib.resources import files

import numpy as np

from .heads import BEHAVIOURS, THRESHOLDS, even_shares, kind_of, marks, measure_heads, reason_of

TOP = 5
MEGABYTE = 1_000_000


@dataclass
class Maps:
    """The attention of all heads at one step of training.

    ``scores`` (scaled, -inf where masked) and ``gradient`` (dL/dP) have the shape
    (layers, heads, length, length).
    """

    step: int | str
    loss: float
    scores: np.ndarray
    gradient: np.ndarray


@dataclass
class Content:
    """What a page shows; see the module for the meaning of the parts."""

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
    snapshots: list = field(default_factory=list)
    targets: dict = field(default_factory=dict)
    curve: list = field(default_factory=list)
    gradcheck: str | None = None

    @property
    def allowed(self):
        """Boolean (length, length): where any head may attend."""
        return np.isfinite(self.maps.scores).any(axis=(0, 1))


def softmax_rows(scores):
    """Weights of scores (..., keys) in float64; a row of -inf only gives weights of 0."""
    scores = np.asarray(scores, np.float64)
    highest = scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isfinite(highest), highest, 0.0))
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total > 0, total, 1.0)


def render(content):
    """The page of ``content``, a string of HTML.

    Raises:
        ValueError: where a number is not finite.
    """
    try:
        payload = json.dumps(
            payload_of(content), ensure_ascii=True, allow_nan=False, separators=(",", ":")
        )
    except ValueError:
        raise ValueError(
            "the model computes numbers on this text that are not finite: its weights are too large, "
            "train it again with a smaller learning rate"
        ) from None
    for sign in "<>&":
        payload = payload.replace(sign, f"\\u{ord(sign):04x}")
    template = (files(__package__) / "explorer.html").read_text("utf-8")
    before, after = template.split("__PAYLOAD__")
    before = before.replace("__TITLE__", html.escape(f"{content.title} - tinyattn"))
    return before + payload + after


def payload_of(content):
    """The page's JSON object, from Python numbers, strings and lists."""
    allowed = content.allowed
    layers, heads = content.maps.scores.shape[:2]
    even = even_shares(content.characters, allowed)
    # In the order of training: a run's best state may be older than its last snapshots.
    steps = [
        *((maps.step, _step(maps, content, even, pack_levels)) for maps in content.snapshots),
        (content.maps.step, _step(content.maps, content, even, pack_maps)),
    ]
    steps.sort(key=lambda pair: pair[0] if content.snapshots else 0)
    return {
        "title": content.title,
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
        "behaviours": [
            {
                "key": one.key,
                "name": one.name,
                "definition": one.definition,
                "mark": _finite(marks(even)[one.key]),
                "chance": _finite(even[one.key]),
                "without": one.without,
            }
            for one in BEHAVIOURS
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
    ids = {character: index for index, character in enumerate(content.vocabulary)}
    for loss, probabilities, after in zip(content.losses, content.probabilities, content.expected):
        order = np.argsort(-probabilities, kind="stable")[:TOP]
        came = None if after is None else float(probabilities[ids[after]])
        top = [[content.vocabulary[k], float(probabilities[k])] for k in order]
        rows.append({"loss": _finite(loss), "probability": came, "top": top})
    return rows


def pack_target(gradient, allowed):
    """The stored form of one character's dL/dP (layers, heads, length, length)."""
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
    """An array of 1-, 2- or 4-byte numbers as the page reads it."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    planes = little.view(np.uint8).reshape(-1, array.dtype.itemsize).T.tobytes()
    return {
        "dtype": array.dtype.name,
        "data": base64.b64encode(zlib.compress(planes, 9)).decode("ascii"),
    }


def pack_maps(cells):
    """Cells (layers, heads, cells) as float32."""
    return pack(cells.astype(np.float32).ravel())


def pack_levels(cells):
    """Cells (layers, heads, cells) in 65,535 even levels a head, and level 0 for -inf."""
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
    """JSON has no NaN: what could not be measured is null."""
    value = float(value)
    return value if math.isfinite(value) else None
