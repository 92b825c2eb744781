"""Text out of a trained model, a character at a time."""

import functools
import math
import operator

import numpy as np

from .autograd import no_grad
from .backend import Random, get_backend, host_array, listed
from .models.decoding import Decoder, unsupported
from .nn import evaluating


def sample_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """The distribution that the next character is drawn from.

    First the temperature divides the logits, then top-k keeps the k largest, then top-p keeps the
    smallest set whose probability reaches p (Holtzman et al. 2020), and what is left is
    normalised.

    Args:
        logits: NumPy array (..., vocabulary), finite or -inf (a character that must not come).
        temperature: 0 puts everything on the largest logit; below 1 sharpens, above 1 flattens.
        top_k: how many characters to keep, at least 1; more than there are keeps them all. Among
            equal logits the lowest id is kept first, so that exactly k are kept.
        top_p: share of the probability to keep, 0 to 1; the character that crosses it is kept, so
            that 0 keeps one and 1 keeps all. A sum that reaches it but for rounding, 16 units of the
            logits' precision, has reached it.

    Returns:
        float64 array (..., vocabulary); the last axis sums to 1.

    Raises:
        ValueError: for NaN or +inf among the logits, for none above -inf, for an argument out of
            range.

    >>> sample_probabilities(np.log([0.5, 0.3, 0.15, 0.05]), top_p=0.6).round(3).tolist()
    [0.625, 0.375, 0.0, 0.0]
    """
    check_sampling(temperature, top_k, top_p)
    logits = host_array(logits)
    rounding = 16 * np.finfo(logits.dtype).eps if logits.dtype.kind == "f" else 0.0
    logits = logits.astype(np.float64)
    _check_logits(logits)
    # Ids from the largest logit to the smallest; a stable sort leaves equal ones in the order of
    # ids.
    order = np.argsort(-logits, axis=-1, kind="stable")
    ranked = np.take_along_axis(logits, order, axis=-1)
    ranked = ranked - ranked[..., :1]
    if temperature == 0:
        p = np.zeros_like(ranked)
        p[..., 0] = 1.0
    else:
        if top_k is not None:
            ranked[..., int(top_k) :] = -np.inf
        with np.errstate(over="ignore"):  # a tiny temperature sends all but the largest to -inf
            p = np.exp(ranked / temperature)
        p /= p.sum(axis=-1, keepdims=True)
        if top_p is not None and top_p < 1:
            before = np.full_like(p, -1.0)  # the first is kept even for top_p = 0
            before[..., 1:] = np.cumsum(p, axis=-1)[..., :-1]  # probability of what ranks higher
            p = np.where(before < top_p - rounding, p, 0.0)
            p /= p.sum(axis=-1, keepdims=True)
    result = np.empty_like(p)
    np.put_along_axis(result, order, p, axis=-1)
    return result


def check_sampling(temperature=1.0, top_k=None, top_p=None):
    """Raise a ValueError that names the first of the three arguments that is out of range."""
    if not (temperature >= 0 and math.isfinite(temperature)):
        raise ValueError(f"temperature must be a finite number of at least 0, given {temperature}")
    if top_k is not None and (top_k != int(top_k) or top_k < 1):
        raise ValueError(f"top_k must be a whole number of at least 1, given {top_k}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be between 0 and 1, given {top_p}")


def _check_logits(logits):
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"expected logits of shape (..., vocabulary), given {logits.shape}")
    wrong = np.isnan(logits) | (logits == np.inf)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"{int(wrong.sum())} of {logits.size} logits cannot be sampled from, "
            f"the first is {logits[place]} at {place}: the model is broken"
        )
    if (logits.max(axis=-1) == -np.inf).any():
        raise ValueError("every logit is -inf: no character is left to sample")


def draw(p, random):
    """One id for each distribution in ``p``, float64 (..., vocabulary), by its cumulative sum.

    Dividing by the sum here makes any rounding of ``p`` harmless, and a probability of 0 is
    never drawn.

    >>> int(draw(np.array([0.0, 1.0, 0.0]), Random(0)))
    1
    """
    cumulative = np.cumsum(p, axis=-1, dtype=np.float64)
    total = cumulative[..., -1:]
    threshold = random.uniform(size=p.shape[:-1] + (1,)) * total
    last = np.argmax(cumulative == total, axis=-1)  # the product above may round up to the total
    return np.minimum(np.sum(cumulative <= threshold, axis=-1), last)


def context_start(position, block_size, slide):
    """Where the context begins from which the character at ``position`` is predicted.

    0 while everything fits. From then on it moves in jumps of ``slide`` characters, so that the
    context holds between ``block_size - slide + 1`` and ``block_size`` characters.

    >>> [context_start(position, 4, 1) for position in range(3, 8)]
    [0, 0, 1, 2, 3]
    >>> [context_start(position, 4, 2) for position in range(3, 9)]
    [0, 0, 2, 2, 4, 4]
    """
    return max(0, -(-(position - block_size) // slide) * slide)


class ContextReader:
    """Gives the logits for the character after a text that grows, reading every character once if it can.

    The keys and values of what was read are kept. When the text outgrows the context, the context's
    beginning moves (``context_start``) and what is in it is read anew: an old key has seen, through the
    layers, characters that are gone, and with learned positions it is at another place now. The logits
    are therefore those of the model on the context alone, with or without a cache.

    Single characters are read by a ``models.Decoder`` if the model is one that it supports; the model must
    not change between two of them.

    Args:
        model: ids (batch, characters) to logits; takes ``cache=`` where ``use_cache``.
        block_size: the longest context the model takes.
        slide: how far the beginning moves at a time, 1 to block_size. 1 keeps as much context as there
            can be and reads it anew for each character; half a block costs a few characters of context
            and reads most of them once.
        use_cache: False reads the whole context for every character.
    """

    def __init__(self, model, block_size, slide=1, use_cache=True):
        if not 1 <= slide <= block_size:
            raise ValueError(
                f"slide must be between 1 and the block size {block_size}, given {slide}"
            )
        self.model = model
        self.block_size = block_size
        self.slide = slide
        self.use_cache = use_cache
        self._start = 0
        self._cache = None

    def logits(self, ids):
        """The logits after the list ``ids``, which begins with the one of the call before: (vocabulary,)."""
        start = context_start(len(ids), self.block_size, self.slide)
        if self.use_cache and (self._cache is None or start != self._start):
            self._start = start
            self._cache = self.model.cache()
        read = self._cache.length if self.use_cache else 0
        new = ids[start + read :]
        if read and len(new) == 1 and self._decoder is not None:
            return self._decoder(new[0], self._cache)
        new = get_backend(self.model.device).asarray(np.array([new], dtype=np.int64))
        with evaluating(self._modules), no_grad():
            output = self.model(new, cache=self._cache) if self.use_cache else self.model(new)
        return output[0, -1].numpy()

    @functools.cached_property
    def _decoder(self):
        return None if unsupported(self.model) else Decoder(self.model)

    @functools.cached_property
    def _modules(self):
        return self.model.modules()


def generate(
    model,
    ids,
    length,
    *,
    temperature=1.0,
    top_k=None,
    top_p=None,
    random=None,
    slide=1,
    use_cache=True,
):
    """Continue a text: an iterator over ``length`` ids, each made when it is asked for.

    The model is in evaluation mode while it computes, and in its own mode between two ids. Its parameters, modules and
    hooks must not change before the last one.

    Args:
        model: a language model such as ``models.GPT``, with ``config.block_size`` and ``cache()``.
        ids: the text so far, at least one id.
        length: how many ids to make.
        temperature, top_k, top_p: as in ``sample_probabilities``.
        random: the stream to draw from (``tinyattn.backend.Random``); a new one by default.
        slide, use_cache: as in ``ContextReader``.

    Raises:
        ValueError: for an empty text, an argument out of range, or a model whose logits are NaN.
        TypeError: for ids that are no integers, and a model without ``cache()``.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=5, block_size=4, layers=1, heads=1, dim=4)
    >>> len(list(ta.generate(ta.models.GPT(config), [1], length=3)))
    3
    """
    check_sampling(temperature, top_k, top_p)
    ids = [_whole_number(i, "an id") for i in listed(ids, "ids")]
    if not ids:
        raise ValueError("there is nothing to continue: give at least one id")
    length = _whole_number(length, "length")
    if length < 0:
        raise ValueError(f"length must be at least 0, given {length}")
    if use_cache and not hasattr(model, "cache"):
        raise TypeError(
            f"a {type(model).__name__} has no cache() and cannot continue a text: expected a language model such as "
            "GPT, or use_cache=False"
        )
    if random is not None and not hasattr(random, "uniform"):
        raise TypeError(f"random must be a stream such as Random({random!r}), given {random!r}")
    reader = ContextReader(model, model.config.block_size, slide, use_cache)
    return _continue(reader, ids, length, (temperature, top_k, top_p), random or Random())


def _whole_number(value, name):
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, given {value!r}") from None


def _continue(reader, ids, length, filters, random):
    for _ in range(length):
        logits = reader.logits(ids)
        ids.append(int(draw(sample_probabilities(logits, *filters), random)))
        yield ids[-1]
