"""Check the rule or the kernel of a primitive on all its cases."""

import contextlib
import functools

import numpy as np

from ..autograd import PRIMITIVES, Tensor, reference
from ..autograd.primitive import registered_kernels
from ..backend import get_backend, is_array
from ..checker import gradient_report
from ..checker.culprit import call_of_primitive
from .cases import CASES
from .row import Row


def check_primitive(name, version, device=None, order=2, seed=0):
    """The ``Row`` of one primitive.

    Args:
        name: its name. A primitive without a case is a fault.
        version: ``"rule"`` or ``"kernel"``.
        device: the device to run on; the default device if None.
        order: 2 also checks the gradients of the gradients.
        seed: seed of inputs, cotangents and directions.

    >>> check_primitive("neg", "rule").passed
    True
    """
    row = Row(name, version)
    if name not in CASES:
        row.faults.append(f"{name} has no case: add inputs for it to tinyattn/survey/cases.py")
    declined = 0
    for position, case in enumerate(CASES.get(name, ())):
        inputs, parameters = on_device(case, device, seed + position)
        if version == "kernel" and not kernel_takes(name, inputs, parameters, device):
            declined += 1
            continue
        settings = {"order": min(order, case.order), "mode": case.mode, "seed": seed}
        check = functools.partial(check_case, name, inputs, parameters, **settings)
        with reference() if version == "rule" else contextlib.nullcontext():
            row.add(f"{name}({case})", check)
    if version == "kernel" and not row.cases and not row.faults:
        row.faults.append(f"the kernel of {name} declined all {declined} cases in float64")
    return row


def check_case(name, inputs, parameters, **settings):
    """The ``Report`` of one call of a primitive."""
    call, checked = call_of_primitive(PRIMITIVES[name], inputs, parameters)
    return gradient_report(call, checked, **settings)


def on_device(case, device=None, seed=0):
    """The inputs of a case as tensors on a device, and its parameters with their arrays there."""
    backend = get_backend(device)
    inputs = [
        Tensor(value, device=backend.device) if is_array(value) else value
        for value in case.draw(seed)
    ]
    parameters = {name: _with_arrays_on(backend, value) for name, value in case.parameters.items()}
    if "device" in parameters:
        parameters["device"] = backend.device
    return inputs, parameters


def _with_arrays_on(backend, value):
    if isinstance(value, tuple):
        return tuple(_with_arrays_on(backend, entry) for entry in value)
    return backend.asarray(value) if is_array(value) else value


def versions(name, device=None):
    """The versions of a primitive that can run on a device: its rule, and its kernel if there is one."""
    has_kernel = (name, get_backend(device).kind) in registered_kernels()
    return ("rule", "kernel") if has_kernel else ("rule",)


def kernel_takes(name, inputs, parameters, device=None):
    """Whether the kernel of a primitive accepts a call; if not, the rule runs."""
    forward, _ = registered_kernels()[name, get_backend(device).kind]
    arrays = [value._data if isinstance(value, Tensor) else value for value in inputs]
    with np.errstate(all="ignore"):
        return forward(*arrays, **parameters) is not NotImplemented
