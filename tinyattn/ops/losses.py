"""Loss functions."""

from ..autograd import primitive
from ..backend import array_namespace
from .activations import sigmoid
from .conversion import at_least_float32, in_dtype_of
from .embedding import check_ids
from .softmax import log_softmax, softmax, summing_to_zero

IGNORE_INDEX = -100  # a target that does not count; never a valid class

_REDUCTIONS = ("mean", "sum", "none")


@primitive
def cross_entropy(
    logits, target, /, *, ignore_index=IGNORE_INDEX, label_smoothing=0.0, reduction="mean"
):
    """Cross-entropy of ``softmax(logits)`` and the target class: its negative log-probability, in nats.

    Args:
        logits: (..., classes), unnormalized log-probabilities, with the classes on the last axis.
        target: (...), integers in 0 .. classes - 1, or ``ignore_index``.
        ignore_index: positions with this target have loss 0 and gradient 0, and do not count in the mean.
        label_smoothing: weight in [0, 1] of the uniform distribution in the target distribution.
        reduction: ``"mean"`` over the positions that count (0 if there are none), ``"sum"``, or ``"none"`` for one loss
            per position.

    Raises:
        IndexError: if a target is not a valid class (on every device) or not an integer.
        ValueError: for incompatible shapes and unknown options.

    With log p = log_softmax(z) and the target distribution q = (1 - s) onehot(t) + s / C,
        loss = - sum_c q_c log p_c = - (1 - s) log p_t - s mean(log p).

    Backward. d(log p_c)/dz_j = delta_cj - p_j and sum_c q_c = 1, so that dloss/dz_j = p_j - q_j: the predicted
    probability minus the target's. These sum to 0 (see ``summing_to_zero``). They are multiplied by the cotangent of
    the row's loss, which for a mean is g / count.

    Source: C. Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2015), section 7, for label
    smoothing.

    >>> import tinyattn as ta
    >>> loss = ta.cross_entropy(ta.tensor([[0.0, 0.0], [9.0, 1.0]]), [1, -100])
    >>> f"{loss:.4f}"  # log 2
    '0.6931'
    """
    _check_cross_entropy(logits, target, ignore_index, label_smoothing, reduction)
    xp = array_namespace(logits)
    kept, classes = _kept_and_classes(target, ignore_index)
    log_p = log_softmax.rule(logits)
    loss = -(1 - label_smoothing) * _picked(log_p, classes)
    if label_smoothing:
        loss = loss - label_smoothing * xp.mean(log_p, axis=-1)
    return _reduced(xp.where(kept, loss, 0), kept, reduction)


@cross_entropy.vjp("logits")
def cross_entropy_vjp_logits(
    g, _out, logits, target, *, ignore_index=IGNORE_INDEX, label_smoothing=0.0, reduction="mean"
):
    xp = array_namespace(g)
    kept, classes = _kept_and_classes(target, ignore_index)
    p = softmax.rule(at_least_float32(logits))
    q = (1 - label_smoothing) * _onehot(classes, p) + label_smoothing / logits.shape[-1]
    g = _row_cotangent(g, kept, reduction)
    return xp.where(kept[..., None], g[..., None] * summing_to_zero(p - q, p, -1), 0)


@primitive
def nll_loss(log_probabilities, target, /, *, ignore_index=IGNORE_INDEX, reduction="mean"):
    """The negative log-likelihood of the target class.

    ``nll_loss(log_softmax(z), t)`` is ``cross_entropy(z, t)``.

    Args:
        log_probabilities: (..., classes), such as from ``log_softmax``, with the classes on the last axis.
        target, ignore_index, reduction: as for ``cross_entropy``, with the same errors.

    Backward. Each loss is the negative of one element, whose cotangent is -g; that of the others is 0.

    >>> import tinyattn as ta
    >>> ta.nll_loss(ta.tensor([[-1.0, -2.0], [-3.0, -4.0]]), [0, 1])
    Tensor(2.5)
    """
    _check_classes("nll_loss", log_probabilities, target, ignore_index, reduction)
    kept, classes = _kept_and_classes(target, ignore_index)
    loss = array_namespace(log_probabilities).where(kept, -_picked(log_probabilities, classes), 0)
    return _reduced(loss, kept, reduction)


@nll_loss.vjp("log_probabilities")
def nll_loss_vjp_log_probabilities(
    g, _out, _log_probabilities, target, *, ignore_index=IGNORE_INDEX, reduction="mean"
):
    kept, classes = _kept_and_classes(target, ignore_index)
    onehot = _onehot(classes, _log_probabilities) * kept[..., None]
    return _row_cotangent(g, kept, reduction)[..., None] * -onehot


@primitive
def mse_loss(prediction, target, /, *, reduction="mean"):
    """The squared error ``(prediction - target)^2``.

    Args:
        prediction, target: of equal shape. They do not broadcast: (n, 1) and (n) would silently give (n, n).
        reduction: ``"mean"`` over all elements, ``"sum"``, or ``"none"``. The mean of no elements is 0.

    Raises:
        ValueError: for different shapes and an unknown reduction.

    Backward. d(x - t)^2/dx = 2 (x - t), and its negative for t. For a mean the cotangent is g / count.

    >>> import tinyattn as ta
    >>> ta.mse_loss(ta.tensor([1.0, 2.0]), ta.tensor([0.0, 4.0]))
    Tensor(2.5)
    """
    _check_reduction("mse_loss", reduction)
    _check_equal_shapes("mse_loss", "a prediction", prediction, target)
    difference = prediction - target
    return _reduced(difference * difference, None, reduction)


@mse_loss.vjp("prediction")
def mse_loss_vjp_prediction(g, _out, prediction, target, *, reduction="mean"):
    return _element_cotangent(g, prediction.size, reduction) * 2 * (prediction - target)


@mse_loss.vjp("target")
def mse_loss_vjp_target(g, _out, prediction, target, *, reduction="mean"):
    return -mse_loss_vjp_prediction(g, None, prediction, target, reduction=reduction)


@primitive
def binary_cross_entropy_with_logits(logits, target, /, *, reduction="mean"):
    """Binary cross-entropy of the target and the probability ``sigmoid(logits)``, in nats.

    Args:
        logits: log-odds, of any shape.
        target: of the shape of the logits, which does not broadcast: 0 or 1, or a probability in between.
        reduction: ``"mean"`` over all elements, ``"sum"``, or ``"none"``. The mean of no elements is 0.

    Raises:
        ValueError: for different shapes and an unknown reduction.

    With s the sigmoid and the softplus -log s(-z) = max(z, 0) + log(1 + exp(-|z|)),
        loss = - t log s(z) - (1 - t) log s(-z) = ([z > 0] - t) z + log(1 + exp(-|z|)),
    which neither overflows nor takes the logarithm of a probability rounded to 0 or 1.

    Backward. s' = s (1 - s) and 1 - s(z) = s(-z), so that
        dloss/dz = (1 - t) s(z) - t s(-z) = s(z) - t,  computed as on the left, since s(z) may be rounded to 1, and
        dloss/dt = log s(-z) - log s(z) = -z.

    >>> import tinyattn as ta
    >>> ta.binary_cross_entropy_with_logits(ta.tensor([0.0, 1e3, -1e3]), ta.tensor([1, 1, 0]), reduction="none")
    Tensor([0.6931472, 0.       , 0.       ])
    """
    _check_reduction("binary_cross_entropy_with_logits", reduction)
    _check_equal_shapes("binary_cross_entropy_with_logits", "logits", logits, target)
    xp = array_namespace(logits, target)
    t = _as_numbers(target, logits)
    loss = xp.where(logits > 0, 1 - t, -t) * logits + xp.log1p(xp.exp(-xp.abs(logits)))
    return _reduced(loss, None, reduction)


@binary_cross_entropy_with_logits.vjp("logits")
def binary_cross_entropy_with_logits_vjp_logits(g, _out, logits, target, *, reduction="mean"):
    t = _as_numbers(target, logits)
    slope = (1 - t) * sigmoid.rule(logits) - t * sigmoid.rule(-logits)
    return _element_cotangent(g, logits.size, reduction) * slope


@binary_cross_entropy_with_logits.vjp("target")
def binary_cross_entropy_with_logits_vjp_target(g, _out, logits, _target, *, reduction="mean"):
    return _element_cotangent(g, logits.size, reduction) * -logits


def _as_numbers(target, logits):
    """A boolean or integer target in the logits' dtype: unsigned integers have no negative."""
    return target if target.dtype.kind == "f" else target.astype(logits.dtype)


def _element_cotangent(g, count, reduction):
    """The cotangent of each of ``count`` losses, from that of their reduction."""
    g = at_least_float32(g)  # a count may exceed float16's range
    return g / max(count, 1) if reduction == "mean" else g


def _kept_and_classes(target, ignore_index):
    """A mask of the positions that count, and the classes, with class 0 where the target is ignored."""
    target = target.astype("int64")  # so that an unsigned target can be compared with -100
    kept = target != ignore_index
    return kept, array_namespace(target).where(kept, target, 0)


def _picked(values, classes):
    """The elements of (..., classes) at ``classes`` (...): (...)."""
    return array_namespace(values).take_along_axis(values, classes[..., None], axis=-1)[..., 0]


def _onehot(classes, like):
    """One-hot encoding of ``classes`` (...) as (..., classes)."""
    numbers = array_namespace(classes).arange(like.shape[-1])
    return (classes[..., None] == numbers).astype(like.dtype)


def _reduced(losses, kept, reduction):
    if reduction == "none":
        return losses
    result = array_namespace(losses).sum(at_least_float32(losses))
    if reduction == "mean":
        result = result / max(losses.size if kept is None else int(kept.sum()), 1)
    return in_dtype_of(losses, result)


def _row_cotangent(g, kept, reduction):
    """The cotangent of the loss at each position (...), from that of the reduction."""
    g = _element_cotangent(g, int(kept.sum()) if reduction == "mean" else 1, reduction)
    return array_namespace(g).broadcast_to(g, kept.shape)


def _check_cross_entropy(logits, target, ignore_index, label_smoothing, reduction):
    if not 0 <= label_smoothing <= 1:
        raise ValueError(
            f"cross_entropy() got label_smoothing={label_smoothing}: expected a number in [0, 1]"
        )
    _check_classes("cross_entropy", logits, target, ignore_index, reduction)


def _check_classes(operation, scores, target, ignore_index, reduction):
    _check_reduction(operation, reduction)
    if scores.ndim == 0 or getattr(target, "shape", ()) != scores.shape[:-1]:
        raise ValueError(
            f"{operation}() got scores of shape {scores.shape} and a target of shape {getattr(target, 'shape', ())}: "
            "expected (..., classes) and (...), with the classes on the last axis"
        )
    xp = array_namespace(target)
    if target.dtype.kind in "iu":
        target = xp.where(target == ignore_index, 0, target)
    check_ids(target, scores.shape[-1], operation, "target")


def _check_equal_shapes(operation, name, prediction, target):
    shapes = [getattr(value, "shape", ()) for value in (prediction, target)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"{operation}() got {name} of shape {shapes[0]} and a target of shape {shapes[1]}: "
            "expected equal shapes, reshape one of them"
        )


def _check_reduction(operation, reduction):
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"{operation}() got reduction={reduction!r}: expected one of {', '.join(_REDUCTIONS)}"
        )
