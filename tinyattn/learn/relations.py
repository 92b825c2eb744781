"""Relations between a wrong gradient and the correct one, for gradients that no known mistake gives."""

import numpy as np


def close(one, other, tolerance=1e-4):
    """Whether two arrays agree relative to the largest entry of the second; NaN agrees with NaN.

    >>> close(np.array([1.0, 1e-9]), np.array([1.0, 0.0]))
    True
    """
    if one.shape != other.shape:
        return False
    # As np.allclose, in half the time: a diagnosis compares thousands of small arrays.
    finite = np.isfinite(other)
    size = np.abs(other)
    scale = np.max(size, initial=0.0, where=finite)
    with np.errstate(invalid="ignore"):  # inf - inf
        near = finite & (np.abs(one - other) <= tolerance * (size + scale) + 1e-12)
    return bool(np.all(near | (one == other) | (np.isnan(one) & np.isnan(other))))


def constant_factor(position, samples):
    """The constant factor between the learner's gradient and the correct one in all samples, or None."""
    factors = [_ratio(given, right) for _, given, right in _pairs(position, samples)]
    factors = [factor for factor in factors if factor is not True]
    if (
        not factors
        or None in factors
        or max(factors) - min(factors) > 1e-3 * max(map(abs, factors))
    ):
        return None
    return factors[0]


def describe(position, samples, answer):
    """True sentences about the gradient, the most specific first."""
    pairs = _pairs(position, samples)
    sentences = []
    for one in (_zeros, _not_finite, _whole_numbers):
        sentence = one(position, pairs, samples)
        if sentence:
            return sentence
    about_g = _use_of_g(position, pairs, answer)
    if about_g:
        return about_g
    for one in (_factors, _rearranged, _other_input):
        sentence = one(position, pairs, samples)
        if sentence:
            return sentence
    in_cases = _right_in_cases(pairs)
    if in_cases:
        sentences.append(in_cases)
    for one in (_right_for_ones, _times_a_quantity, _off_by_a_quantity, _rows, _partly):
        sentence = one(position, pairs, samples, answer)
        if sentence:
            sentences.append(sentence)
    return sentences[0] + "".join(f"\n  it {sentence}" for sentence in sentences[1:3])


def _pairs(position, samples):
    return [
        (s, s.given[position], s.right[position]) for s in samples if s.given[position] is not None
    ]


def _ratio(given, right):
    """c with given = c right; True if both are 0, None if there is none."""
    if given.shape != right.shape or not np.isfinite(given).all():
        return None
    square = float(np.sum(right * right))
    if not square:
        return True if close(given, right) else None
    factor = float(np.sum(given * right)) / square
    return factor if close(given, factor * right) and abs(factor) > 1e-6 else None


# ------------------------------------------------------------------------------------------- relations that say all


def _zeros(position, pairs, samples):
    return "is 0 everywhere" if not any(np.any(given) for _, given, _ in pairs) else ""


def _not_finite(position, pairs, samples):
    bad = [s.label for s, given, _ in pairs if not np.isfinite(given).all()]
    return f"holds NaN or infinity for {bad[0]}" if bad else ""


def _whole_numbers(position, pairs, samples):
    if all(given.dtype.kind in "iu" for _, given, _ in pairs):
        return f"is an array of whole numbers ({pairs[0][1].dtype}): fractions were cut off"
    return ""


def _factors(position, pairs, samples):
    factors = [_ratio(given, right) for _, given, right in pairs]
    if None in factors:
        return ""
    known = [(s, right, f) for (s, _, right), f in zip(pairs, factors) if f is not True]
    values = [f for _, _, f in known]
    if max(values) - min(values) <= 1e-3 * max(map(abs, values)):
        if abs(values[0] + 1) < 1e-3:
            return "has the wrong sign, and is right otherwise"
        return f"is right up to a factor: it is {values[0]:.4g} times the right one"
    for name, lengths in _counts(known).items():
        for power, text in (
            (1, name),
            (-1, f"1 / {name}"),
            (0.5, f"sqrt({name})"),
            (-0.5, f"1 / sqrt({name})"),
        ):
            if all(abs(f - n**power) <= 1e-3 * abs(f) for f, n in zip(values, lengths)):
                return f"is right up to a factor, {text}"
    right_for = [s.label for s, _, f in known if abs(f - 1) < 1e-3]
    others = [f"{f:.4g} for {s.label}" for s, _, f in known if abs(f - 1) >= 1e-3]
    examples = ", ".join(others[:3])
    if right_for:
        return f"is right for {'; '.join(right_for[:3])}, and up to a factor elsewhere: {examples}"
    return f"is right up to a factor that differs from case to case: {examples}"


def _counts(known):
    """Quantities that a factor may equal: name -> value in each sample."""
    shapes = [right.shape for _, right, _ in known]
    outs = [s.out.size for s, _, _ in known]
    counts = {"the number of its elements": [right.size for _, right, _ in known]}
    if all(shapes):
        counts["the length of the last axis"] = [shape[-1] for shape in shapes]
        counts["the length of the first axis"] = [shape[0] for shape in shapes]
    counts["the number of elements of the output"] = outs
    counts["the number of rows"] = [
        right.size // max(right.shape[-1:] or (1,)) for _, right, _ in known
    ]
    if all(outs):  # the larger size divided by the smaller: each name is true of its own case only
        ratios = [right.size / s.out.size for s, right, _ in known]
        if all(ratio >= 1 for ratio in ratios):
            counts["the number of its elements for each output"] = ratios
        elif all(0 < ratio <= 1 for ratio in ratios):
            counts["the number of outputs for each of its elements"] = [1 / r for r in ratios]
    for position, name in enumerate(known[0][0].primitive.input_names):
        lengths = [np.shape(s.inputs[position]) for s, _, _ in known]
        for axis in (-1, -2):
            if all(len(shape) >= -axis and shape[axis] for shape in lengths):
                counts[f"the length of axis {axis} of {name}"] = [shape[axis] for shape in lengths]
    return counts


def _rearranged(position, pairs, samples):
    ways = {
        "is the transpose of the right one": lambda d: np.swapaxes(d, -1, -2) if d.ndim > 1 else d,
        "has its rows in reverse": lambda d: d[::-1] if d.ndim else d,
        "is reversed along the last axis": lambda d: d[..., ::-1] if d.ndim else d,
    }
    for what, way in ways.items():
        fitting = [(given, right) for _, given, right in pairs if way(right).shape == given.shape]
        if fitting and all(close(given, way(right)) for given, right in fitting):
            if not all(close(given, right) for given, right in fitting):
                return what
            continue
    return ""


def _other_input(position, pairs, samples):
    names = samples[0].primitive.input_names
    for other, name in enumerate(names):
        if other == position:
            continue
        fitting = [
            (given, s.right[other], right)
            for s, given, right in pairs
            if s.right[other] is not None and s.right[other].shape == given.shape
        ]
        if fitting and all(close(given, theirs) for given, theirs, _ in fitting):
            if not all(close(given, right) for given, _, right in fitting):
                return f"is the gradient of {name}: are the two in the wrong order?"
    return ""


# ------------------------------------------------------------------------------------------ relations that say a part


def _use_of_g(position, pairs, answer):
    sample = pairs[0][0]
    try:
        once, twice = (
            answer.gradients(n * sample.g, sample.out, sample.inputs, sample.parameters)[position]
            for n in (1, 2)
        )
    except Exception:  # the learner's function may fail in any way on another cotangent
        return ""
    if close(once, twice):
        return "does not use g: the loss that follows has no influence on it"
    if not close(2 * once, twice):
        return "is not linear in g: twice the cotangent must give twice the gradient"
    return ""


def _right_for_ones(position, pairs, samples, answer):
    sample = next(s for s, given, right in pairs if not close(given, right))
    ones = np.ones_like(sample.g)
    call = (ones, sample.out, sample.inputs, sample.parameters)
    right = np.asarray(sample.primitive.cotangent(position, *call))
    if np.max(np.abs(right), initial=0.0) < 1e-6:  # zero but for rounding, as those of softmax
        return ""
    try:
        if close(answer.gradients(*call)[position], right):
            return "is right where g is 1 everywhere: g is multiplied in the wrong place"
    except Exception:  # as above
        pass
    return ""


def _quantities(sample, like):
    """Arrays of the gradient's shape by which it may be multiplied or divided: name -> array."""
    found = {"g": sample.g, "the output": sample.out, "1 - the output": 1 - sample.out}
    for name, value in zip(sample.primitive.input_names, sample.inputs):
        if getattr(value, "dtype", None) is not None and value.dtype.kind == "f":
            found[f"the input {name}"] = value
    found["g times the output"] = sample.g * sample.out
    return {name: value for name, value in found.items() if value.shape == like.shape}


def _names(pairs):
    """The names of the quantities of all samples, in a fixed order."""
    return list(dict.fromkeys(name for s, _, right in pairs for name in _quantities(s, right)))


def _times_a_quantity(position, pairs, samples, answer):
    for name in _names(pairs):
        for text, way in (("times", np.multiply), ("divided by", np.divide)):
            fits = []
            for sample, given, right in pairs:
                quantity = _quantities(sample, right).get(name)
                if quantity is not None:
                    fits.append(close(given, way(right, quantity)))
            if len(fits) * 4 >= len(pairs) and all(fits):
                return f"is the right one {text} {name}"
    return ""


def _off_by_a_quantity(position, pairs, samples, answer):
    """Whether the difference from the right one is, in each row, a multiple of something."""
    names = ["1", *_names(pairs)]
    for name in names:
        fits = []
        for sample, given, right in pairs:
            axis = _row_axis(sample)
            if axis >= right.ndim or not right.ndim or right.shape[axis] < 3:
                continue
            quantity = _quantities(sample, right).get(
                name, np.ones_like(right) if name == "1" else None
            )
            if quantity is None:
                continue
            difference = given - right
            if close(given, right):
                continue  # a difference of zero is a multiple of anything
            square = np.sum(quantity * quantity, axis=axis, keepdims=True)
            multiple = np.sum(difference * quantity, axis=axis, keepdims=True) / np.where(
                square, square, 1
            )
            fits.append(close(difference, multiple * quantity))
        if len(fits) * 4 >= len(pairs) and all(fits):
            what = "one and the same number" if name == "1" else f"a multiple of {name}"
            return f"differs from the right one, in each row, by {what}"
    return ""


def _row_axis(sample):
    """The axis along which the operation combines elements."""
    axis = sample.parameters.get("axis")
    return axis if isinstance(axis, int) else -1


def _rows(position, pairs, samples, answer):
    """A sentence if rows that must sum to 0 do not."""
    rows = [(given, right, _row_axis(s)) for s, given, right in pairs if right.ndim]
    rows = [(given, right, axis) for given, right, axis in rows if -1 <= axis < right.ndim]
    if rows and all(np.allclose(right.sum(axis), 0, atol=1e-9) for _, right, axis in rows):
        worst = max(np.max(np.abs(given.sum(axis)), initial=0.0) for given, _, axis in rows)
        if worst > 1e-6:
            return f"has rows that do not add up to 0 (one adds up to {worst:.3g}), as those of the right one do"
    return ""


def _right_in_cases(pairs):
    right_in = [s.label for s, given, right in pairs if close(given, right)]
    wrong_in = [s.label for s, given, right in pairs if not close(given, right)]
    if not right_in:
        return ""
    text = f"is right for {'; '.join(right_in[:3])}, and wrong for {'; '.join(wrong_in[:3])}"
    common = _only_in_wrong_cases(pairs)
    return (
        f"{text}\n  all wrong cases, and no right one, have {' and '.join(common)}"
        if common
        else text
    )


def _only_in_wrong_cases(pairs):
    """The parameters and optional inputs that all wrong cases and no right case have."""
    right, wrong = [], []
    for sample, given, gradient in pairs:
        features = {f"{name}={value}" for name, value in sample.parameters.items()}
        for name, value in zip(sample.primitive.input_names, sample.inputs):
            if value is not None:
                features.add(f"a {name}")
        (right if close(given, gradient) else wrong).append(features)
    return sorted(set.intersection(*wrong) - set().union(*right)) if right and wrong else []


def _partly(position, pairs, samples, answer):
    if _right_in_cases(pairs):
        return ""
    good = total = agreeing = 0
    ratios = []
    for _, given, right in pairs:
        scale = np.max(np.abs(right), initial=0.0)
        good += int(np.sum(np.abs(given - right) <= 1e-4 * scale))
        agreeing += int(np.sum(np.sign(given) == np.sign(right)))
        ratios += list(np.ravel(given / np.where(right == 0, np.nan, right)))
        total += right.size
    if good:
        return f"is right in {good} of {total} elements, and has the right sign in {agreeing}"
    if agreeing == total:
        least, most = np.nanmin(ratios), np.nanmax(ratios)
        return (
            f"has the right sign everywhere, and is {least:.3g} to {most:.3g} times the right one"
        )
    return f"is wrong in every element, and has the right sign in {agreeing} of {total}"
