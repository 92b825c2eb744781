"""What a kind of attention is, and the registry of kinds.

A kind is one object. Layers, recording, the explorer, the decoder, the command line and the checks ask the object what
they need to know, so that a kind is added in one file, with one call of ``register_kind``.
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
    """An option of a kind.

    Attributes:
        default: the value if none is given. An option whose default is a number or text is a setting: the command line
            takes it, and it is stored with a run. Others, such as a function, are for Python only.
        help: a sentence for ``--help``, with the unit in brackets.
        minimum: the smallest value of a number.
        choices: the values of a text.
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
            raise TypeError(f"{name} is an object of a program, such as a function, got {value!r}")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"{name} must be at least {self.minimum}, got {name}={value}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{name} must be one of {', '.join(self.choices)}, got {value!r}")


@dataclass(frozen=True, eq=False)
class AttentionKind:
    """One way to compute attention.

    Attributes:
        name: what ``kind=`` and ``--attention`` call it.
        function: ``function(q, k, v, *, mask, causal, scale, dropout_p, **options)`` on tensors (..., length, dim); the
            arguments are those of ``scaled_dot_product_attention``. It gets all options, and neither ``mask`` nor
            ``dropout_p`` if they are ``unsupported``. With a cache there are fewer queries than keys, and the queries
            are the last ones of the sequence.
        options: the further arguments of the function, name to ``Option``.
        visible: the visibility rule, ``visible(q_len, k_len, causal, **options)``: NumPy booleans (q_len, k_len), True
            where a query sees a key, or None if every query sees every key.
        is_exact: whether the result is that of dense attention, to rounding.
        has_weights: whether the result is a softmax over the visible keys. It can then be computed densely too, which
            is how weights are returned, recorded and shown.
        prefix_state: for a kind that can be computed from running sums, a class: ``prefix_state(**options)`` has
            ``attend(q, k, v)``, which adds new keys and answers the queries of the same positions.
        needs_whole_sequence: whether the function takes as many queries as keys only. New queries on a cache are then
            computed by an exact kernel under the visibility rule.
        unsupported: which of ``"mask"``, ``"query_mask"`` (one that differs between queries), ``"dropout"`` and
            ``"alibi"`` it cannot do.
        check_options: the options under which ``tinyattn gradcheck`` checks it on a sequence of five.

    >>> kind = AttentionKind("mean", lambda q, k, v, **_: v, options={"width": Option(2, "Width [keys].", minimum=1)})
    >>> kind.complete({}), kind.supports("dropout")
    ({'width': 2}, True)
    """

    name: str
    function: Callable
    options: Mapping[str, Option] = field(default_factory=dict)
    visible: Callable = causal_visibility
    is_exact: bool = False
    has_weights: bool = True
    prefix_state: Callable | None = None
    needs_whole_sequence: bool = False
    unsupported: frozenset = frozenset()
    check_options: Mapping = field(default_factory=dict)

    def supports(self, feature):
        """Whether the kind can do a feature: see ``unsupported``."""
        return feature not in self.unsupported

    def complete(self, options):
        """``options`` with the defaults of those that are not given.

        Raises:
            TypeError: for an option that the kind does not have, and for a value of the wrong type.
            ValueError: for a value out of range.
        """
        for name, value in options.items():
            if name in _NAMES_IN_PYTORCH:
                raise TypeError(
                    f"attention got an argument {name}: it is called {_NAMES_IN_PYTORCH[name]} here; "
                    "a mask is boolean, and causal is aligned at the last query and the last key"
                )
            if name not in self.options:
                raise TypeError(
                    f'attention got {name}={value!r}, which kind="{self.name}" does not take: '
                    f"expected {', '.join(self.options) or 'no further ones'}"
                )
            self.options[name].check(name, value)
        return {name: options.get(name, option.default) for name, option in self.options.items()}

    def mask(self, q, k, mask, causal, options):
        """Which queries see which keys by the visibility rule and by ``mask``, an array of the device of ``q``.

        Returns:
            Booleans that broadcast to (..., q_len, k_len), or None if every query sees every key.
        """
        visible = self.visible(q.shape[-2], k.shape[-2], causal, **self.complete(options))
        if visible is None:
            return mask
        visible = backend_of(q._data).asarray(visible)
        return visible if mask is None else visible & mask


def register_kind(kind):
    """Make an ``AttentionKind`` available under its name; one of the same name is replaced."""
    _REGISTRY[kind.name] = kind


def attention_kind(name):
    """The registered kind of that name.

    Raises:
        ValueError: for an unknown name, with the known ones.

    >>> list(attention_kind("window").options)
    ['window', 'global_tokens']
    """
    if name not in _REGISTRY:
        raise ValueError(f"got kind={shown(name)}: attention must be one of {', '.join(_REGISTRY)}")
    return _REGISTRY[name]


def attention_kinds():
    """The names of all registered kinds.

    >>> "dense" in attention_kinds()
    True
    """
    return tuple(_REGISTRY)
