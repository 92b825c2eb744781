"""Run a model on a text and record the attention of every head, forward and backward, and the predictions."""

import contextlib
import os
from dataclasses import dataclass

import numpy as np

from ..attention import attention_kind, attention_kinds
from ..autograd import Tensor, grad, set_grad_enabled
from ..data import CharVocabulary
from ..nn import MultiHeadAttention, TransformerBlock, evaluating
from ..ops import cross_entropy, log_softmax
from ..ops.losses import IGNORE_INDEX

MASK_EVERY, MASK_FIRST, MASK_SIGN = 7, 3, "\N{WHITE VERTICAL RECTANGLE}"


@dataclass
class Observation:
    """The result of ``observe``; arrays are NumPy's, in the model's dtype.

    Attributes:
        characters: the text, a list.
        expected: the target character of each position, None where there is none.
        vocabulary: all characters, in the order of their ids.
        allowed: boolean (length, length), True where a query of some layer sees a key.
        scores: S (layers, heads, length, length), scaled, -inf where masked.
        weights: P, likewise.
        gradient: dL/dP of the mean loss, likewise; None if not asked for.
        score_gradient: dL/dS as the engine computes it, likewise.
        loss, losses: the mean loss in nats, and that of each position, NaN where nothing is expected.
        probabilities: (length, vocabulary).
        norms: norms of gradients by layer: ``places`` and ``series``.
        gradient_of: a function of a position: dL/dP of that position's loss alone.
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
    gradient: np.ndarray | None = None
    score_gradient: np.ndarray | None = None
    norms: dict | None = None
    gradient_of: object = None


def observe(model, text, *, vocabulary=None, gradients=True):
    """Run a model on a text in eval mode, and record its attention, forward and backward.

    The model is left unchanged: ``.grad``, modes and hooks stay as they were. Gradients are computed for frozen
    parameters too.

    Args:
        model: a module with softmax attention that maps ids (batch, length) to logits, such as a GPT; or the directory
            of a run, whose best state is taken; or what ``tinyattn.train.load_run`` gave.
        text: 2 characters at least, at most as many as the model's block holds.
        vocabulary: a ``CharVocabulary`` or its characters; a run brings its own.
        gradients: whether to run backward too.

    Returns:
        An ``Observation``. A causal model predicts the next character. For an encoder every 7th character, from the 4th
        on, is masked, and it predicts those; in ``characters`` they are a rectangle.

    Raises:
        ValueError: for a text that is too short or too long or has unknown characters, a vocabulary of another size
            than the model's, and a model without softmax attention.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=4, block_size=8, layers=1, heads=2, dim=8)
    >>> seen = observe(ta.models.GPT(config), "abcab", vocabulary="abcd")
    >>> seen.scores.shape, seen.expected[-2:]
    ((1, 2, 5, 5), ['b', None])
    """
    model, vocabulary = _resolve(model, vocabulary)
    attentions = _attentions(model)
    ids = _encode(model, text, vocabulary)
    characters, ids, targets = _task(model, text, ids, vocabulary)
    frozen = [p for p in model.parameters() if gradients and not p.requires_grad]
    mode = set_grad_enabled(gradients)
    with evaluating(model), mode, _unfrozen(frozen), _Watch(model, attentions) as watch:
        logits = model(Tensor(ids[None], device=model.device))  # (1, length, vocabulary)
        if logits.shape[-1] != len(vocabulary):
            raise ValueError(
                f"the model predicts {logits.shape[-1]} characters, and the vocabulary has {len(vocabulary)}: "
                "give the one that it was trained with"
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
        raise ValueError(f"this {type(model).__name__} runs none of its attention layers")
    allowed = np.stack([_allowed(attention, len(ids)) for attention in watch.called])[:, None]
    scores = np.stack([tensor.numpy()[0] for tensor in watch.scores])
    values = losses.numpy()
    seen = Observation(
        characters=characters,
        expected=[None if t == IGNORE_INDEX else vocabulary.characters[t] for t in targets],
        vocabulary=list(vocabulary.characters),
        allowed=allowed.any(axis=(0, 1)),
        scores=np.where(allowed, scores, -np.inf).astype(scores.dtype),
        weights=np.stack([tensor.numpy()[0] for tensor in watch.weights]),
        loss=loss.item(),
        losses=np.where(targets == IGNORE_INDEX, np.nan, values),
        probabilities=np.exp(log_softmax(logits.detach()).numpy()[0]),
        head_dim=watch.called[0].head_dim,
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
            raise ValueError(f"position {position} has nothing to predict")
        parts = grad(losses[position], watch.weights, allow_unused=True, retain_graph=True)
        zero = np.zeros_like(seen.gradient[0])
        return np.stack([zero if part is None else part.numpy()[0] for part in parts])

    seen.gradient_of = gradient_of


def _norms(seen, model, residuals, by_parameter):
    """Euclidean norms of gradients by layer: of activations and of parameters."""
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
            series("attention's parameters", [None, *(of_parameters(b.attention) for b in blocks)]),
            series(
                "feed-forward's parameters",
                [None, *(of_parameters(b.feed_forward) for b in blocks)],
            ),
        ],
    }


class _Watch:
    """Forward hooks that keep the scores, weights and residual stream of one forward pass."""

    def __init__(self, model, attentions):
        self.scores, self.weights, self.residuals = [], [], []
        self.called = []  # the attention layer of each of the scores: in the order of calls, not of names
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
    """Set ``requires_grad`` of the parameters inside the block."""
    for parameter in parameters:
        parameter.requires_grad = True
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad = False


def _resolve(model, vocabulary):
    if isinstance(model, (str, os.PathLike)):
        from ..train.session import load_run

        loaded = load_run(model)
        model, vocabulary = loaded.model, vocabulary or loaded.vocabulary
    elif hasattr(model, "model") and hasattr(model, "vocabulary"):  # what load_run gives
        model, vocabulary = model.model, vocabulary or model.vocabulary
    if vocabulary is None:
        raise ValueError(
            "the model's vocabulary is not known: pass vocabulary=, the characters in the order of "
            "their ids, or give a run's directory in place of the model"
        )
    if not isinstance(vocabulary, CharVocabulary):
        vocabulary = CharVocabulary(vocabulary)
    return model, vocabulary


def _attentions(model):
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    ]
    if not found:
        raise ValueError(f"this {type(model).__name__} has no attention to look at")
    for name, attention in found:
        if not attention_kind(attention.kind).has_weights:
            known = [name for name in attention_kinds() if attention_kind(name).has_weights]
            raise ValueError(
                f'{name} attends with kind="{attention.kind}", which has no softmax to look at: '
                f"expected one of {', '.join(known)}"
            )
    if len({attention.heads for _, attention in found}) > 1:
        raise ValueError(
            "the layers have different numbers of heads: they cannot be shown side by side"
        )
    return found


def _allowed(attention, length):
    """Which key each query of a layer sees, (length, length)."""
    kind = attention_kind(attention.kind)
    visible = kind.visible(length, length, attention.causal, **kind.complete(attention.options))
    return np.ones((length, length), bool) if visible is None else visible


def _task(model, text, ids, vocabulary):
    """The characters and ids of the input, and the target ids."""
    mask_id = getattr(model, "mask_id", None)
    if mask_id is None:
        return list(text), ids, np.append(ids[1:], IGNORE_INDEX)
    hidden = np.arange(len(ids)) % MASK_EVERY == min(MASK_FIRST, len(ids) - 1)
    characters = [MASK_SIGN if hide else character for hide, character in zip(hidden, text)]
    return characters, np.where(hidden, mask_id, ids), np.where(hidden, ids, IGNORE_INDEX)


def block_size_of(model):
    """How many characters a model sees at once; None where it does not say."""
    return getattr(getattr(model, "config", None), "block_size", None)


def _encode(model, text, vocabulary):
    if len(text) < 2:
        raise ValueError(
            f"the text has {len(text)} character{'s' * (len(text) != 1)}: expected 2 at least"
        )
    block = block_size_of(model)
    if block is not None and len(text) > block:
        raise ValueError(
            f"the text has {len(text)} characters, the model sees {block} at once: give {block} at most"
        )
    return vocabulary.encode(text).astype(np.int64)
