"""Attention: one signature, several ways to compute it."""

from .dispatch import attention_kinds, register_kind, scaled_dot_product_attention

__all__ = ["attention_kinds", "register_kind", "scaled_dot_product_attention"]
