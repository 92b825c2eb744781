"""Hooks stay registered after their handles are deleted."""

import numpy as np

import tinyattn as ta
from tinyattn import nn


def test_hooks_outlive_their_handles():
    x = ta.tensor(np.array([3.0]), requires_grad=True)
    seen = []
    for number in range(5):
        x.register_hook(lambda gradient, number=number: seen.append(number))
    (x * x).sum().backward()
    assert seen == [0, 1, 2, 3, 4]


def test_a_removed_hook_is_gone_and_the_others_stay():
    x = ta.tensor(np.array([3.0]), requires_grad=True)
    y = x * x
    seen = []
    handles = [y.register_hook(lambda g, n=n: seen.append(n)) for n in range(3)]
    handles[1].remove()
    handles[1].remove()
    y.sum().backward()
    assert seen == [0, 2]


def test_forward_hooks_outlive_their_handles():
    module = nn.Identity()
    seen = []
    for number in range(3):
        module.register_forward_hook(lambda *_, number=number: seen.append(number))
    module(ta.tensor([1.0]))
    assert seen == [0, 1, 2]
