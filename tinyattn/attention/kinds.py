"""Attention kinds (the implementations that ``kind=`` selects) and their registry.

Each kind is one object. Layers, recording, the explorer, the decoder, the command line and the checks query that
object, so a new kind needs one file and one call of ``register_kind``.
"""

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..backend import backend_of
from ..error_messages import shown
from .masks import causal_visibility

_REGISTRY = {}
_NAMES_IN_PYTORCH = {"attn_mask": "mask", "is_causal": "causal"}


@dataclass(frozen=True)
class Option:
    """An option of an attention kind.

    Attributes:
        default: the default value. If it is a number or a string, the option is a setting: the command line accepts
            it and a run stores it. Other options, such as a function, are available from Python only.
        help: a sentence for ``--help``, with the unit in brackets.
        minimum: the smallest allowed number.
        choices: the allowed strings.

    >>> Option(32, "Keys that a query sees [keys].", minimum=1).check("window", 0)
    Traceback (most recent call last):
    ValueError: window must be at least 1, got window=0
    """

    default: object
    help: str
    minimum: float | None = None
    choices: tuple = ()

    @property
    def is_setting(self):
        return isinstance(self.default, int | float | str)

    def check(self, name, value):
        """Raise a TypeError for a value of the wrong type, a ValueError for one out of range."""
        expected = type(self.default)
        accepted = numbers.Integral if expected is int else expected
        if self.is_setting and (not isinstance(value, accepted) or isinstance(value, bool)):
            raise TypeError(f"{name} must be of type {expected.__name__}, got {name}={value!r}")
        if not self.is_setting and isinstance(value, int | float | str | list | dict):
            raise TypeError(f"{name} must be a Python object such as a function, got {value!r}")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"{name} must be at least {self.minimum}, got {name}={value}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{name} must be one of {', '.join(self.choices)}, got {value!r}")


@dataclass(frozen=True, eq=False)
class AttentionKind:
    """One way to compute attention.

    Attributes:
        name: the name in ``kind=`` and ``--attention``.
        function: ``function(q, k, v, *, mask, causal, scale, dropout_p, **options)`` on tensors (..., length, dim); the
            arguments are those of ``scaled_dot_product_attention``. It receives all options, but not ``mask`` or
            ``dropout_p`` if they are ``unsupported``. With a cache there are fewer queries than keys, and the queries
            are the last ones of the sequence.
        options: further arguments of the function, name to ``Option``.
        visible: the visibility rule, ``visible(q_len, k_len, causal, **options)``: NumPy booleans (q_len, k_len), True
            where a query sees a key, or None if every query sees every key.
        is_exact: whether the output equals that of dense attention up to rounding.
        is_primitive: whether the function is one call of the primitive ``attention``, which kernels of whole blocks
            include.
        has_weights: whether the weights are a softmax over the visible keys. To return, record or show them, dense
            attention then computes the same output with the visibility rule as its mask.
        prefix_state: the decoding state of a kind that can be computed from prefix sums, a class; else None.
            ``prefix_state(**options).attend(q, k, v)`` adds new keys and returns the output of the queries at the
            same positions.
        needs_whole_sequence: whether the function requires as many queries as keys. New queries on a cache are then
            computed by ``kind="auto"`` with the visibility rule as their mask.
        unsupported: the features that the kind does not support, of ``"mask"``, ``"query_mask"`` (a mask that differs
            between queries), ``"dropout"`` and ``"alibi"``.
        check_options: the options with which ``tinyattn gradcheck`` checks the kind, on a sequence of length 5.

    >>> kind = AttentionKind("mean", lambda q, k, v, **_: v, options={"width": Option(2, "Width [keys].", minimum=1)})
    >>> kind.complete({}), kind.supports("dropout")
    ({'width': 2}, True)
    """

    name: str
    function: Callable
    options: Mapping[str, Option] = field(default_factory=dict)
    visible: Callable = causal_visibility
    is_exact: bool = False
    is_primitive: bool = False
    has_weights: bool = True
    prefix_state: Callable | None = None
    needs_whole_sequence: bool = False
    unsupported: frozenset = frozenset()
    check_options: Mapping = field(default_factory=dict)

    def supports(self, feature):
        """Whether the kind supports a feature: see ``unsupported``."""
        return feature not in self.unsupported

    def complete(self, options):
        """Return ``options`` with defaults filled in.

        Raises:
            TypeError: for an unknown option and for a value of the wrong type.
            ValueError: for a value out of range.
        """
        for name, value in options.items():
            if name in _NAMES_IN_PYTORCH:
                raise TypeError(
                    f"attention got an argument {name}, which is PyTorch's name: use {_NAMES_IN_PYTORCH[name]}; "
                    "a mask is boolean, and causal aligns the last query with the last key"
                )
            if name not in self.options:
                raise TypeError(
                    f'attention got {name}={value!r}, which kind="{self.name}" does not accept: '
                    f"expected {', '.join(self.options) or 'no options'}"
                )
            self.options[name].check(name, value)
        return {name: options.get(name, option.default) for name, option in self.options.items()}

    def mask(self, q, k, mask, causal, options):
        """Combine the visibility rule with ``mask``, an array on the device of ``q``.

        Returns:
            Booleans that broadcast to (..., q_len, k_len), or None if every query sees every key.
        """
        visible = self.visible(q.shape[-2], k.shape[-2], causal, **self.complete(options))
        if visible is None:
            return mask
        visible = backend_of(q._data).asarray(visible)
        return visible if mask is None else visible & mask


def register_kind(kind):
    """Register an ``AttentionKind`` under its name, replacing any kind of that name.

    ``kind=`` and ``--attention`` then accept the name, in the process that has imported the kind's module.

    >>> register_kind(attention_kind("dense"))
    """
    _REGISTRY[kind.name] = kind


def attention_kind(name):
    """Look up a registered kind by name.

    Raises:
        ValueError: for an unknown name; the message lists the registered names.

    >>> list(attention_kind("window").options)
    ['window', 'global_tokens']
    """
    if name not in _REGISTRY:
        raise ValueError(
            f"unknown attention kind {shown(name)}: expected one of {', '.join(_REGISTRY)}"
        )
    return _REGISTRY[name]


def attention_kinds():
    """Return the names of all registered kinds.

    >>> "dense" in attention_kinds()
    True
    """
    return tuple(_REGISTRY)
