"""Which parameters an optimiser treats alike."""

from ..backend import listed


def weight_decay_groups(named_parameters, weight_decay):
    """Two groups: matrices, which decay, and biases, norms and other vectors, which do not.

    Args:
        named_parameters: ``model.named_parameters()``.
        weight_decay: of the matrices.

    Returns:
        A list of groups, without empty ones, for ``AdamW(groups, lr=...)``.

    Raises:
        TypeError: for parameters without names.

    >>> from tinyattn import nn
    >>> groups = weight_decay_groups(nn.Linear(2, 3).named_parameters(), 0.1)
    >>> [([name for name, _ in group["params"]], group["weight_decay"]) for group in groups]
    [(['weight'], 0.1), (['bias'], 0.0)]
    """
    named = listed(named_parameters, "named_parameters")
    for pair in named:
        if not isinstance(pair, tuple):
            raise TypeError(
                f"expected pairs of name and parameter, got {type(pair).__name__} among them: write "
                "model.named_parameters()"
            )
    groups = [
        {"params": [pair for pair in named if pair[1].ndim >= 2], "weight_decay": weight_decay},
        {"params": [pair for pair in named if pair[1].ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
