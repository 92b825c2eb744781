"""The public attention function and the attention kinds that implement it; importing their modules registers them."""

from . import dense, flash, linear, ring, window
from .dispatch import scaled_dot_product_attention
from .kinds import AttentionKind, Option, attention_kind, attention_kinds, register_kind

__all__ = [
    "AttentionKind",
    "Option",
    "attention_kind",
    "attention_kinds",
    "register_kind",
    "scaled_dot_product_attention",
]
