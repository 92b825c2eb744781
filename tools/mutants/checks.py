"""The checks that kill mutants: gradcheck of rules, kernels against rules, values against recorded ones."""

import contextlib
import functools
import json
import re
import sys
import types
from pathlib import Path

import numpy as np

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES
from tinyattn.autograd.primitive import registered_kernels
from tinyattn.backend import blas
from tinyattn.kernels.portable.ring_attention import shard_positions
from tinyattn.survey.cases import CASES
from tinyattn.survey.primitives import check_case, on_device

from .extreme_check import check_extreme
from .extremes import EXTREMES
from .ranks import World

RECORD = Path(__file__).with_name("values.json")
TOLERANCE = {"float64": 1e-9, "float32": 2e-5}


class Killed(AssertionError):
    """A check failed: the mutant is killed."""


def check_ring_of_ranks(ranks=3):
    """Compare ring attention over several ranks, each a thread, with dense attention over the whole sequence."""
    random = np.random.default_rng(0)
    q, k, v, g = random.standard_normal((4, 2, 7, 3))
    for layout in ("contiguous", "zigzag"):
        positions = shard_positions(7, ranks, layout)
        for causal in (False, True):
            parameters = {"causal": causal, "scale": 0.6}
            with ta.reference():
                whole = _differentiated("attention", (q, k, v, None), g, parameters)
            world = World(ranks)

            def on_rank(rank, positions=positions, parameters=parameters, world=world):
                own = positions[rank]
                arrays = [np.ascontiguousarray(array[:, own]) for array in (q, k, v)]
                more = {**parameters, "communicator": world.rank(rank), "positions": positions}
                name = "distributed_ring_attention"
                return _differentiated(name, arrays, np.ascontiguousarray(g[:, own]), more)

            for rank, parts in enumerate(world.run(on_rank)):
                for part, array in zip(parts, whole, strict=True):
                    if not np.allclose(part, array[:, positions[rank]], rtol=0, atol=1e-9):
                        raise Killed(
                            "ring attention over several ranks differs from dense attention"
                        )


def _differentiated(name, inputs, g, parameters):
    tensors = [None if x is None else ta.tensor(x, requires_grad=True) for x in inputs]
    out = PRIMITIVES[name](*tensors, **parameters)
    gradients = ta.grad(out, [x for x in tensors if x is not None], ta.tensor(g))
    return [out.numpy(), *(gradient.numpy() for gradient in gradients)]


def check_rule(name, orders=(1, 2)):
    """Check the gradients of a rule by differences, and its values against the recorded ones."""
    for order in orders:
        for position, case in enumerate(CASES[name]):
            inputs, parameters = drawn(name, position)
            with ta.reference():
                if order == 1:
                    _check_value(name, position, inputs, parameters)
                settings = {"order": min(order, case.order), "mode": case.mode}
                report = check_case(name, inputs, parameters, **settings)
            if not report.passed:
                raise Killed(f"{name}: gradcheck of order {order}")
    with ta.reference():
        _check_extremes(name, "cpu")
        if name == "distributed_ring_attention":
            check_ring_of_ranks()


def _check_extremes(name, device):
    for extreme in EXTREMES:
        if extreme.primitive == name:
            for dtype in extreme.dtypes:
                check_extreme(extreme, device, dtype)


@functools.cache
def drawn(name, position, device="cpu", dtype="float64"):
    """The inputs of a case as tensors, and its parameters."""
    inputs, parameters = on_device(CASES[name][position], device, position)
    inputs = [
        value.astype(dtype).detach()
        if isinstance(value, ta.Tensor) and value.dtype.kind == "f"
        else value
        for value in inputs
    ]
    return inputs, parameters


def digest(out):
    """A number that depends on the value and position of every element of an output."""
    host = np.nan_to_num(out.numpy().astype(np.float64), neginf=-7.0, posinf=7.0)
    weights = np.cos(1.0 + 0.7 * np.arange(host.size)).reshape(host.shape)
    return float(np.sum(host * weights))


@functools.cache
def recorded():
    return json.loads(RECORD.read_text()) if RECORD.is_file() else {}


def _check_value(name, position, inputs, parameters):
    expected = recorded().get(f"{name} {CASES[name][position]}")
    if expected is not None:
        value = digest(PRIMITIVES[name](*inputs, **parameters))
        if not abs(value - expected) <= 1e-9 * max(1.0, abs(expected)):
            raise Killed(f"{name}: value {value} instead of {expected}")


def check_kernel(name, kind):
    """Compare a kernel with its rule, forward and backward, in two precisions and with several tile sizes."""
    taken = []
    for sizes in ("own", "tiny", "tiny in groups", "careful", "tiny and careful"):
        # One thread, so that products are split: unsplit ones are np.matmul itself.
        with tile_sizes(name, kind, sizes), blas.one_thread():
            for dtype in ("float64", "float32"):
                for position in range(len(CASES[name])):
                    taken.append(_compare(name, position, kind, dtype))
            _check_extremes(name, kind)
    if name == "distributed_ring_attention":
        check_ring_of_ranks()
    usual = _TAKEN.setdefault((name, kind), taken)
    if taken != usual or True not in taken:
        raise Killed(f"the kernel of {name} accepts other cases than before the change")


_TAKEN = {}  # (name, kind) -> which cases the unchanged kernel accepts


def _compare(name, position, kind, dtype):
    inputs, parameters = drawn(name, position, kind, dtype)
    forward, _ = registered_kernels()[name, kind]
    arrays = [value._data if isinstance(value, ta.Tensor) else value for value in inputs]
    before = [_bytes(array) for array in arrays]
    if forward(*arrays, **parameters) is NotImplemented:
        return False
    expected = _rule_results(name, position, kind, dtype)
    actual = _results(name, inputs, parameters)
    if [_bytes(array) for array in arrays] != before:
        raise Killed(f"the kernel of {name} changes its inputs")
    for one, other in zip(actual, expected, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise Killed(f"{name}: {one.shape} {one.dtype} instead of {other.shape} {other.dtype}")
        scale = max(1.0, float(np.max(np.abs(other), initial=0.0)))
        if not np.allclose(one, other, rtol=0, atol=TOLERANCE[dtype] * scale, equal_nan=True):
            raise Killed(f"the kernel of {name} differs from its rule")
    return True


def _bytes(value):
    return value.tobytes() if isinstance(value, np.ndarray) else None


@functools.cache
def _rule_results(name, position, kind, dtype):
    inputs, parameters = drawn(name, position, kind, dtype)
    with ta.reference():
        return _results(name, inputs, parameters)


def _results(name, inputs, parameters):
    """The output and the gradients as host arrays, twice from one graph: a kernel may not consume its residuals."""
    leaves = []
    for position, value in enumerate(inputs):
        if isinstance(value, ta.Tensor) and value.dtype.kind == "f":
            value = value.detach()
            value.requires_grad = PRIMITIVES[name].differentiable(position)
        leaves.append(value)
    wanted = [leaf for leaf in leaves if isinstance(leaf, ta.Tensor) and leaf.requires_grad]
    out = PRIMITIVES[name](*leaves, **parameters)
    cotangent = np.cos(2.0 + 1.3 * np.arange(out.size)).reshape(out.shape).astype(out.dtype)
    g = ta.tensor(cotangent, device=out.device)
    results = [out.numpy()]
    for retain_graph in (True, False):
        gradients = ta.grad(out, wanted, g, retain_graph=retain_graph)
        results += [gradient.numpy() for gradient in gradients]
    if g.numpy().tobytes() != cotangent.tobytes():
        raise Killed(f"the kernel of {name} changes its cotangent")
    return results


@contextlib.contextmanager
def tile_sizes(name, kind, sizes):
    """Make tiles and blocks tiny and numerical safeguards always on ("careful") inside the block.

    Sizes are the integer constants of at least 16 in the kernel's modules; constants with SAFE in their names are
    thresholds below which a safeguard is skipped. "tiny in groups" keeps sizes in bytes, so that several tiles are
    still processed together.
    """
    if sizes == "own":
        yield
        return
    own, defaults = [], []
    for module in _modules_of(name, kind):
        for constant, value in list(vars(module).items()):
            if not re.fullmatch(r"_?[A-Z][A-Z_0-9]*", constant) or isinstance(value, bool):
                continue
            new = value
            if isinstance(value, int) and value >= 16 and "tiny" in sizes:
                new = value if "groups" in sizes and "BYTES" in constant else 2
            elif isinstance(value, float) and "SAFE" in constant and "careful" in sizes:
                new = 0.01
            if new is not value:
                own.append((module, constant, value))
                setattr(module, constant, new)
        for function in vars(module).values():
            if isinstance(function, types.FunctionType) and function.__defaults__:
                defaults.append((function, function.__defaults__))
                if "tiny" in sizes:
                    function.__defaults__ = tuple(
                        2 if type(d) is int and d >= 16 else d for d in function.__defaults__
                    )
    try:
        yield
    finally:
        # In reverse order: a function that several modules import was changed several times.
        for module, constant, value in reversed(own):
            setattr(module, constant, value)
        for function, value in reversed(defaults):
            function.__defaults__ = value


@functools.cache
def _modules_of(name, kind):
    """The module of a kernel, and the modules of ``tinyattn.kernels`` that it imports from."""
    forward, _ = registered_kernels()[name, kind]
    modules = [sys.modules[forward.__module__]]
    for value in vars(modules[0]).values():
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        if module and module.__name__.startswith("tinyattn.kernels.") and module not in modules:
            modules.append(module)
    return modules
