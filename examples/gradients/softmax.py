"""Softmax and its backward pass in NumPy, for `tinyattn gradcheck examples/gradients/softmax.py:...`."""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(g, x):
    y = softmax(x)
    return y * (g - np.sum(g * y, axis=-1, keepdims=True))
