"""Anomaly detection: find the operation that first produced a NaN or an infinity."""

import pathlib
import sys
import traceback

import numpy as np

from ..backend import backend_of, is_array

_PACKAGE = str(pathlib.Path(__file__).parent.parent)


def calling_line():
    """The innermost line of user code on the stack, as ``file:line: source``."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return "(no line of user code)"
    summary = traceback.extract_stack(frame, limit=1)[-1]
    return f"{summary.filename}:{summary.lineno}: {summary.line}"


def check_forward(name, out, inputs, parameters, line):
    """Raise RuntimeError if ``out`` has a NaN or an infinity that did not come from the inputs of the operation."""
    fault = _new_fault(out, [*inputs, *parameters.values()])
    if fault:
        raise RuntimeError(f"{name} produced {fault}\n  called at {line}")


def check_backward(name, cotangent, g, line):
    """Raise RuntimeError if a cotangent has a NaN or an infinity that did not come from ``g``."""
    fault = _new_fault(cotangent, [g])
    if fault:
        where = line or "(unknown: record the forward pass inside detect_anomaly() too)"
        raise RuntimeError(f"the backward of {name} produced {fault}\n  called at {where}")


def _new_fault(result, sources):
    result = _host_floats(result)
    if result is None or np.isfinite(result).all():
        return None
    known = [array for array in map(_host_floats, sources) if array is not None]
    if np.isnan(result).any() and not any(np.isnan(array).any() for array in known):
        return "NaN from inputs without NaN"
    if np.isinf(result).any() and all(np.isfinite(array).all() for array in known):
        return "-inf or inf from finite inputs"
    return None


def _host_floats(value):
    """The floating-point numbers of ``value`` on the host; None if it is not floating point."""
    if isinstance(value, float):
        return np.asarray(value)
    if getattr(value, "is_tensor", False):
        value = value._data
    if is_array(value) and value.dtype.kind in "fc":
        return backend_of(value).to_host(value)
    return None
