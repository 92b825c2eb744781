"""Parameter groups for weight decay."""

from ..backend import listed


def weight_decay_groups(named_parameters, weight_decay):
    """Split parameters into two groups: matrices with weight decay; biases, gains and other vectors without.

    Args:
        named_parameters: ``model.named_parameters()``.
        weight_decay: weight decay of the matrices.

    Returns:
        A list of the non-empty groups, for ``AdamW(groups, lr=...)``.

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
                f"expected a list of (name, parameter), got a {type(pair).__name__} in it: write "
                "model.named_parameters()"
            )
    groups = [
        {"params": [pair for pair in named if pair[1].ndim >= 2], "weight_decay": weight_decay},
        {"params": [pair for pair in named if pair[1].ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
