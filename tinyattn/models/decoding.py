"""Decoding one token at a time in plain NumPy: the fast version of ``GPT.forward`` with a cache, without a graph.

Trade-offs: the arithmetic of a single token is so small that the overhead of Python calls dominates. A ``Decoder``
looks up the weights once, computes queries, keys and values in one matrix product, and works on plain arrays. It
relates to ``GPT.forward`` as a kernel to its rule: the tests compare the two. It supports only GPT's own modules: see
``unsupported``.
"""

import math
import operator

import numpy as np

from ..attention import attention_kind
from ..autograd import Tensor
from ..autograd.modes import current_mode
from ..nn import (
    Activation,
    BigramEmbedding,
    Dropout,
    Embedding,
    FeedForward,
    Identity,
    LayerNorm,
    LearnedPositions,
    Linear,
    ModuleList,
    MultiHeadAttention,
    RMSNorm,
    Rotary,
    SinusoidalPositions,
    TransformerBlock,
)
from ..nn.activations import ACTIVATIONS
from ..nn.attention import QK_NORM_EPS
from ..nn.positions import sinusoids
from ..ops import rotary_tables
from .gpt import GPT

NORMS = (LayerNorm, RMSNorm)
ABSENT = type(None)
# The supported types of each submodule; subclasses are not supported.
PARTS = {
    GPT: {
        "embedding": (Embedding,),
        "bigrams": (BigramEmbedding, ABSENT),
        "previous_embedding": (Embedding, ABSENT),
        "positions": (LearnedPositions, SinusoidalPositions, ABSENT),
        "dropout": (Dropout,),
        "blocks": (ModuleList,),
        "norm": (*NORMS, ABSENT),
        "head": (Linear, ABSENT),
    },
    TransformerBlock: {
        "norm1": NORMS,
        "attention": (MultiHeadAttention,),
        "norm2": NORMS,
        "feed_forward": (FeedForward,),
        "dropout": (Dropout,),
    },
    MultiHeadAttention: {
        **dict.fromkeys(("query", "key", "value", "project"), (Linear,)),
        **dict.fromkeys(("scores", "weights"), (Identity,)),
        "rotary": (Rotary, ABSENT),
        "alibi": (ABSENT,),
    },
    FeedForward: {"expand": (Linear,), "activation": (Activation,), "contract": (Linear,)},
}


def unsupported(model):
    """The reason why ``Decoder`` does not support ``model``, as a clause for a message; None if it does.

    >>> from tinyattn.models import GPT, GPTConfig
    >>> unsupported(GPT(GPTConfig(layers=1, positions="alibi")))
    'its blocks.0.attention.alibi is a ALiBi'
    """
    if type(model) is not GPT:
        return f"it is a {type(model).__name__}, not a GPT"
    mode = current_mode.get()
    if mode.anomaly or not mode.kernels:
        return "reference() and detect_anomaly() require its modules"
    parts = [
        (f"{name}.{attribute}".lstrip("."), getattr(module, attribute), kinds)
        for name, module in model.named_modules()
        for attribute, kinds in PARTS.get(type(module), {}).items()
    ]
    parts += [(f"blocks.{i}", block, (TransformerBlock,)) for i, block in enumerate(model.blocks)]
    for name, part, kinds in parts:
        if type(part) not in kinds:
            return f"its {name} is a {type(part).__name__}"
        if type(part) is MultiHeadAttention and not _is_dense_and_causal(part):
            return f"its {name} is not plain causal attention"
        if type(part) in NORMS and not _is_plain_norm(part):
            return f"its {name} has no weight, no eps, or several axes"
    for name, module in model.named_modules():
        if module.is_watched or "forward" in vars(module):
            return f"{name or 'it'} has a forward hook or overrides forward()"
    parameters = model.parameters()
    dtypes = {parameter.dtype for parameter in parameters}
    is_plain = all(type(parameter._data) is np.ndarray for parameter in parameters)
    if not is_plain or len(dtypes) > 1 or not dtypes <= {np.dtype("f4"), np.dtype("f8")}:
        return "its parameters are not all float32 or all float64 on the CPU"
    return None


def _is_dense_and_causal(attention):
    kind = attention_kind(attention.kind)
    return kind.is_exact and not kind.options and attention.causal


def _is_plain_norm(norm):
    return norm.weight is not None and norm.eps is not None and len(norm.normalized_shape) == 1


class Decoder:
    """The weights of a GPT, arranged for decoding token by token, in eval mode.

    ``tinyattn.generate`` creates one in each call. The model must not change while a decoder is in use: changed
    parameters are an error, replaced modules and new hooks are not detected.

    Args:
        model: a ``GPT`` on the CPU.

    Raises:
        ValueError: for an unsupported model, with the reason; ``model(ids, cache=cache)`` works for all models.

    >>> import tinyattn as ta
    >>> from tinyattn.models import GPT, Decoder, GPTConfig
    >>> model = GPT(GPTConfig(vocabulary_size=10, block_size=8, layers=1, heads=2, dim=16))
    >>> decoder, cache = Decoder(model), model.cache()
    >>> with ta.no_grad():
    ...     logits = model([[1, 2, 3]], cache=cache)  # the prompt at once
    >>> decoder(4, cache).shape, cache.length
    ((10,), 4)
    """

    def __init__(self, model):
        reason = unsupported(model)
        if reason is not None:
            raise ValueError(
                f"Decoder does not support this model, {reason}: use model(ids, cache=cache)"
            )
        config = model.config
        self._model = model
        self._parameters = model.parameters()
        self._versions = self._current_versions()
        self._cache = None  # the last one that passed _check
        dtype = model.dtype
        self._no_keys = Tensor._wrap(np.empty((1, config.heads, 0, config.head_dim), dtype))
        self._embedding = model.embedding.weight._data  # (vocabulary_size, dim)
        self._bigrams = model.bigrams
        self._pairs = None if self._bigrams is None else self._bigrams.weight._data  # (rows, dim)
        previous = model.previous_embedding
        self._before = (
            None if previous is None else previous.weight._data
        )  # (vocabulary_size + 1, dim)
        self._head = model.head.weight._data if model.head is not None else self._embedding.T
        self._norm = None if model.norm is None else _norm(model.norm)
        self._positions = None
        if type(model.positions) is LearnedPositions:
            self._positions = model.positions.weight._data
        elif type(model.positions) is SinusoidalPositions:
            self._positions = sinusoids(config.block_size, model.positions.dim).astype(dtype)
        if config.positions == "sinusoidal":
            self._embedding = self._embedding * math.sqrt(config.dim)
            if self._bigrams is not None:
                self._pairs = self._pairs * math.sqrt(config.dim)
            if self._before is not None:
                self._before = self._before * math.sqrt(config.dim)
        rotations = {}  # of each Rotary, which blocks may share
        for block in model.blocks:
            one = block.attention.rotary
            if one is not None and one not in rotations:
                rotations[one] = _rotations(config.block_size, one.head_dim, one.base, dtype)
        self._blocks = [
            _Block(block, rotations.get(block.attention.rotary)) for block in model.blocks
        ]

    def _current_versions(self):
        return [parameter._version[0] for parameter in self._parameters]

    def __call__(self, token, cache):
        """Add ``token`` to ``cache`` and return the logits of the next token.

        Args:
            token: an id.
            cache: a ``model.cache()``, empty or with tokens of one text, shape (1, length), without padding.

        Returns:
            A NumPy array (vocabulary_size,).

        Raises:
            ValueError: if the context is full, and for a cache of several texts, of padding, or of another model.
            IndexError: for an id outside the vocabulary.
            RuntimeError: if a parameter has changed since the decoder was created.
        """
        token = operator.index(token)
        if not 0 <= token < len(self._embedding):
            raise IndexError(
                f"the decoder got the id {token}: expected an integer in 0 .. {len(self._embedding) - 1}"
            )
        if self._versions != self._current_versions():
            raise RuntimeError("the model's parameters have changed: create a new Decoder")
        if cache is not self._cache or cache.padding_mask is not None:
            self._check(cache)
        position = cache.length
        self._model.check_length(1, position)
        x = self._embedding[token]  # (dim,)
        if self._bigrams is not None or self._before is not None:
            last = cache.last_ids
            previous = self._model.config.vocabulary_size if last is None else int(last[0])
            if self._bigrams is not None:
                x = x + self._pairs[self._bigrams.rows(token, previous)]
            if self._before is not None:
                x = x + self._before[previous]
            cache.last_ids = np.array([token])
        if self._positions is not None:
            x = x + self._positions[position]
        for block, layer in zip(self._blocks, cache.layers):
            x = block(x, position, layer)
        if self._norm is not None:
            x = self._norm(x)
        return x @ self._head

    def _check(self, cache):
        self._model.check_cache(cache)
        if cache.padding_mask is not None:
            raise ValueError("the cache has a padding mask: use model(ids, cache=cache)")
        for layer in cache.layers:
            layer.extend(self._no_keys, self._no_keys)  # raises for other shapes, dtypes, devices
        self._cache = cache


class _Block:
    """A transformer block for one token, a vector (dim,)."""

    def __init__(self, block, rotations):
        attention = block.attention
        projections = (attention.query, attention.key, attention.value)
        self.is_pre_norm = block.norm == "pre"
        self.norm1, self.norm2 = _norm(block.norm1), _norm(block.norm2)
        weight = np.concatenate([one.weight._data for one in projections], axis=1)  # (dim, 3 dim)
        bias = None
        if any(one.bias is not None for one in projections):
            zeros = np.zeros(attention.heads * attention.head_dim, weight.dtype)
            bias = [zeros if one.bias is None else one.bias._data for one in projections]
            bias = np.concatenate(bias)
        self.project_in = _affine(weight, bias)
        self.project_out = _affine_of(attention.project)
        self.expand = _affine_of(block.feed_forward.expand)
        self.activation = _activation(block.feed_forward.activation.name)
        self.contract = _affine_of(block.feed_forward.contract)
        self.rotations = rotations
        self.qk_norm = attention.qk_norm
        self.heads, self.head_dim = attention.heads, attention.head_dim
        self.scale = 1 / math.sqrt(attention.head_dim)

    def __call__(self, x, position, layer):
        if self.is_pre_norm:
            x = x + self.attend(self.norm1(x), position, layer)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attend(x, position, layer))
        return self.norm2(x + self.feed_forward(x))

    def feed_forward(self, x):
        return self.contract(self.activation(self.expand(x)))

    def attend(self, x, position, layer):
        projected = self.project_in(x).reshape(3, self.heads, self.head_dim)
        queries_and_keys, value = projected[:2], projected[2]
        if self.qk_norm:
            mean_square = np.vecdot(queries_and_keys, queries_and_keys)  # (2, heads)
            mean_square *= 1 / self.head_dim
            mean_square += QK_NORM_EPS
            queries_and_keys /= np.sqrt(mean_square)[..., None]
        if self.rotations is not None:
            pairs = queries_and_keys.reshape(2, self.heads, 1, 2, self.head_dim // 2)
            queries_and_keys = np.add.reduce(pairs * self.rotations[position], axis=-2)
            queries_and_keys = queries_and_keys.reshape(2, self.heads, self.head_dim)
        query, key = queries_and_keys
        query *= self.scale

        keys, values = layer.append_uninitialized()  # (heads, capacity, head_dim)
        keys[:, position] = key
        values[:, position] = value
        scores = np.matmul(keys[:, : position + 1], query[..., None])  # (heads, position + 1, 1)
        scores = scores[..., 0]
        scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
        weights = np.exp(scores, out=scores)
        y = np.matmul(weights[:, None], values[:, : position + 1])[:, 0]  # (heads, head_dim)
        y /= np.add.reduce(weights, axis=-1, keepdims=True)
        return self.project_out(y.reshape(-1))


def _rotations(length, head_dim, base, dtype):
    """The 2 by 2 rotation matrices of all pairs of features at each position, (length, 2, 2, head_dim / 2)."""
    cosine, sine = (table._data for table in rotary_tables(length, head_dim, base, dtype))
    return np.stack([np.stack([cosine, -sine], axis=1), np.stack([sine, cosine], axis=1)], axis=1)


def _affine(weight, bias):
    if bias is None:
        return lambda x: x @ weight

    def affine(x):
        y = x @ weight
        y += bias
        return y

    return affine


def _affine_of(layer):
    return _affine(layer.weight._data, None if layer.bias is None else layer.bias._data)


def _norm(layer):
    (width,) = layer.normalized_shape
    weight = layer.weight._data
    bias = getattr(layer, "bias", None)
    bias = None if bias is None else bias._data
    averaging = np.full(width, 1 / width, weight.dtype) if isinstance(layer, LayerNorm) else None
    eps = layer.eps

    def norm(x):
        if averaging is not None:
            x = x - x.dot(averaging)
        x = x * (1 / math.sqrt(float(x.dot(x)) / width + eps))
        x *= weight
        if bias is not None:
            x += bias
        return x

    return norm


def _activation(name):
    if name == "relu":
        return lambda x: np.maximum(x, 0, out=x)
    if name == "relu_squared":
        return lambda x: np.square(np.maximum(x, 0, out=x), out=x)
    if name == "gelu_tanh":
        return _gelu_tanh
    return lambda x: ACTIVATIONS[name](Tensor._wrap(x))._data


def _gelu_tanh(x):
    """x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"""
    y = x * x
    y *= 0.044715 * math.sqrt(2 / math.pi)
    y += math.sqrt(2 / math.pi)
    y *= x
    np.tanh(y, out=y)
    y += 1
    y *= x
    y *= 0.5
    return y
