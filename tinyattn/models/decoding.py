"""One more token of a GPT in plain NumPy: what ``GPT.forward`` computes with a cache, and nothing recorded.

What it trades: a single token has so little arithmetic that the calls around it cost more. Here the weights of a
block are looked up once for a whole text, queries, keys and values come from one product, and everything runs on bare
arrays. It stands to ``GPT.forward`` as a kernel stands to its rule, is held against it by the tests, and is left aside
for everything that it does not know, another module in the place of a GPT's own among it: see ``can_decode``.
"""

import math

import numpy as np

from ..autograd import Tensor
from ..autograd.modes import current_mode
from ..nn import (
    Activation,
    Dropout,
    Embedding,
    FeedForward,
    Identity,
    LayerNorm,
    LearnedPositions,
    Linear,
    Module,
    ModuleList,
    MultiHeadAttention,
    RMSNorm,
    Rotary,
    SinusoidalPositions,
    TransformerBlock,
)
from ..nn.attention import QK_NORM_EPS
from ..nn.feed_forward import ACTIVATIONS
from ..nn.positions import sinusoids
from ..ops import rotary_tables

EXACT_KINDS = ("auto", "dense", "flash")
NORMS = (LayerNorm, RMSNorm)
ABSENT = type(None)


def can_decode(model, ids, cache, padding_mask):
    """Whether a ``Decoder`` can take the place of the modules: one more token of one text, on the CPU, not recorded.

    Args:
        model, ids, cache, padding_mask: what ``GPT.forward`` got.
    """
    if cache is None or not cache.length or ids.shape != (1, 1):
        return False
    mode = current_mode.get()
    if mode.grad or mode.anomaly or not mode.kernels:
        return False
    if padding_mask is not None or cache.padding_mask is not None:
        return False
    if cache.decoder is None or not cache.decoder.fits(model):
        parameters = model.parameters()
        dtype = parameters[0].dtype
        known = (
            _has_known_parts(model)
            and dtype in (np.float32, np.float64)
            and all(type(p._data) is np.ndarray and p.dtype == dtype for p in parameters)
            and cache.layers[0].keys.shape[:-3] == (1,)
            and all(layer.keys.dtype == dtype for layer in cache.layers)
        )
        if not known:
            return False
        cache.decoder = Decoder(model, cache)
    return not cache.decoder.is_watched()


def _has_known_parts(model):
    """Whether every module is one whose arithmetic is written out here: subclasses and other modules are not."""
    parts = [
        (model.embedding, (Embedding,)),
        (model.positions, (LearnedPositions, SinusoidalPositions, ABSENT)),
        (model.dropout, (Dropout,)),
        (model.blocks, (ModuleList,)),
        (model.norm, (*NORMS, ABSENT)),
        (model.head, (Linear, ABSENT)),
    ]
    for block in model.blocks:
        if type(block) is not TransformerBlock or type(block.attention) is not MultiHeadAttention:
            return False
        if type(block.feed_forward) is not FeedForward or not _is_known_attention(block.attention):
            return False
        parts += [(block.norm1, NORMS), (block.norm2, NORMS), (block.dropout, (Dropout,))]
        for name in ("query", "key", "value", "project"):
            parts.append((getattr(block.attention, name), (Linear,)))
        for name in ("scores", "weights"):
            parts.append((getattr(block.attention, name), (Identity,)))
        parts.append((block.attention.rotary, (Rotary, ABSENT)))
        for name, kind in (("expand", Linear), ("contract", Linear), ("activation", Activation)):
            parts.append((getattr(block.feed_forward, name), (kind,)))
    if not all(type(part) in kinds for part, kinds in parts):
        return False
    norms = [part for part, _ in parts if type(part) in NORMS]
    return (
        all(norm.weight is not None and norm.eps is not None for norm in norms)
        and all(len(norm.normalized_shape) == 1 for norm in norms)
        and not any("forward" in vars(module) for module in model.modules())
    )


def _is_known_attention(attention):
    return (
        attention.kind in EXACT_KINDS
        and attention.causal
        and attention.alibi is None
        and not attention.options
    )


class Decoder:
    """The weights of a GPT, laid out for reading one text token by token into a cache.

    Args:
        model: a ``GPT`` on the CPU.
        cache: its ``ModelCache``, which has read at least one token of one text.
    """

    def __init__(self, model, cache):
        config = model.config
        self._model = model
        self._modules = model.modules()
        self._parameters = model.parameters()
        self._versions = [parameter._version[0] for parameter in self._parameters]
        self._assignments = Module.assignments
        dtype = self._parameters[0].dtype
        self._embedding = model.embedding.weight._data  # (vocabulary_size, dim)
        self._head = model.head.weight._data if model.head is not None else self._embedding.T
        self._norm = None if model.norm is None else _norm(model.norm)
        self._positions = None
        if type(model.positions) is LearnedPositions:
            self._positions = model.positions.weight._data
        elif type(model.positions) is SinusoidalPositions:
            self._positions = sinusoids(config.block_size, model.positions.dim).astype(dtype)
        if config.positions == "sinusoidal":
            self._embedding = self._embedding * math.sqrt(config.dim)
        rotations = {}  # of each Rotary, which blocks may share
        for block in model.blocks:
            one = block.attention.rotary
            if one is not None and one not in rotations:
                rotations[one] = _rotations(config.block_size, one.head_dim, one.base, dtype)
        self._blocks = [
            _Block(block, layer, rotations.get(block.attention.rotary))
            for block, layer in zip(model.blocks, cache.layers)
        ]

    def fits(self, model):
        """Whether the weights and settings of ``model`` are still those that were laid out."""
        if model is not self._model or Module.assignments != self._assignments:
            return False
        versions = [parameter._version[0] for parameter in self._parameters]
        return versions == self._versions

    def is_watched(self):
        """Whether a hook waits in some module, or dropout is on: then the modules themselves must run."""
        return any(
            module._forward_hooks or (module.training and getattr(module, "p", 0))
            for module in self._modules
        )

    def __call__(self, token):
        """The logits after one more token, a tensor (1, 1, vocabulary_size)."""
        place = self._blocks[0].layer.length
        x = self._embedding[token]  # (dim,)
        if self._positions is not None:
            x = x + self._positions[place]
        for block in self._blocks:
            x = block(x, place)
        if self._norm is not None:
            x = self._norm(x)
        return Tensor._wrap((x @ self._head)[None, None])


class _Block:
    """A transformer block for one token, a vector (dim,)."""

    def __init__(self, block, layer, rotations):
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
        self.layer = layer
        self.rotations = rotations
        self.qk_norm = attention.qk_norm
        self.heads, self.head_dim = attention.heads, attention.head_dim
        self.scale = 1 / math.sqrt(attention.head_dim)

    def __call__(self, x, place):
        if self.is_pre_norm:
            x = x + self.attend(self.norm1(x), place)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attend(x, place))
        return self.norm2(x + self.feed_forward(x))

    def feed_forward(self, x):
        return self.contract(self.activation(self.expand(x)))

    def attend(self, x, place):
        projected = self.project_in(x).reshape(3, self.heads, self.head_dim)
        queries_and_keys, value = projected[:2], projected[2]
        if self.qk_norm:
            mean_square = np.vecdot(queries_and_keys, queries_and_keys)  # (2, heads)
            mean_square *= 1 / self.head_dim
            mean_square += QK_NORM_EPS
            queries_and_keys /= np.sqrt(mean_square)[..., None]
        if self.rotations is not None:
            pairs = queries_and_keys.reshape(2, self.heads, 1, 2, self.head_dim // 2)
            queries_and_keys = np.add.reduce(pairs * self.rotations[place], axis=-2)
            queries_and_keys = queries_and_keys.reshape(2, self.heads, self.head_dim)
        query, key = queries_and_keys
        query *= self.scale

        keys, values = self.layer.room_for_one()  # (heads, capacity, head_dim)
        keys[:, place] = key
        values[:, place] = value
        scores = np.matmul(keys[:, : place + 1], query[..., None])[..., 0]  # (heads, place + 1)
        scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
        weights = np.exp(scores, out=scores)
        y = np.matmul(weights[:, None], values[:, : place + 1])[:, 0]  # (heads, head_dim)
        y /= np.add.reduce(weights, axis=-1, keepdims=True)
        return self.project_out(y.reshape(-1))


def _rotations(length, head_dim, base, dtype):
    """For each position the 2 by 2 rotations of all pairs of features, (length, 2, 2, head_dim / 2)."""
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
