"""Classification of attention heads by six behaviors, each measured as a share between 0 and 1.

A share is the mean over the rows in which the behavior is possible, so that a text without repeated tokens does
not count against induction heads. The baseline is the share of uniform attention on the same text: in a long text,
uniform attention is mostly long-range. With the baseline b, a head is classified as a behavior if its share is at
least b + threshold (1 - b). For ``uniform``, where the baseline is 1, the threshold applies to the share itself.

The behaviors are those reported for trained transformers: neighboring, first and distant tokens and uniform attention
(Clark et al. 2019, "What Does BERT Look At?", section 3), and induction (Olsson et al. 2022, "In-context Learning and
Induction Heads").
"""

from dataclasses import dataclass

import numpy as np

NEAR = 3
FAR = 16
THRESHOLDS = (
    "A head is classified as a behavior if its share exceeds the baseline, the share of uniform attention, by 30 % of "
    "the difference to 100 %; as uniform if its entropy is at least 90 % of that of uniform attention."
)


@dataclass(frozen=True)
class Behavior:
    """A behavior: ``key``, ``name``, ``definition`` in words, ``threshold``, and ``without``, the reason why it cannot
    be measured on some texts."""

    key: str
    name: str
    definition: str
    threshold: float
    without: str


BEHAVIORS = (
    Behavior(
        "neighbor",
        "neighbor",
        f"Weight on other keys at most {NEAR} tokens away.",
        0.3,
        "no token can attend to a neighbor",
    ),
    Behavior(
        "long_range",
        "long-range",
        f"Weight on keys {FAR} or more tokens away.",
        0.3,
        f"no token can attend to one {FAR} or more away",
    ),
    Behavior(
        "uniform",
        "uniform",
        "Entropy of the row's weights divided by the entropy of uniform weights on its visible keys.",
        0.9,
        "no token can attend to two keys",
    ),
    Behavior(
        "first",
        "first token",
        "Weight on the text's first token, for later queries.",
        0.3,
        "no later token can attend to the first",
    ),
    Behavior(
        "same",
        "same token",
        "Weight on other positions with the same token as the query.",
        0.3,
        "no token can attend to an equal one",
    ),
    Behavior(
        "induction",
        "induction",
        "Weight on the keys directly after an earlier occurrence of the query's token.",
        0.3,
        "no token occurs twice",
    ),
)


def target_cells(tokens):
    """Cells whose weights count for each behavior: a dict of key to a boolean array (length, length).

    Rows are queries, columns are keys. ``uniform`` has no cells: it is measured by entropy.

    >>> target_cells("abab")["induction"].astype(int).tolist()
    [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    """
    length = len(tokens)
    query, key = np.arange(length)[:, None], np.arange(length)[None, :]
    ids = np.unique(list(tokens), return_inverse=True)[1]
    same = ids[:, None] == ids[None, :]
    # after[i, j]: the token before key j equals that of query i, at a position before i.
    after = np.zeros((length, length), bool)
    after[:, 1:] = same[:, :-1] & (key[:, :-1] < query)
    return {
        "neighbor": (query != key) & (np.abs(query - key) <= NEAR),
        "long_range": np.abs(query - key) >= FAR,
        "first": (key == 0) & (query > 0),
        "same": same & (query != key),
        "induction": after & (key <= query),
    }


def measure_heads(weights, tokens, allowed=None):
    """Measure the shares of every head: a dict of behavior key to an array (layers, heads).

    Args:
        weights: attention weights (layers, heads, length, length); rows sum to 1.
        tokens: the text, ``length`` tokens.
        allowed: boolean (length, length), the keys that each query sees; by default those to which any head gives a
            positive weight.

    Returns:
        Shares from 0 to 1; NaN for a behavior that is not possible in any row of this text.

    >>> weights = np.zeros((1, 1, 3, 3))
    >>> weights[0, 0, [0, 1, 2], [0, 0, 1]] = 1  # each token attends to the one before it
    >>> measure_heads(weights, "abc")["neighbor"].tolist()
    [[1.0]]
    """
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 4 or weights.shape[2:] != (len(tokens),) * 2:
        raise ValueError(
            f"weights of shape {weights.shape} for {len(tokens)} tokens: expected "
            "(layers, heads, length, length) with length the number of tokens"
        )
    if allowed is None:
        allowed = (weights > 0).any(axis=(0, 1))
    shares = {}
    for key, cells in target_cells(tokens).items():
        cells = cells & allowed
        rows = cells.any(axis=1)
        inside = np.where(cells, weights, 0.0).sum(axis=-1)[..., rows]
        shares[key] = _mean(inside)
    count = allowed.sum(axis=1)
    rows = count > 1
    terms = weights * np.log(np.where(weights > 0, weights, 1.0))
    entropy = -terms.sum(axis=-1)[..., rows]
    shares["uniform"] = _mean(entropy / np.log(count[rows]))
    return {behavior.key: shares[behavior.key] for behavior in BEHAVIORS}


def even_shares(tokens, allowed):
    """Baseline: the shares of uniform attention on this text, a dict of behavior key to a number."""
    count = allowed.sum(axis=1, keepdims=True)
    even = np.where(allowed, 1.0 / np.maximum(count, 1), 0.0)
    shares = measure_heads(even[None, None], tokens, allowed)
    return {key: float(share[0, 0]) for key, share in shares.items()}


def cutoffs(even):
    """Smallest share of a head classified as each behavior, given the ``even_shares`` of the text."""
    return {
        one.key: one.threshold
        if one.key == "uniform"
        else even[one.key] + one.threshold * (1 - even[one.key])
        for one in BEHAVIORS
    }


def kind_of(shares, even):
    """Classify a head: the name of the behavior that exceeds its threshold most, or "mixed" if none does.

    Args:
        shares: shares of the head, a dict of behavior key to a number, NaN if not measured.
        even: the ``even_shares`` of the same text.
    """
    behavior, progress = _furthest(shares, even)
    return behavior.name if progress >= 1 else "mixed"


def reason_of(shares, even):
    """Reason for the ``kind_of`` a head: the behavior closest to or furthest above its threshold, and both shares.

    The threshold depends on the text, since the baseline does.

    >>> even = {**dict.fromkeys(("long_range", "uniform", "first", "same", "induction"), 0.1), "neighbor": 0.4}
    >>> reason_of({**even, "neighbor": 0.55}, even), reason_of({**even, "neighbor": 0.6}, even)
    ('closest: neighbor 55 %, 58 % needed', 'neighbor 60 %, 58 % needed')
    """
    behavior, progress = _furthest(shares, even)
    if behavior is None:
        return "nothing can be measured on this text"
    share, needed = shares[behavior.key], cutoffs(even)[behavior.key]
    closest = "" if progress >= 1 else "closest: "
    return f"{closest}{behavior.name} {_percent(share)}, {_percent(needed)} needed"


def _furthest(shares, even):
    """The behavior with the largest progress from its baseline (0) to its threshold (1), and that progress."""
    furthest, best = None, -np.inf
    for behavior in BEHAVIORS:
        share, start = shares[behavior.key], even[behavior.key]
        if behavior.key != "uniform":
            share = (share - start) / (1 - start) if start < 1 else 0.0
        if share / behavior.threshold >= best:
            furthest, best = behavior, share / behavior.threshold
    return furthest, best


def _percent(share):
    return f"{100 * share:.0f} %" if share > 0.0995 else f"{100 * share:.1f} %"


def _mean(values):
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    return values.mean(axis=-1)
