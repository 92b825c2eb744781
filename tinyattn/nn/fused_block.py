"""A transformer block as one operation in training steps, on devices with a kernel for it.

``TransformerBlock.forward`` is the definition. The kernel computes the same for causal pre-norm blocks without a mask,
a cache or hooks, and draws the same random keys, so that dropout masks agree.
"""

import math

from ..attention import attention_kind
from ..autograd import Tensor
from ..autograd.layers import find_layer
from ..backend import default_random
from .activations import Activation
from .attention import QK_NORM_EPS, MultiHeadAttention
from .containers import Identity
from .dropout import Dropout
from .feed_forward import FeedForward
from .linear import Linear
from .normalization import LayerNorm, RMSNorm
from .positions import Rotary

_NORMS = {LayerNorm: "layer_norm", RMSNorm: "rms_norm"}


def fused_block(block, x):
    """The output of ``block`` for the tokens ``x``; NotImplemented if there is no kernel or it declines them."""
    if not isinstance(x, Tensor):
        return NotImplemented
    kernel = find_layer("transformer_block", x)
    if kernel is None or not _is_plain(block):
        return NotImplemented
    attention, feed_forward = block.attention, block.feed_forward
    tables = None, None
    if attention.rotary is not None:
        tables = attention.rotary.tables(x, x.shape[-2])
    p = _active(block.dropout)
    attention_p = attention.dropout.p if attention.training else 0.0
    if p != _active(feed_forward.dropout):
        return NotImplemented
    return kernel(
        x,
        *_parameters(block),
        heads=attention.heads,
        norm=_NORMS[type(block.norm1)],
        eps=(block.norm1.eps, block.norm2.eps),
        activation=feed_forward.activation.name,
        query_key=(QK_NORM_EPS if attention.qk_norm else None, *tables),
        scale=1 / math.sqrt(attention.head_dim),
        p=p,
        attention_p=attention_p,
        draw_key=default_random().key,
    )


def _active(dropout):
    return dropout.p if dropout.training else 0.0


def _parameters(block):
    """The parameters in the order in which the kernel expects them."""
    attention, feed_forward = block.attention, block.feed_forward
    projections = attention.query, attention.key, attention.value
    return (
        block.norm1.weight,
        getattr(block.norm1, "bias", None),
        *(linear.weight for linear in projections),
        *(linear.bias for linear in projections),
        attention.project.weight,
        attention.project.bias,
        block.norm2.weight,
        getattr(block.norm2, "bias", None),
        feed_forward.expand.weight,
        feed_forward.expand.bias,
        feed_forward.contract.weight,
        feed_forward.contract.bias,
    )


def _is_plain(block):
    """Whether the kernel computes all modules of the block, and none of them has a forward hook."""
    attention, feed_forward = block.attention, block.feed_forward
    if block.norm != "pre" or type(attention) is not MultiHeadAttention:
        return False
    if type(feed_forward) is not FeedForward or type(block.norm1) not in _NORMS:
        return False
    if type(block.norm1) is not type(block.norm2) or None in (block.norm1.eps, block.norm2.eps):
        return False
    if len(block.norm1.normalized_shape) != 1 or len(block.norm2.normalized_shape) != 1:
        return False
    if not attention_kind(attention.kind).is_primitive or not attention.causal:
        return False
    if attention.alibi is not None:
        return False
    parts = {
        Linear: (
            attention.query,
            attention.key,
            attention.value,
            attention.project,
            feed_forward.expand,
            feed_forward.contract,
        ),
        Dropout: (block.dropout, attention.dropout, feed_forward.dropout),
        Activation: (feed_forward.activation,),
        Identity: (attention.scores, attention.weights),
    }
    modules = [attention, feed_forward, block.norm1, block.norm2]
    for kind, members in parts.items():
        if any(type(member) is not kind for member in members):
            return False
        modules += members
    if attention.rotary is not None:
        modules.append(attention.rotary)
        if type(attention.rotary) is not Rotary:
            return False
    return not any(module.is_watched or "forward" in vars(module) for module in modules)
