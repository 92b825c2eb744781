"""What a model is given to read."""

from ..autograd import tensor


def as_ids(ids, model):
    """``ids`` as an array or a tensor: nested lists, which are on no device yet, go to the model's.

    Raises:
        ValueError: unless there is an axis of one token or more.

    >>> import tinyattn as ta
    >>> as_ids([[1, 2]], ta.nn.Linear(1, 1)).shape
    (1, 2)
    """
    if not hasattr(ids, "shape"):
        ids = tensor(ids, device=model.device)
    if not ids.shape or ids.shape[-1] == 0:
        raise ValueError(
            f"the model got ids of shape {ids.shape}: expected (..., length), with one token at least"
        )
    return ids
