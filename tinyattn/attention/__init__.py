"""The public attention function and the attention kinds that implement it."""

from .dense import DENSE
from .dispatch import scaled_dot_product_attention
from .flash import AUTO, FLASH
from .kinds import AttentionKind, Option, attention_kind, attention_kinds, register_kind
from .linear import LINEAR
from .ring import RING
from .window import WINDOW

__all__ = [
    "AttentionKind",
    "Option",
    "attention_kind",
    "attention_kinds",
    "register_kind",
    "scaled_dot_product_attention",
]

for _kind in (AUTO, DENSE, FLASH, WINDOW, LINEAR, RING):
    register_kind(_kind)
