"""The table of blocks: layers, attention kinds and models as small functions for the gradient checker.

A block is composed of primitives: a layer with its parameters, an attention kind, a transformer block, or a model from
ids to logits. Sizes are tiny, so that every parameter can be checked. Weights have a larger standard deviation than for
training, so that attention is far from uniform. One model, "GPT", has two layers; the others need only one.
"""

import numpy as np

from .. import models, nn
from ..attention import attention_kind, attention_kinds, scaled_dot_product_attention
from ..autograd import Tensor
from ..backend import Random, use_random
from ..checker import gradient_report
from ..ops import cross_entropy, einsum, softmax
from .row import Row


def check_block(name, device=None, order=2, seed=0, mode="full"):
    """The ``Row`` of one block; the arguments are those of ``check_primitive`` and ``gradcheck``.

    >>> check_block("Linear").passed
    True
    """

    def check():
        with use_random(Random(seed)):
            fn, inputs, module = blocks()[name](np.random.default_rng(seed))
        if module is not None:
            redraw(module, np.random.default_rng(seed + 1))
            module.to(device) if device else None
        inputs = [
            Tensor(x, device=device) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
            for x in inputs
        ]
        params = () if module is None else module
        settings = {"order": order, "seed": seed, "mode": mode}
        return gradient_report(fn, inputs, params=params, upcast=True, **settings)

    row = Row(name, "block")
    row.add(name, check)
    return row


def redraw(module, random):
    """Replace every parameter by random values: weights with standard deviation 0.5, gains of norms around 1."""
    for name, parameter in module.named_parameters():
        draw = 0.5 * random.standard_normal(parameter.shape)
        is_gain = parameter.ndim == 1 and name.endswith("weight")
        parameter.data = 1 + 0.4 * draw if is_gain else draw


def _layer(make, *shape):
    """The builder of a module and a random input of a shape."""

    def build(random):
        module = make()
        return module, [random.standard_normal(shape)], module

    return build


def _attention(kind, **options):
    def build(random):
        def attend(q, k, v):
            return scaled_dot_product_attention(q, k, v, kind=kind, **options)

        return attend, list(random.standard_normal((3, 2, 5, 4))), None

    return build


def _masked(random):
    mask = np.tril(np.ones((4, 4), bool))
    mask[2] = False  # a query without a visible key

    def attend(q, k, v):
        return scaled_dot_product_attention(q, k, v, mask=Tensor(mask, device=q.device))

    return attend, list(random.standard_normal((3, 2, 4, 3))), None


def _shared_heads(random):
    """Two query heads per head of keys and values (broadcasting)."""
    q, k, v = (
        random.standard_normal(shape) for shape in ((2, 2, 4, 3), (2, 1, 4, 3), (2, 1, 4, 3))
    )
    return lambda q, k, v: scaled_dot_product_attention(q, k, v, causal=True), [q, k, v], None


def _embedding(random):
    module = nn.Embedding(5, 3)
    ids = np.array([[0, 3, 3], [4, 0, 0]])
    return lambda: module(Tensor(ids, device=module.weight.device)), [], module


def _bigrams(most_rows):
    def build(random):
        module = nn.BigramEmbedding(3, 2, most_rows)
        ids = np.array([[0, 2, 2], [1, 2, 2]])
        return lambda: module(Tensor(ids, device=module.weight.device)), [], module

    return build


def _model(make):
    """The builder of a model from ids to logits, as a function of all its parameters."""

    def build(random):
        model = make()
        vocabulary = model.config.vocabulary_size
        ids = random.integers(0, vocabulary, (2, min(4, model.config.block_size)))
        ids[0, 1] = ids[0, 0]  # a token that occurs twice
        return lambda: model(Tensor(ids, device=model.device)), [], model

    return build


def _loss_of_gpt(random):
    model = models.GPT(_small_gpt(positions="rotary", qk_norm=True))
    ids = random.integers(0, 7, (2, 5))

    def loss():
        tensor = Tensor(ids, device=model.device)
        return model.loss(tensor[:, :-1], tensor[:, 1:])

    return loss, [], model


def _learned_attention(random):
    """Attention written with einsum."""

    def attend(x, w):
        q, k, v = (einsum("bld,de->ble", x, w[i]) for i in range(3))
        return einsum("bqk,bkd->bqd", softmax(einsum("bqd,bkd->bqk", q, k) * 0.5), v)

    return attend, [random.standard_normal((2, 3, 4)), random.standard_normal((3, 4, 4))], None


def _classifier(random):
    targets = np.array([1, 0, 2])

    def loss(x, w):
        return cross_entropy(x @ w, Tensor(targets, device=x.device), label_smoothing=0.1)

    return loss, [random.standard_normal((3, 4)), random.standard_normal((4, 3))], None


_SMALL = {
    "vocabulary_size": 7,
    "block_size": 4,
    "layers": 1,
    "heads": 2,
    "dim": 4,
    "bias": True,
    "activation": "gelu",
    "positions": "learned",
    "qk_norm": False,
}
_SHORT = {"vocabulary_size": 7, "block_size": 4, "layers": 1, "dim": 3, "bias": True}
_DIM, _HEADS = 4, 2


def _attention_layer(**options):
    return _layer(lambda: nn.MultiHeadAttention(_DIM, _HEADS, **options), 2, 3, _DIM)


def _block(**options):
    return _layer(lambda: nn.TransformerBlock(_DIM, _HEADS, causal=True, **options), 1, 3, _DIM)


def _gpt(**options):
    return _model(lambda: models.GPT(_small_gpt(**options)))


def _small_gpt(**options):
    return models.GPTConfig(**{**_SMALL, "previous_embedding": False, **options})


def _attention_kinds():
    """Each registered kind of attention, with and without a causal mask."""
    blocks = {}
    for name in attention_kinds():
        options = attention_kind(name).check_options
        blocks[f"attention {name}"] = _attention(name, causal=False, **options)
        blocks[f"attention {name} causal"] = _attention(name, causal=True, **options)
    return blocks


_BUILDERS = {
    "Linear": _layer(lambda: nn.Linear(4, 3), 2, 3, 4),
    "Linear without bias": _layer(lambda: nn.Linear(4, 3, bias=False), 2, 4),
    "Embedding": _embedding,
    "BigramEmbedding": _bigrams(most_rows=12),
    "BigramEmbedding hashed": _bigrams(most_rows=5),
    "LayerNorm": _layer(lambda: nn.LayerNorm(5), 2, 3, 5),
    "RMSNorm": _layer(lambda: nn.RMSNorm(5), 2, 3, 5),
    "Dropout": _layer(lambda: nn.Dropout(0.5).eval(), 2, 3),
    "Sequential": _layer(
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Activation("silu"), nn.Linear(4, 2)), 2, 3
    ),
    **{
        layer.__name__: _layer(layer, 2, 3)
        for layer in (nn.GELU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Tanh)
    },
    "FeedForward": _layer(lambda: nn.FeedForward(3, 5), 2, 3),
    "FeedForward gelu_tanh": _layer(lambda: nn.FeedForward(3, 5, activation="gelu_tanh"), 2, 3),
    "FeedForward relu_squared": _layer(
        lambda: nn.FeedForward(3, 5, activation="relu_squared"), 2, 3
    ),
    "CausalConvolution": _layer(lambda: nn.CausalConvolution(2, 3, 2, dilation=2), 2, 5, 2),
    "GRU": _layer(lambda: nn.GRU(2, 3), 2, 4, 2),
    "SinusoidalPositions": _layer(lambda: nn.SinusoidalPositions(4), 2, 3, 4),
    "LearnedPositions": _layer(lambda: nn.LearnedPositions(5, 4), 2, 3, 4),
    "Rotary": _layer(lambda: nn.Rotary(4), 2, 3, 4),
    "attention masked": _masked,
    "attention shared heads": _shared_heads,
    "attention by einsum": _learned_attention,
    "softmax classifier": _classifier,
    "MultiHeadAttention": _attention_layer(),
    "MultiHeadAttention causal": _attention_layer(causal=True),
    "MultiHeadAttention rotary": _attention_layer(causal=True, rotary=nn.Rotary(_DIM // _HEADS)),
    "MultiHeadAttention ALiBi": _attention_layer(causal=True, alibi=nn.ALiBi(_HEADS)),
    "MultiHeadAttention qk_norm": _attention_layer(causal=True, qk_norm=True),
    "TransformerBlock pre": _block(norm="pre"),
    "TransformerBlock post": _block(norm="post"),
    "TransformerBlock rms_norm": _block(norm_kind="rms_norm", activation="relu_squared"),
    "GPT": _gpt(layers=2),
    "GPT rotary, qk_norm": _gpt(positions="rotary", qk_norm=True, norm_kind="rms_norm"),
    "GPT bigrams": _gpt(positions="rotary", bigram_rows=56),
    "GPT previous_embedding": _gpt(positions="rotary", previous_embedding=True),
    "GPT loss": _loss_of_gpt,
    "Encoder": _model(lambda: models.Encoder(models.EncoderConfig(**_SMALL))),
    "RNN": _model(lambda: models.RNN(models.RNNConfig(**_SHORT))),
    "CNN": _model(lambda: models.CNN(models.CNNConfig(**_SHORT, kernel_size=2, activation="gelu"))),
}


def blocks():
    """Every block by name, with the attention kinds that are registered at the time of the call.

    A block is a function ``build(random)`` that returns ``(fn, inputs, module or None)``.

    >>> fn, inputs, module = blocks()["Linear"](np.random.default_rng(0))
    >>> fn(Tensor(inputs[0])).shape
    (2, 3, 3)
    """
    return {**_BUILDERS, **_attention_kinds()}
