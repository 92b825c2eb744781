"""Gradient checkers on fifty right functions and fifty planted mistakes: false alarms, misses, time.

All check the same NumPy code, each with its defaults, in float64: a pair for tinyattn, a ``torch.autograd.Function``, a
``custom_vjp`` around ``pure_callback``, a primitive of HIPS autograd. Times are processor time.
"""

import functools
import importlib.util
import os
import time
import warnings

import numpy as np

from .peers.gradient_cases import MISTAKES, right_cases, wrong_cases

RIGHT, WRONG, CANNOT_TELL = "right", "wrong", "cannot tell"


def run(quick=False):
    """Print the table and return the counts and times as data."""
    results = {}
    heads = ["false alarms", "misses", "cannot tell", "time", "a million elements"]
    print(f"{'':30s} " + " ".join(f"{head:>18s}" for head in heads))
    step = 7 if quick else 1  # each scale and each mistake
    for name, check in _checkers().items():
        results[name] = row = _row(check, right_cases()[::step], wrong_cases()[::step])
        row["million"] = _seconds_at_a_million(check, 10**4 if quick else 10**6, name)
        unsure = row["unsure of right"] + row["unsure of wrong"]
        million = "-" if row["million"] is None else f"{row['million']:.2f} s"
        print(
            f"{name:30s} {row['false alarms']:18d} {row['misses']:18d} {unsure:18d} "
            f"{row['seconds']:16.2f} s {million:>18s}",
            flush=True,
        )
    print("\nmisses by mistake")
    for mistake in MISTAKES:
        words = [f"{name} {row['missed'].get(mistake, 0)}" for name, row in results.items()]
        print(f"  {mistake:26s} {', '.join(words)}")
    return {"results": results}


def _row(check, right, wrong):
    started = time.process_time()
    on_right = [check(case) for case in right]
    on_wrong = [check(case) for case in wrong]
    missed = [
        case.mistake for case, verdict in zip(wrong, on_wrong, strict=True) if verdict == RIGHT
    ]
    return {
        "functions": len(right),
        "mistakes": len(wrong),
        "false alarms": on_right.count(WRONG),
        "misses": len(missed),
        "unsure of right": on_right.count(CANNOT_TELL),
        "unsure of wrong": on_wrong.count(CANNOT_TELL),
        "missed": {mistake: missed.count(mistake) for mistake in set(missed)},
        "alarms": [c.name for c, verdict in zip(right, on_right, strict=True) if verdict == WRONG],
        "seconds": time.process_time() - started,
    }


def _seconds_at_a_million(check, size, name):
    """The time for x sin x at that many elements; None for those that look at each element."""
    if name in ("tinyattn", "torch gradcheck"):
        return None
    from .peers.gradient_cases import Case

    x = np.random.default_rng(0).standard_normal(size)
    case = Case(
        "large",
        lambda x: x * np.sin(x),
        lambda g, x: (g * (np.sin(x) + x * np.cos(x)),),
        [x],
    )
    check(Case("small", case.forward, case.backward, [x[:10]]))  # imports and compiles
    started = time.process_time()
    check(case)
    return time.process_time() - started


def _checkers():
    """``check(case)`` by name, for those that are installed; it returns a verdict."""
    checkers = {"tinyattn": tinyattn, "tinyattn fast": functools.partial(tinyattn, mode="fast")}
    if _installed("torch"):
        checkers["torch gradcheck"] = torch
        checkers["torch gradcheck, fast mode"] = functools.partial(torch, fast_mode=True)
    if len(os.sched_getaffinity(0)) < 2:
        print("jax is left out: on one core its callbacks deadlock")
    elif _installed("jax"):
        checkers["jax check_grads"] = jax
    if _installed("autograd"):
        checkers["autograd check_grads"] = autograd
    return checkers


def _installed(name):
    if importlib.util.find_spec(name) is None:
        print(f"{name} is not installed and is left out")
        return False
    return True


def tinyattn(case, mode="full"):
    from tinyattn.checker import GradcheckError, gradient_report

    pair = (case.forward, case.backward)
    try:
        return gradient_report(pair, case.arrays, mode=mode).verdict
    except GradcheckError:
        return WRONG


def torch(case, fast_mode=False):
    import torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            ctx.save_for_backward(*tensors)
            return torch.from_numpy(np.asarray(case.forward(*[t.numpy() for t in tensors])))

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            arrays = [tensor.numpy() for tensor in ctx.saved_tensors]
            return tuple(map(torch.from_numpy, case.backward(g.numpy(), *arrays)))

    tensors = [torch.tensor(array, requires_grad=True) for array in case.arrays]
    passed = torch.autograd.gradcheck(
        Function.apply, tensors, raise_exception=False, fast_mode=fast_mode
    )
    return RIGHT if passed else WRONG


def jax(case):
    import jax
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)

    def shaped(values):
        return jax.ShapeDtypeStruct(values.shape, values.dtype)

    output = shaped(np.asarray(case.forward(*case.arrays)))
    inputs = tuple(shaped(array) for array in case.arrays)

    def on_host(function, shapes, *arrays):
        def call(*given):
            return function(*map(np.asarray, given))

        return jax.pure_callback(call, shapes, *arrays)

    function = jax.custom_vjp(lambda *arrays: on_host(case.forward, output, *arrays))
    function.defvjp(
        lambda *arrays: (on_host(case.forward, output, *arrays), arrays),
        lambda arrays, g: on_host(case.backward, inputs, g, *arrays),
    )
    try:
        check_grads(function, tuple(map(jax.numpy.array, case.arrays)), order=1, modes=["rev"])
    except AssertionError:
        return WRONG
    return RIGHT


def autograd(case):
    from autograd.extend import defvjp, primitive
    from autograd.test_util import check_grads

    function = primitive(case.forward)
    defvjp(
        function,
        *[
            lambda _, *arrays, position=position: lambda g: case.backward(g, *arrays)[position]
            for position in range(len(case.arrays))
        ],
    )
    np.random.seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_grads(function, modes=["rev"], order=1)(*case.arrays)
    except AssertionError:
        return WRONG
    return RIGHT
