"""What an attention head does, measured: six behaviours, each a share between 0 and 1.

A share is an average over the rows in which the behaviour is possible at all, so that a text without a
repeated character says nothing about heads that look for one. What a head that attends evenly would get
on the same text is measured as well: in a long text even attention is mostly long-range. A head is
therefore named after a behaviour when its share has gone a threshold's part of the way from the even
share to 1; ``uniform``, where even attention is the end of the way, has its threshold on the share itself.

The behaviours are those that studies of trained transformers report: neighbouring, first and distant
tokens and uniform attention (Clark et al. 2019, "What Does BERT Look At?", section 3), and induction
(Olsson et al. 2022, "In-context Learning and Induction Heads").
"""

from dataclasses import dataclass

import numpy as np

NEAR = 3
FAR = 16
THRESHOLDS = (
    "A head is named after a behaviour when its share has gone 30 % of the way from what even attention "
    "gives to 100 %; uniform attention when its entropy is 90 % of even attention's or more."
)


@dataclass(frozen=True)
class Behaviour:
    """A behaviour's ``key`` and ``name``, its ``definition`` in words, its ``threshold``, and what a text is
    ``without`` in which it cannot be measured."""

    key: str
    name: str
    definition: str
    threshold: float
    without: str


BEHAVIOURS = (
    Behaviour(
        "neighbour",
        "neighbour",
        f"Weight on other keys at most {NEAR} characters away.",
        0.3,
        "no character may attend to a neighbour",
    ),
    Behaviour(
        "long_range",
        "long-range",
        f"Weight on keys {FAR} or more characters away.",
        0.3,
        f"no character may attend to one {FAR} or more away",
    ),
    Behaviour(
        "uniform",
        "uniform",
        "Entropy of the row's weights over the entropy of even weights on the keys it may attend to.",
        0.9,
        "no character may attend to two",
    ),
    Behaviour(
        "first",
        "first character",
        "Weight on the text's first character, for later queries.",
        0.3,
        "no later character may attend to the first",
    ),
    Behaviour(
        "same",
        "same character",
        "Weight on other places that hold the query's own character.",
        0.3,
        "no character may attend to another of its kind",
    ),
    Behaviour(
        "induction",
        "induction",
        "Weight on the keys that come right after an earlier place with the query's character.",
        0.3,
        "no character comes a second time",
    ),
)


def target_cells(characters):
    """The cells that each behaviour counts, a dict of key to a boolean array (length, length).

    Rows are queries, columns keys. ``uniform`` has no cells: it is measured by entropy.

    >>> target_cells("abab")["induction"].astype(int).tolist()
    [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    """
    length = len(characters)
    query, key = np.arange(length)[:, None], np.arange(length)[None, :]
    ids = np.unique(list(characters), return_inverse=True)[1]
    same = ids[:, None] == ids[None, :]
    # after[i, j]: the character before key j is the query's own, and stands earlier than the query.
    after = np.zeros((length, length), bool)
    after[:, 1:] = same[:, :-1] & (key[:, :-1] < query)
    return {
        "neighbour": (query != key) & (np.abs(query - key) <= NEAR),
        "long_range": np.abs(query - key) >= FAR,
        "first": (key == 0) & (query > 0),
        "same": same & (query != key),
        "induction": after & (key <= query),
    }


def measure_heads(weights, characters, allowed=None):
    """The shares of every head, a dict of behaviour key to an array (layers, heads).

    Args:
        weights: attention weights (layers, heads, length, length), rows adding to 1.
        characters: the text, ``length`` characters.
        allowed: boolean (length, length), where a query may attend; by default wherever any head's
            weight is above 0.

    Returns:
        Shares in 0..1; NaN throughout for a behaviour that no row of this text allows.

    >>> weights = np.zeros((1, 1, 3, 3))
    >>> weights[0, 0, [0, 1, 2], [0, 0, 1]] = 1  # each character attends to the one before it
    >>> measure_heads(weights, "abc")["neighbour"].tolist()
    [[1.0]]
    """
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 4 or weights.shape[2:] != (len(characters),) * 2:
        raise ValueError(
            f"weights of shape {weights.shape} for {len(characters)} characters: expected "
            "(layers, heads, length, length) with length the number of characters"
        )
    if allowed is None:
        allowed = (weights > 0).any(axis=(0, 1))
    shares = {}
    for key, cells in target_cells(characters).items():
        cells = cells & allowed
        rows = cells.any(axis=1)
        inside = np.where(cells, weights, 0.0).sum(axis=-1)[..., rows]
        shares[key] = _mean(inside)
    count = allowed.sum(axis=1)
    rows = count > 1
    terms = weights * np.log(np.where(weights > 0, weights, 1.0))
    entropy = -terms.sum(axis=-1)[..., rows]
    shares["uniform"] = _mean(entropy / np.log(count[rows]))
    return {behaviour.key: shares[behaviour.key] for behaviour in BEHAVIOURS}


def even_shares(characters, allowed):
    """What a head that attends evenly gets on this text, a dict of behaviour key to a number."""
    count = allowed.sum(axis=1, keepdims=True)
    even = np.where(allowed, 1.0 / np.maximum(count, 1), 0.0)
    shares = measure_heads(even[None, None], characters, allowed)
    return {key: float(share[0, 0]) for key, share in shares.items()}


def marks(even):
    """The share from which a head is named after each behaviour, given the even shares."""
    return {
        one.key: one.threshold
        if one.key == "uniform"
        else even[one.key] + one.threshold * (1 - even[one.key])
        for one in BEHAVIOURS
    }


def kind_of(shares, even):
    """The name of the behaviour that goes furthest beyond its threshold, or "mixed" if none does.

    Args:
        shares: the head's shares, a dict of behaviour key to a number, NaN where not measured.
        even: the shares of even attention on the same text, likewise.
    """
    behaviour, progress = _furthest(shares, even)
    return behaviour.name if progress >= 1 else "mixed"


def reason_of(shares, even):
    """Why a head has its ``kind_of``: the share that goes furthest, and the one needed on this text.

    The same share may be enough on one text and not on another, where even attention has more of it.

    >>> even = {**dict.fromkeys(("long_range", "uniform", "first", "same", "induction"), 0.1), "neighbour": 0.4}
    >>> reason_of({**even, "neighbour": 0.55}, even), reason_of({**even, "neighbour": 0.6}, even)
    ('closest: neighbour 55 %, 58 % needed', 'neighbour 60 %, 58 % needed')
    """
    behaviour, progress = _furthest(shares, even)
    if behaviour is None:
        return "nothing can be measured on this text"
    share, needed = shares[behaviour.key], marks(even)[behaviour.key]
    closest = "" if progress >= 1 else "closest: "
    return f"{closest}{behaviour.name} {_percent(share)}, {_percent(needed)} needed"


def _furthest(shares, even):
    """The behaviour whose share goes furthest on the way to its threshold, and that part of the way."""
    furthest, best = None, -np.inf
    for behaviour in BEHAVIOURS:
        share, start = shares[behaviour.key], even[behaviour.key]
        if behaviour.key == "uniform":
            way = share
        else:
            way = (share - start) / (1 - start) if start < 1 else 0.0
        if way / behaviour.threshold >= best:
            furthest, best = behaviour, way / behaviour.threshold
    return furthest, best


def _percent(share):
    return f"{100 * share:.0f} %" if share > 0.0995 else f"{100 * share:.1f} %"


def _mean(values):
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    return values.mean(axis=-1)
