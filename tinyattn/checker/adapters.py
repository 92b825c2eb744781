"""The registry of adapters: for each framework, a function that makes a ``Problem``.

An adapter is called as ``adapt(fn, inputs, params, dtype)`` with the arguments of ``gradcheck`` and the dtype of the
working copies (None: that of the inputs). It returns a ``Problem``, or None for a function of another
framework. It looks its framework up in ``sys.modules`` and never imports it.
"""

from .frameworks.jax import jax_problem
from .frameworks.pairs import pair_problem
from .frameworks.pytorch import torch_problem
from .tensors import tensor_problem

ADAPTERS = [pair_problem, torch_problem, jax_problem, tensor_problem]  # the last accepts everything
