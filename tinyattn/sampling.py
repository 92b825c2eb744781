"""Text generation: temperature, top-k and nucleus sampling from a language model with a KV cache."""

import functools
import math
import operator

import numpy as np

from .autograd import no_grad
from .backend import Random, get_backend, host_array, listed
from .models.decoding import Decoder, unsupported
from .nn import evaluating


def sample_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """Convert logits to the probabilities of the next token.

    The logits are divided by the temperature. Then top-k keeps the k largest, and top-p (nucleus sampling, Holtzman et
    al. 2020) keeps the smallest set whose total probability reaches p. The rest is normalized.

    Args:
        logits: NumPy array (..., vocabulary), finite or -inf (an excluded token).
        temperature: 0 is greedy: all probability is on the largest logit; values below 1 sharpen the distribution,
            values above 1 flatten it.
        top_k: number of tokens to keep, at least 1; values above the vocabulary size keep all. Ties are broken by
            the lower id, so that exactly k are kept.
        top_p: total probability to keep, 0 to 1. The token that crosses it is kept, so that 0 keeps one and 1
            keeps all. Sums are compared with a tolerance of 16 epsilon of the logits' dtype.

    Returns:
        float64 array (..., vocabulary); the last axis sums to 1.

    Raises:
        ValueError: if a logit is NaN or +inf, if all are -inf, or if an argument is out of range.

    >>> sample_probabilities(np.log([0.5, 0.3, 0.15, 0.05]), top_p=0.6).round(3).tolist()
    [0.625, 0.375, 0.0, 0.0]
    """
    check_sampling(temperature, top_k, top_p)
    logits = host_array(logits)
    rounding = 16 * np.finfo(logits.dtype).eps if logits.dtype.kind == "f" else 0.0
    logits = logits.astype(np.float64)
    _check_logits(logits)
    # Ids from the largest logit to the smallest; the stable sort keeps ties in the order of ids.
    order = np.argsort(-logits, axis=-1, kind="stable")
    ranked = np.take_along_axis(logits, order, axis=-1)
    ranked = ranked - ranked[..., :1]
    if temperature == 0:
        p = np.zeros_like(ranked)
        p[..., 0] = 1.0
    else:
        if top_k is not None:
            ranked[..., int(top_k) :] = -np.inf
        with np.errstate(over="ignore"):  # with a tiny temperature all but the largest become -inf
            p = np.exp(ranked / temperature)
        p /= p.sum(axis=-1, keepdims=True)
        if top_p is not None and top_p < 1:
            before = np.full_like(p, -1.0)  # the first is kept even if top_p is 0
            before[..., 1:] = np.cumsum(p, axis=-1)[..., :-1]  # total of the higher ranks
            p = np.where(before < top_p - rounding, p, 0.0)
            p /= p.sum(axis=-1, keepdims=True)
    result = np.empty_like(p)
    np.put_along_axis(result, order, p, axis=-1)
    return result


def check_sampling(temperature=1.0, top_k=None, top_p=None):
    """Raise a ValueError for the first argument that is out of range.

    >>> check_sampling(temperature=-1)
    Traceback (most recent call last):
        ...
    ValueError: temperature must be a finite number of at least 0, given -1
    """
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
            f"{int(wrong.sum())} of {logits.size} logits are NaN or inf and cannot be sampled from, "
            f"the first is {logits[place]} at {place}: check the model's weights"
        )
    if (logits.max(axis=-1) == -np.inf).any():
        raise ValueError("every logit is -inf: expected at least one finite logit")


def draw(p, random):
    """Draw one id from each distribution in ``p``, float64 (..., vocabulary), by inverse transform sampling.

    The cumulative sum is normalized by its total, so that rounding errors in ``p`` are harmless. Ids with probability
    0 are never drawn.

    >>> int(draw(np.array([0.0, 1.0, 0.0]), Random(0)))
    1
    """
    cumulative = np.cumsum(p, axis=-1, dtype=np.float64)
    total = cumulative[..., -1:]
    threshold = random.uniform(size=p.shape[:-1] + (1,)) * total
    last = np.argmax(cumulative == total, axis=-1)  # the threshold may round up to the total
    return np.minimum(np.sum(cumulative <= threshold, axis=-1), last)


def context_start(position, block_size, slide):
    """Start of the context window from which the token at ``position`` is predicted.

    The start is 0 until the text exceeds the block size. Then it moves in strides of ``slide`` tokens, so that the
    context has between ``block_size - slide + 1`` and ``block_size`` tokens.

    >>> [context_start(position, 4, 1) for position in range(3, 8)]
    [0, 0, 1, 2, 3]
    >>> [context_start(position, 4, 2) for position in range(3, 9)]
    [0, 0, 2, 2, 4, 4]
    """
    return max(0, -(-(position - block_size) // slide) * slide)


def default_slide(block_size):
    """The stride of the context window if none is given: 1, and half the block size for contexts above 256.

    Recomputing a long context for each token takes seconds.

    >>> default_slide(64), default_slide(1024)
    (1, 512)
    """
    return 1 if block_size <= 256 else block_size // 2


class ContextReader:
    """Computes the logits of the next token of a growing text, with a KV cache.

    The cache has the keys and values of the tokens processed so far. When the text exceeds the block size, the
    context window moves (``context_start``) and the cache is recomputed: the cached keys depend, through the layers, on
    tokens outside the window, and learned positions have changed. Therefore the logits equal those of the model on
    the context alone, with or without a cache.

    Single tokens are processed by a ``models.Decoder`` if it supports the model. The model must not change between
    calls.

    Args:
        model: maps ids (batch, tokens) to logits; accepts ``cache=`` if ``use_cache``.
        block_size: longest context of the model.
        slide: stride of the context window, 1 to block_size. Trade-off: 1 keeps the longest context, but recomputes the
            cache for each token beyond the block size; half a block processes most tokens once with a
            context that is shorter at times.
        use_cache: False processes the whole context for every token.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=4, block_size=8, layers=1, heads=1, dim=8)
    >>> reader = ContextReader(ta.models.GPT(config).eval(), block_size=8)
    >>> reader.logits([1, 2, 3]).shape
    (4,)
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
        """Logits (vocabulary,) after the list ``ids``, which extends that of the previous call."""
        start = context_start(len(ids), self.block_size, self.slide)
        if self.use_cache and (self._cache is None or start != self._start):
            self._start = start
            self._cache = self.model.cache()
        cached = self._cache.length if self.use_cache else 0
        new = ids[start + cached :]
        if cached and len(new) == 1 and self._decoder is not None:
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
    stop=None,
):
    """Generate a continuation of a text: an iterator over at most ``length`` ids, each computed on demand.

    The model is switched to eval mode while it computes, and back between two ids. Its parameters, modules and hooks
    must not change during the iteration.

    Args:
        model: a language model such as ``models.GPT``, with ``config.block_size`` and ``cache()``.
        ids: the prompt, at least one id.
        length: number of ids to generate.
        temperature, top_k, top_p: as in ``sample_probabilities``.
        random: random stream (``tinyattn.backend.Random``); a new one by default.
        slide, use_cache: as in ``ContextReader``.
        stop: an id that ends the text, and is not part of it; None for none.

    Raises:
        ValueError: for an empty prompt, an argument out of range, or logits that are NaN or +inf.
        TypeError: for ids that are not integers, and for a model without ``cache()``.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=5, block_size=4, layers=1, heads=1, dim=4)
    >>> len(list(ta.generate(ta.models.GPT(config), [1], length=3)))
    3
    """
    check_sampling(temperature, top_k, top_p)
    ids = [_whole_number(i, "an id") for i in listed(ids, "ids")]
    if not ids:
        raise ValueError("the prompt is empty: expected at least one id")
    length = _whole_number(length, "length")
    if length < 0:
        raise ValueError(f"length must be at least 0, given {length}")
    if use_cache and not hasattr(model, "cache"):
        raise TypeError(
            f"{type(model).__name__} has no cache(): expected a language model such as GPT, or use_cache=False"
        )
    if random is not None and not hasattr(random, "uniform"):
        raise TypeError(f"random must be a stream such as Random({random!r}), given {random!r}")
    reader = ContextReader(model, model.config.block_size, slide, use_cache)
    return _continue(reader, ids, length, (temperature, top_k, top_p), random or Random(), stop)


def _whole_number(value, name):
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, given {value!r}") from None


def _continue(reader, ids, length, filters, random, stop):
    for _ in range(length):
        logits = reader.logits(ids)
        ids.append(int(draw(sample_probabilities(logits, *filters), random)))
        if ids[-1] == stop:
            return
        yield ids[-1]
