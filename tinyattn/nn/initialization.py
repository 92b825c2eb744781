"""Weight initialization: drawn on the host, so that a seed gives the same weights on every device."""

import math

import numpy as np

from ..backend import default_random
from .parameter import has_memory, shared_zero
from .placement import overwrite


def normal(shape, deviation):
    """float32 samples of the normal distribution with mean 0, a host array."""
    if not has_memory():
        return shared_zero(shape)
    return default_random().normal(0.0, deviation, shape).astype(np.float32)


def uniform(shape, bound):
    """float32 samples of the uniform distribution on [-bound, bound), a host array."""
    if not has_memory():
        return shared_zero(shape)
    return default_random().uniform(-bound, bound, shape).astype(np.float32)


def reinitialize(parameter, host):
    """Replace the initial values of a parameter by a host array, unless it was created ``without_memory``."""
    if has_memory():
        overwrite(parameter, host)


def initialize_like_gpt2(model, residual_projections, layers):
    """Initialize every Linear and Embedding with N(0, 0.02^2) and biases with 0, with smaller residual projections.

    Each of the ``layers`` blocks adds two terms to the residual stream. Dividing the standard deviation of their
    projections by sqrt(2 layers) keeps the variance of the stream from growing with depth.

    Args:
        model: a module; its weights are overwritten, in the order of its parameters.
        residual_projections: the Linear layers that project into the residual stream.
        layers: number of blocks.

    Source: A. Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3.
    """
    from .embedding import Embedding
    from .linear import Linear

    smaller = {id(layer) for layer in residual_projections}
    for module in model.modules():
        if isinstance(module, (Linear, Embedding)):
            deviation = 0.02 / math.sqrt(2 * layers) if id(module) in smaller else 0.02
            reinitialize(module.weight, normal(module.weight.shape, deviation))
            if getattr(module, "bias", None) is not None:
                reinitialize(module.bias, np.zeros(module.bias.shape, np.float32))
