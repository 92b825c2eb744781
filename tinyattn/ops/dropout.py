"""Dropout with a mask that is computed from a key, not stored."""

import numpy as np

from ..autograd import Tensor, primitive
from ..backend import array_namespace, default_random
from ..backend.counter import keep_mask


def dropout(x, p=0.5, training=True):
    """Zero each element of ``x`` with probability ``p`` and divide the others by ``1 - p``.

    The expectation of each element is unchanged, so that no rescaling is needed in eval mode.

    Args:
        x: a tensor of any shape.
        p: the probability of an element being dropped, in [0, 1]; for 1 the output and its gradients are zero.
        training: if False, or if ``p`` is 0, ``x`` is returned unchanged, without drawing random numbers.

    Raises:
        ValueError: for ``p`` outside [0, 1].

    Source: N. Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (2014),
    section 10, for scaling during training.

    >>> import tinyattn as ta
    >>> _ = ta.manual_seed(0)
    >>> y = ta.dropout(ta.tensor([1.0] * 1000), p=0.25)
    >>> bool(0.2 < (y == 0).mean() < 0.3), f"{y.numpy().max():.3f}"
    (True, '1.333')
    """
    check_probability(p, "p")
    if p == 0 or not training:
        return x if isinstance(x, Tensor) else Tensor(x)
    return dropout_by_key(x, p=p, key=default_random().key())


@primitive(name="dropout")
def dropout_by_key(x, /, *, p, key):
    """``x / (1 - p)`` where the mask keeps an element, 0 elsewhere.

    The mask is a function of the key and an element's index (counter-based random numbers, ``backend/counter.py``), so
    that backward, another device, or a tile of a larger array can recompute it.

    Backward. The output is D x with a diagonal matrix D of entries 0 and 1 / (1 - p). So dx = D^T g = D g: dropout
    of the cotangent with the same key.

    >>> import numpy as np
    >>> dropout_by_key.forward(np.ones(6), p=0.5, key=3)
    array([0., 0., 2., 0., 2., 2.])
    """
    xp = array_namespace(x)
    if p == 1:
        return xp.zeros_like(x)
    counter = xp.arange(x.size, dtype=np.uint32).reshape(x.shape)
    return xp.where(keep_mask(counter, key, p), x * (1 / (1 - p)), 0)


@dropout_by_key.vjp
def dropout_vjp(g, _out, _x, *, p, key):
    return dropout_by_key.rule(g, p=p, key=key)


def check_probability(p, name):
    """Raise ValueError unless ``p`` is in [0, 1]."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout got {name}={p}: expected a probability between 0 and 1")
