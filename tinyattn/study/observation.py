"""Run a model on a text and record the attention of every head, forward and backward, and the predictions."""

import contextlib
import os
from dataclasses import dataclass

import numpy as np

from ..attention import attention_kind, attention_kinds
from ..autograd import Tensor, grad, set_grad_enabled
from ..data import CharVocabulary, Tokenizer
from ..nn import MultiHeadAttention, TransformerBlock, evaluating
from ..ops import cross_entropy, log_softmax
from ..ops.losses import IGNORE_INDEX

MASK_EVERY, MASK_FIRST, MASK_SIGN = 7, 3, "\N{WHITE VERTICAL RECTANGLE}"


@dataclass
class Observation:
    """The result of ``observe``; arrays are NumPy arrays in the model's dtype.

    Attributes:
        characters: the tokens of the text, a list: characters, or how ``Tokenizer.symbols`` shows others.
        unit: what a token is: character, byte or token.
        expected: the target character of each position, or None.
        vocabulary: all tokens, in the order of their ids.
        allowed: boolean (length, length), True if a query of any layer sees the key.
        scores: S (layers, heads, length, length), scaled, -inf if masked.
        weights: P, same shape.
        gradient: dL/dP of the mean loss, same shape; None without gradients.
        score_gradient: dL/dS from the engine, same shape.
        loss, losses: the mean loss in nats, and the loss of each position, NaN without a target.
        probabilities: (length, vocabulary).
        norms: gradient norms by layer: ``places`` and ``series``.
        gradient_of: function from a position to dL/dP of the loss of that position alone.
    """

    characters: list
    expected: list
    vocabulary: list
    allowed: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    loss: float
    losses: np.ndarray
    probabilities: np.ndarray
    head_dim: int
    unit: str = "character"
    gradient: np.ndarray | None = None
    score_gradient: np.ndarray | None = None
    norms: dict | None = None
    gradient_of: object = None


def observe(model, text, *, vocabulary=None, gradients=True):
    """Run a model on a text in eval mode, and record its attention, forward and backward.

    The model is not changed: ``.grad``, train/eval modes, ``requires_grad`` flags and hooks are restored. Gradients
    include those of frozen parameters.

    Args:
        model: a module with softmax attention that maps ids (batch, length) to logits, such as a GPT; or the directory
            of a run, whose best state is loaded; the folder of a GPT-2; or the result of ``tinyattn.train.load_model``.
        text: from 2 characters to the model's block size.
        vocabulary: a tokenizer, or the characters in the order of their ids; a run has its own.
        gradients: whether to run a backward pass.

    Returns:
        An ``Observation``. The targets of a causal model are the next characters. For an encoder, every 7th character
        from the 4th on is masked, shown as a rectangle in ``characters``, and is the target.

    Raises:
        ValueError: for a text that is too short, too long or has unknown characters, a vocabulary whose size differs
            from the model's, and a model without softmax attention.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=4, block_size=8, layers=1, heads=2, dim=8)
    >>> seen = observe(ta.models.GPT(config), "abcab", vocabulary="abcd")
    >>> seen.scores.shape, seen.expected[-2:]
    ((1, 2, 5, 5), ['b', None])
    """
    model, vocabulary = _resolve(model, vocabulary)
    attentions = _attentions(model)
    ids = _encode(model, text, vocabulary)
    characters, ids, targets = _task(model, ids, vocabulary)
    frozen = [p for p in model.parameters() if gradients and not p.requires_grad]
    mode = set_grad_enabled(gradients)
    with evaluating(model), mode, _unfrozen(frozen), _Watch(model, attentions) as watch:
        logits = model(Tensor(ids[None], device=model.device))  # (1, length, vocabulary)
        if logits.shape[-1] != len(vocabulary):
            raise ValueError(
                f"the model predicts {logits.shape[-1]} characters, and the vocabulary has {len(vocabulary)}: "
                "pass the vocabulary of its training"
            )
        losses = cross_entropy(
            logits[0],
            Tensor(targets, device=model.device),
            reduction="none",
            ignore_index=IGNORE_INDEX,
        )
        count = int((targets != IGNORE_INDEX).sum())
        loss = losses.sum() / count
    if not watch.called:
        raise ValueError(
            f"the forward pass of {type(model).__name__} calls none of its attention layers"
        )
    allowed = np.stack([_allowed(attention, len(ids)) for attention in watch.called])[:, None]
    scores = np.stack([tensor.numpy()[0] for tensor in watch.scores])
    values = losses.numpy()
    seen = Observation(
        characters=characters,
        expected=[None if t == IGNORE_INDEX else vocabulary.symbols[t] for t in targets],
        vocabulary=list(vocabulary.symbols),
        allowed=allowed.any(axis=(0, 1)),
        scores=np.where(allowed, scores, -np.inf).astype(scores.dtype),
        weights=np.stack([tensor.numpy()[0] for tensor in watch.weights]),
        loss=loss.item(),
        losses=np.where(targets == IGNORE_INDEX, np.nan, values),
        probabilities=np.exp(log_softmax(logits.detach()).numpy()[0]),
        head_dim=watch.called[0].head_dim,
        unit=vocabulary.unit,
    )
    if gradients:
        _record_gradients(seen, model, watch, loss, losses)
    return seen


def _record_gradients(seen, model, watch, loss, losses):
    layers = len(watch.weights)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    wanted = [*watch.weights, *watch.scores, *watch.residuals, *parameters]
    found = grad(loss, wanted, allow_unused=True, retain_graph=True)
    arrays = [None if one is None else one.numpy() for one in found]
    seen.gradient = np.stack([array[0] for array in arrays[:layers]])
    seen.score_gradient = np.stack([array[0] for array in arrays[layers : 2 * layers]])
    residuals = arrays[2 * layers : 2 * layers + len(watch.residuals)]
    by_parameter = dict(zip(map(id, parameters), arrays[2 * layers + len(watch.residuals) :]))
    seen.norms = _norms(seen, model, residuals, by_parameter)

    def gradient_of(position):
        if np.isnan(seen.losses[position]):
            raise ValueError(f"position {position} has no target character")
        parts = grad(losses[position], watch.weights, allow_unused=True, retain_graph=True)
        zero = np.zeros_like(seen.gradient[0])
        return np.stack([zero if part is None else part.numpy()[0] for part in parts])

    seen.gradient_of = gradient_of


def _norms(seen, model, residuals, by_parameter):
    """Euclidean norms by layer of the gradients of activations and parameters."""
    blocks = [module for module in model.modules() if isinstance(module, TransformerBlock)]
    places = ["input", *map(str, range(len(blocks)))]

    def series(name, values):
        return {"name": name, "values": [None if v is None else float(v) for v in values]}

    def of_parameters(module):
        squares = [
            float(np.sum(np.square(by_parameter[id(parameter)], dtype=np.float64)))
            for parameter in module.parameters()
            if by_parameter.get(id(parameter)) is not None
        ]
        return sum(squares) ** 0.5

    norm = np.linalg.norm
    return {
        "places": places,
        "series": [
            series("residual stream", [None if r is None else norm(r) for r in residuals]),
            series("weights P", [None, *(norm(layer[:, seen.allowed]) for layer in seen.gradient)]),
            series("scores S", [None, *(norm(layer) for layer in seen.score_gradient)]),
            series("attention parameters", [None, *(of_parameters(b.attention) for b in blocks)]),
            series(
                "feed-forward parameters",
                [None, *(of_parameters(b.feed_forward) for b in blocks)],
            ),
        ],
    }


class _Watch:
    """Context manager: forward hooks that record the scores, weights and residual stream of one forward pass."""

    def __init__(self, model, attentions):
        self.scores, self.weights, self.residuals = [], [], []
        self.called = []  # the attention layer of each entry of scores, in call order
        blocks = [module for module in model.modules() if isinstance(module, TransformerBlock)]
        self._hooks = []
        for _, attention in attentions:
            self._hooks.append((attention.scores, self._keep(self.scores, attention)))
            self._hooks.append((attention.weights, self._keep(self.weights)))
        for place, block in enumerate(blocks):
            self._hooks.append((block, self._keep(self.residuals, with_input=place == 0)))

    def _keep(self, kept, attention=None, with_input=False):
        def hook(module, args, output):
            if attention is not None:
                self.called.append(attention)
            if with_input:
                kept.append(args[0])
            kept.append(output)

        return hook

    def __enter__(self):
        self._handles = [module.register_forward_hook(hook) for module, hook in self._hooks]
        return self

    def __exit__(self, *exception):
        for handle in self._handles:
            handle.remove()


@contextlib.contextmanager
def _unfrozen(parameters):
    """Temporarily set ``requires_grad`` of the parameters."""
    for parameter in parameters:
        parameter.requires_grad = True
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad = False


def _resolve(model, vocabulary):
    if isinstance(model, (str, os.PathLike)):
        from ..train.loading import load_model

        loaded = load_model(model)
        model, vocabulary = loaded.model, vocabulary or loaded.vocabulary
    elif hasattr(model, "model") and hasattr(model, "vocabulary"):  # the result of load_run
        model, vocabulary = model.model, vocabulary or model.vocabulary
    return model, as_tokenizer(vocabulary)


def as_tokenizer(vocabulary):
    """``vocabulary``, a tokenizer or the characters in the order of their ids, as a tokenizer.

    Raises:
        ValueError: for None.
    """
    if vocabulary is None:
        raise ValueError(
            "the vocabulary of the model is unknown: pass vocabulary=, the characters in the order of their ids, or "
            "the directory of a run instead of the model"
        )
    return vocabulary if isinstance(vocabulary, Tokenizer) else CharVocabulary(vocabulary)


def _attentions(model):
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    ]
    if not found:
        raise ValueError(f"{type(model).__name__} has no attention layer: expected a transformer")
    for name, attention in found:
        if not attention_kind(attention.kind).has_weights:
            known = [name for name in attention_kinds() if attention_kind(name).has_weights]
            raise ValueError(
                f'{name} has kind="{attention.kind}", which has no attention weights: '
                f"expected one of {', '.join(known)}"
            )
    if len({attention.heads for _, attention in found}) > 1:
        raise ValueError(
            "the attention layers have different numbers of heads: expected the same number in every layer"
        )
    return found


def _allowed(attention, length):
    """Boolean (length, length): the keys that each query of a layer sees."""
    kind = attention_kind(attention.kind)
    visible = kind.visible(length, length, attention.causal, **kind.complete(attention.options))
    return np.ones((length, length), bool) if visible is None else visible


def _task(model, ids, vocabulary):
    """The characters and ids of the input, and the target ids."""
    characters = [vocabulary.symbols[i] for i in ids]
    mask_id = getattr(model, "mask_id", None)
    if mask_id is None:
        return characters, ids, np.append(ids[1:], IGNORE_INDEX)
    hidden = np.arange(len(ids)) % MASK_EVERY == min(MASK_FIRST, len(ids) - 1)
    characters = [MASK_SIGN if hide else character for hide, character in zip(hidden, characters)]
    return characters, np.where(hidden, mask_id, ids), np.where(hidden, ids, IGNORE_INDEX)


def block_size_of(model):
    """The block size of a model, or None if it has none."""
    return getattr(getattr(model, "config", None), "block_size", None)


def _encode(model, text, vocabulary):
    ids = vocabulary.encode(text).astype(np.int64)
    size = f"the text has {len(ids)} {vocabulary.unit}{'s' * (len(ids) != 1)}"
    if len(ids) < 2:
        raise ValueError(f"{size}: expected at least 2")
    block = block_size_of(model)
    if block is not None and len(ids) > block:
        raise ValueError(f"{size}: expected at most {block}, the model's block size")
    return ids
