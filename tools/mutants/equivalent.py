"""Equivalent mutants: those that compute the same as the original, each with the reason.

A key consists of the name of the function and the first line of the statement before and after the change. A pattern
covers several mutants with the same reason.
"""

import re

EQUIVALENT = {
    "ops.exponential.sqrt_vjp: return xp.where(unused, 0, g / xp.where(unused, 1, 2 * y))"
    "  ->  return xp.where(unused, 0, g / xp.where(unused, 2, 2 * y))": "there g is 0",
    "ops.reductions.std_vjp: inverse = xp.where(y == 0, 0, 1 / xp.where(y == 0, 1, y))"
    "  ->  inverse = xp.where(y == 0, 0, 1 / xp.where(y == 0, 2, y))": "it is not used there",
    "ops.normalization._scaled: largest = xp.maximum(magnitude(x, axes), 1)"
    "  ->  largest = xp.maximum(magnitude(x, axes), 2)": "the scale cancels",
    "kernels.cpu.layer_norm.center: np.subtract(rows, np.where(far, rows[:, 0], mean)[:, None], out=centered)"
    "  ->  np.subtract(rows, np.where(far, rows[:, 1], mean)[:, None], out=centered)": "any element can be the shift",
    "ops.linear_algebra.contract_vjp: if letter in names:  ->  if not letter in names:": (
        "then every index is multiplied by an identity matrix, which changes nothing"
    ),
    "ops.shape.transpose_vjp: inverse = [0] * len(axes)  ->  inverse = [1] * len(axes)": "every element is overwritten",
}

PATTERNS = {
    r"ops\.activations\.gelu_vjp: .*-40\), 40\)  ->  .*": "the density is 0 for all numbers above 38.6",
    r"ops\.arithmetic\.power_vjp_y: .*where\(at_zero, 0, out.*  ->  .*where\(at_zero, 1, out.*": (
        "its factor log(1) is 0 there"
    ),
    r"(ops|kernels\.cpu)\.(log_)?softmax\..* > 0\.5.*  ->  .* > 0\.85.*": (
        "a probability below 0.85 has lost less than three bits of its difference from 1"
    ),
    # The partition of the work changes the order of the computation, not its results.
    r".*: for block in row_blocks\((.*), .*\):  ->  for block in row_blocks\(\1, .*\):": (
        "the block size: rows are computed independently"
    ),
    r".*: blocks = row_blocks\((.*), .*\)  ->  blocks = row_blocks\(\1, .*\)": (
        "the block size: rows are computed independently"
    ),
    r"kernels\.cpu\.blocks\.row_blocks: (blocks|step) = .*": "the block size: rows are computed independently",
    r"kernels\.cpu\..*: scratch = (np\.)?empty\(.*": "the scratch memory is larger than necessary",
    r"kernels\.cpu\.attention\.forward: kind = .*": "short and tiled attention compute the same",
    r"kernels\.cpu\.attention\._Call\._groups: .*": "the number of heads that are processed together",
    r"kernels\.cpu\.attention\._Tiled\.__init__: tile = .*": "the number of heads that are processed together",
    r"kernels\.cpu\.attention\._Tiled\._tiles: seen_by_all = max.*": (
        "the mask is applied to every tile, so that the small tiles of the diagonal may begin at another key"
    ),
    r"kernels\.cpu\.products\.(_pieces:|_halved:|multiply: pieces =) .*": "the number of parts of a product",
    r"kernels\.cpu\.products\.multiply_matrices: rows, columns =.*": "the number of parts of a product",
    r"kernels\.cpu\.products\.multiply(_matrices)?: if .*": "a product has the same result whether it is split or not",
    r"kernels\.cpu\.embedding\.backward: if shape\[0\] <= _ONE_HOT_LARGEST_TABLE:.*": (
        "a product with one-hot rows and a sum of sorted rows give the same result"
    ),
    r"attention\.window\.Band\.__init__: block = max\(window - 1 - after, after, 1\)  ->  "
    r".*(, 2|window - 1 \+ after, after, 1|window - 1, after, 1)\)": "a block may be longer than the window",
    r"attention\.window\.Band\.__init__: neighbors = .*  ->  neighbors = \(-1, 0, 2\).*": (
        "a shift is by one block, in the direction of the sign"
    ),
    r"attention\.window\.Band\.__init__: after = .*// 3": "a block may be longer than the window",
    r"attention\.window\.Band\.__init__: block, neighbors, global_tokens = \(length, \(0,\), 0\)  ->  .*, 1\)": (
        "in one block, the first key may be a shared or a local one"
    ),
    r"kernels\.portable\.attention\._key_tiles: if causal and keys\.(start|stop).*": (
        "a tile in which all keys are visible, or none, can also be computed with the mask"
    ),
    r"kernels\.portable\.attention\._key_tiles: allowed = .*shape\[-[12]\] > 1.*shape\[-[12]\] > 2.*": (
        "a tile has at least 2 rows and columns, so that an axis of length 2 is never split"
    ),
    # The memory layout.
    r"(.*)reshape\(-1(.*)  ->  .*reshape\(-2\2": "NumPy infers the length for any negative number",
    r"kernels\.cpu\.attention\.empty_in_layout_of: .*": (
        "the order of the axes in memory, and content that is overwritten"
    ),
    r"kernels\.cpu\.attention\._Scratch\.take: return memory.*  ->  return -memory.*": "content that is overwritten",
    r"kernels\.cpu\.attention\._Tiled\.forward: weights = scratch\.take\(0,.*  ->  .*scratch\.take\(1,.*": (
        "another of the three scratch tiles, which is unused at that point"
    ),
    r"kernels\.cpu\.blocks\.heads_swapped: .*": "the order of memory access: both compute the same",
    r"kernels\.cpu\.rotary\._rotated: if heads_swapped\(x\):.*": "the order of memory access: both compute the same",
    r"kernels\.cpu\.blocks\._read_only: vector\.flags\.writeable = False.*": "no code writes to it",
    # Numbers that are not used.
    r".*strict=True(.*)  ->  .*strict=False\1": "both have the same length",
    r".*where\(total == 0, 1, total\).*  ->  .*where\(total == 0, 2, total\).*": (
        "where the total is 0, the numerator is 0 too"
    ),
    r".*where\(\w+ == -(math|xp)\.inf, 0, \w+\).*  ->  .*where\(\w+ == -(math|xp)\.inf, 1, \w+\).*": (
        "exp(-inf - 0) and exp(-inf - 1) are both 0"
    ),
    r".*np\.isneginf\(maximum\), 0, maximum\)  ->  .*np\.isneginf\(maximum\), 1, maximum\)": (
        "exp(-inf - 0) and exp(-inf - 1) are both 0"
    ),
    r"kernels\.cpu\.attention\._Tiled\.forward: maximum\[.* = 0  ->  .* = 1": (
        "exp(-inf - 0) and exp(-inf - 1) are both 0"
    ),
    r"kernels\.portable\.attention\._no_allowed_keys: return .*-xp\.inf.*": (
        "these queries see no key, so that backward never reads it"
    ),
    r"ops\.losses\._row_cotangent: .*  ->  .* if reduction == 'mean' else 2, reduction\)": (
        "the number is used for the mean only"
    ),
    r".*astype\(np\.intp, copy=False\)  ->  .*copy=True\)": "a copy of the ids has the same values",
    r"(ops\.losses\._kept_and_classes|kernels\.cpu\.cross_entropy\.forward): .*where\(kept, \w+, 0\).*": (
        "the class of an ignored target is not used (if there is no class 1, the rule runs)"
    ),
    r"attention\.window\.Band\.__init__: (scores = |if scores >= ).*": "one block and several compute the same",
    r"kernels\.cpu\.embedding\.backward: starts = .*prepend=sorted_ids\[0\].*": (
        "any number other than the first id starts a run"
    ),
    r"kernels\.cpu\.linear\.backward: return .*column_sums\(g_rows\) if.*": (
        "the rule computes the gradients that a kernel omits"
    ),
    r"kernels\.cpu\.gelu\.exact_gelu_block: np\.minimum\(square, _FIT_END, out=square\)  ->  pass": (
        "outside its range the polynomial grows, so that tanh is 1 there in both cases"
    ),
    # Thresholds of numerical care, where both sides have the same result to rounding.
    r"kernels\.portable\.tiles\.dropout_factors: matrix = .*2 \*\* 32\).*  ->  .*(3 \*\* 32|2 \*\* 33)\).*": (
        "differs only for 2**32 or more scores per head, more than fit into memory"
    ),
}

_COMPILED = [(re.compile(pattern), reason) for pattern, reason in PATTERNS.items()]


def reason_for(key):
    """Why a mutant is equivalent, or None if it is not listed."""
    if key in EQUIVALENT:
        return EQUIVALENT[key]
    for pattern, reason in _COMPILED:
        if pattern.fullmatch(key):
            return reason
    return None
