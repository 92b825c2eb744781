"""Initial weights: drawn on the host from the default random stream, so that a seed means the same on every device."""

import math

import numpy as np

from ..backend import default_random
from .placement import overwrite


def normal(shape, deviation):
    """float32 draws of the normal distribution around 0, a host array."""
    return default_random().normal(0.0, deviation, shape).astype(np.float32)


def uniform(shape, bound):
    """float32 draws of the uniform distribution on [-bound, bound), a host array."""
    return default_random().uniform(-bound, bound, shape).astype(np.float32)


def initialise_like_gpt2(model, residual_projections, layers):
    """Weights of every Linear and Embedding N(0, 0.02^2), biases 0, projections into the residual stream smaller.

    Each of the ``layers`` blocks adds two terms to the residual stream. Dividing the deviation of what they are
    projected with by sqrt(2 layers) keeps the stream's variance from growing with depth.

    Args:
        model: a module; what it holds is overwritten, in the order of its parameters.
        residual_projections: the Linear layers whose output is added to the residual stream.
        layers: number of blocks.

    Source: A. Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3.
    """
    from .embedding import Embedding
    from .linear import Linear

    smaller = {id(layer) for layer in residual_projections}
    for module in model.modules():
        if isinstance(module, (Linear, Embedding)):
            deviation = 0.02 / math.sqrt(2 * layers) if id(module) in smaller else 0.02
            overwrite(module.weight, normal(module.weight.shape, deviation))
            if getattr(module, "bias", None) is not None:
                overwrite(module.bias, np.zeros(module.bias.shape, np.float32))
