"""What a model is given to read."""

from ..autograd import tensor


def as_ids(ids, model):
    """``ids`` as an array or a tensor: nested lists, which are on no device yet, go to the model's.

    >>> import tinyattn as ta
    >>> as_ids([[1, 2]], ta.nn.Linear(1, 1)).shape
    (1, 2)
    """
    return ids if hasattr(ids, "shape") else tensor(ids, device=model.device)
