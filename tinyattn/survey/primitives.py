"""Every primitive in turn: its rule and its kernel, first and second order, over the table of cases."""

import contextlib
import time
from dataclasses import dataclass, field

import numpy as np

from ..autograd import PRIMITIVES, Tensor, reference
from ..autograd.primitive import registered_kernels
from ..backend import get_backend, is_array
from ..checker import gradient_report
from ..checker.report import GradcheckError
from .cases import CASES

TOLERANCES = {"rtol": 1e-6, "atol": 1e-8}


@dataclass
class Row:
    """One line of the survey's table."""

    name: str
    version: str  # "rule", "kernel" or "block"
    cases: int = 0
    absolute_error: float = 0.0
    relative_error: float = 0.0
    seconds: float = 0.0
    evaluations: int = 0
    kinks: int = 0
    faults: list = field(default_factory=list)  # what went wrong, in words

    @property
    def passed(self):
        return not self.faults

    def add(self, report):
        """Take one check into account."""
        self.cases += 1
        self.absolute_error = max(self.absolute_error, report.absolute_error)
        self.relative_error = max(self.relative_error, report.relative_error)
        self.evaluations += report.evaluations
        self.kinks += len(report.kinks)
        if not report.passed:
            self.faults.append(str(report.error(op=self.name)))


def survey_primitives(names=None, device=None, order=2, seed=0):
    """Check primitives one after the other, by rule and by kernel; gives a ``Row`` for each as it is done.

    Args:
        names: which; all by default. A primitive without a case gives a row that says so.
        device: where; the default device by default.
        order: 2 checks the gradients of the gradients as well.

    >>> [row.passed for row in survey_primitives(["neg"])]
    [True]
    """
    for name in sorted(PRIMITIVES) if names is None else names:
        yield survey_primitive(name, "rule", device, order, seed)
        if has_kernel(name, device):
            yield survey_primitive(name, "kernel", device, order, seed)


def survey_primitive(name, version, device=None, order=2, seed=0):
    """All cases of one primitive, by its rule or with its kernel."""
    row = Row(name, version)
    started = time.perf_counter()
    if name not in CASES:
        row.faults.append(f"{name} has no case: add inputs for it to tinyattn/survey/cases.py")
    declined = []
    for position, case in enumerate(CASES.get(name, ())):
        inputs, parameters = on_device(case, device, seed + position)
        if version == "kernel" and not kernel_takes(name, inputs, parameters, device):
            declined.append(case)
            continue
        mode = reference() if version == "rule" else contextlib.nullcontext()
        try:
            with mode:
                settings = {"order": min(order, case.order), "mode": case.mode, "seed": seed}
                report = check_case(name, inputs, parameters, **settings)
            row.add(report)
        except Exception as error:  # a crash is a fault of this row, not the end of the survey
            row.cases += 1
            row.faults.append(_crash(name, case, error))
    if version == "kernel" and not row.cases and not row.faults:
        row.faults.append(
            f"the kernel of {name} takes none of the {len(declined)} cases in float64"
        )
    row.seconds = time.perf_counter() - started
    return row


def check_case(name, inputs, parameters, **settings):
    """The ``Report`` for one call of a primitive."""
    primitive = PRIMITIVES[name]
    differentiable = [
        position
        for position, value in enumerate(inputs)
        if isinstance(value, Tensor)
        and value.dtype.kind == "f"
        and primitive.differentiable(position)
    ]

    def call(*tensors):
        arguments = list(inputs)
        for position, tensor in zip(differentiable, tensors, strict=True):
            arguments[position] = tensor
        return primitive(*arguments, **parameters)

    call.__name__ = name
    checked = [inputs[position] for position in differentiable]
    return gradient_report(call, checked, **{**TOLERANCES, **settings})


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


def has_kernel(name, device=None):
    """Whether a kernel may run in place of the rule of primitive ``name`` on a device."""
    return (name, get_backend(device).kind) in registered_kernels()


def kernel_takes(name, inputs, parameters, device=None):
    """Whether the kernel of a primitive accepts a call, or leaves it to the rule."""
    forward, _ = registered_kernels()[name, get_backend(device).kind]
    arrays = [value._data if isinstance(value, Tensor) else value for value in inputs]
    with np.errstate(all="ignore"):
        return forward(*arrays, **parameters) is not NotImplemented


def _crash(name, case, error):
    if isinstance(error, GradcheckError):
        return f"{name}({case}): {error}"
    return f"{name}({case}) raised {type(error).__name__}: {error}"
