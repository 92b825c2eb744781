"""Conversion of token ids."""

from ..autograd import tensor


def as_ids(ids, model):
    """Convert nested lists of ids to a tensor on the model's device; arrays and tensors are returned unchanged.

    Raises:
        ValueError: unless the last axis has at least one token.

    >>> import tinyattn as ta
    >>> as_ids([[1, 2]], ta.nn.Linear(1, 1)).shape
    (1, 2)
    """
    if not hasattr(ids, "shape"):
        ids = tensor(ids, device=model.device)
    if not ids.shape or ids.shape[-1] == 0:
        raise ValueError(
            f"the model got ids of shape {ids.shape}: expected (..., length), with at least one token"
        )
    return ids
