"""Conversions between PyTorch tensors and NumPy arrays."""

import sys

import numpy as np


def array_of(tensor, dtype=None):
    """The values of a tensor as a NumPy array of their own; bfloat16 needs ml_dtypes."""
    torch = sys.modules["torch"]
    tensor = torch.as_tensor(tensor).detach().cpu()
    if dtype is not None:
        tensor = tensor.to(tensor_of(np.zeros(1, dtype)).dtype)
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(_bfloat16()).copy()
    return tensor.numpy().copy(order="K")


def tensor_of(array):
    """A tensor that shares the memory of a NumPy array."""
    torch = sys.modules["torch"]
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _bfloat16():
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            "an input is bfloat16, which NumPy lacks: install ml_dtypes, or pass upcast=True "
            "to check a float64 copy"
        ) from None
    return ml_dtypes.bfloat16


def is_floating(value):
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"
