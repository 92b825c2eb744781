"""Newton-Schulz iterations: the orthogonal matrix nearest to a given one, by matrix products alone.

With the singular value decomposition X = U S V^T, an odd polynomial p(s) = a s + b s^3 + c s^5 of a matrix,

    p(X) = a X + b (X X^T) X + c (X X^T)^2 X = U p(S) V^T,

changes the singular values and leaves the singular vectors alone. Polynomials that move all singular values towards 1,
one after the other, bring X to U V^T.

Which polynomials? X is divided by its Frobenius norm, so that its singular values are in (0, 1]. The slope at 0 limits
how fast small values grow, and the values near 1 limit the slope:

- "constant": (a, b, c) = (3.4445, -4.7750, 2.0315) in each iteration. After five, values above 0.003 are between
  0.68 and 1.20.
- "minimax": in each iteration the polynomial that is nearest to 1 on the interval [l, u] where the values are. Its
  error E gives the interval of the next iteration, [1 - E, 1 + E]. The first has a slope of 8 instead of 3.4. After
  four, values above 0.0034 are between 0.82 and 1.18, and smaller ones are multiplied by up to 280; with each further
  iteration the covered interval begins three times lower.

The nearest polynomial has the error +E, -E, +E, -E at four points: l, the two points between where its derivative is 0,
and u (Chebyshev). The Remez algorithm alternates between solving these four equations for a, b, c and E, and moving the
two points. A greedy choice in each iteration is the best for all of them together (Amsel et al.).

Sources: K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024), for the constant
polynomial; N. Amsel et al., "The Polar Express" (2025), arXiv 2505.16932, for the optimal ones.
"""

import functools
import math

import numpy as np

from ..backend import array_namespace
from ..kernels.updates import find_update

POLYNOMIALS = {"constant": 5, "minimax": 4}  # and how many iterations each needs
_CONSTANT = (3.4445, -4.7750, 2.0315)
# The smallest singular value that four minimax iterations bring near 1, and the factor for one iteration less.
_COVERED_BY_FOUR, _PER_ITERATION = 0.01 / 3, 3.0
_SMALLEST_ERROR = (
    1e-3  # half the width of an interval, below which the four equations are ill-conditioned
)

# Sums of squares between these are accurate: their terms neither over- nor underflow noticeably.
_SAFE_SQUARES = {"e": (math.inf, -math.inf), "f": (1e-25, 1e30), "d": (1e-270, 1e300)}


def newton_schulz(matrices, steps=5, polynomials="constant"):
    """Nearly orthogonal matrices with the singular vectors of the given ones.

    Args:
        matrices: an array (..., rows, columns), best with rows <= columns; it is not changed.
        steps: number of iterations.
        polynomials: "constant" or "minimax", see the module.

    Returns:
        A fresh array of the same shape and dtype.

    >>> import numpy as np
    >>> matrices = np.diag([5.0, 1.0, 0.5])
    >>> np.linalg.svd(newton_schulz(matrices))[1].round(1).tolist()
    [0.8, 0.7, 0.7]
    >>> np.linalg.svd(newton_schulz(matrices, 3, "minimax"))[1].round(1).tolist()
    [1.3, 1.1, 1.1]
    """
    return orthogonalize(normalize(matrices.copy()), polynomials_of(polynomials, steps))


def normalize(matrices):
    """The matrices divided by their Frobenius norms, in-place; singular values are then in [0, 1], and 0 for zeros."""
    xp = array_namespace(matrices)
    squares = xp.einsum("...ij,...ij->...", matrices, matrices)
    low, high = _SAFE_SQUARES[matrices.dtype.char]
    if not bool(xp.all((squares > low) & (squares < high))):
        # Divided by the largest element first, squares neither over- nor underflow.
        largest = xp.max(xp.abs(matrices), axis=(-2, -1), keepdims=True)
        matrices /= xp.where(largest == 0, 1, largest)
        squares = xp.maximum(xp.einsum("...ij,...ij->...", matrices, matrices), 1)
    matrices /= xp.sqrt(squares)[..., None, None]
    return matrices


@functools.cache
def polynomials_of(kind, steps):
    """The coefficients (a, b, c) of each iteration, a tuple.

    >>> [[round(c, 2) for c in polynomial] for polynomial in polynomials_of("minimax", 3)]
    [[8.09, -23.62, 17.45], [3.64, -2.72, 0.54], [2.66, -1.98, 0.45]]
    """
    if kind == "constant":
        return (_CONSTANT,) * steps
    low, high = min(0.5, _COVERED_BY_FOUR * _PER_ITERATION ** (4 - steps)), 1.0
    chosen = []
    for _ in range(steps):
        coefficients, error = minimax_polynomial(low, high)
        chosen.append(coefficients)
        error = max(error, _SMALLEST_ERROR)
        low, high = 1 - error, 1 + error
    return tuple(chosen)


def minimax_polynomial(low, high):
    """The odd polynomial of degree 5 with the smallest maximum of abs(1 - p(s)) on [low, high], by the Remez algorithm.

    Returns:
        The coefficients (a, b, c), and the maximum.

    >>> coefficients, error = minimax_polynomial(0.5, 1.5)
    >>> [round(c, 3) for c in coefficients], round(error, 3)
    ([2.197, -1.574, 0.409], 0.086)
    """
    inner = low + (high - low) * np.array([0.25, 0.75])
    error = 0.0
    while True:
        points = np.array([low, *inner, high])
        equations = np.stack([points, points**3, points**5, [1, -1, 1, -1]], axis=1)
        a, b, c, deviation = np.linalg.solve(equations, np.ones(4)).tolist()
        # The deviation grows until the points are the extrema.
        if abs(deviation) <= error * (1 + 1e-12):
            return (a, b, c), abs(deviation)
        error = abs(deviation)
        # p' = a + 3 b s^2 + 5 c s^4 = 0
        root = math.sqrt(9 * b * b - 20 * a * c)
        inner = np.sqrt(np.array([-3 * b - root, -3 * b + root]) / (10 * c))


def orthogonalize(x, polynomials):
    """Apply polynomials, one after the other, to matrices (..., rows, columns) with singular values in [0, 1]."""
    if polynomials and x.shape[-1] >= 2 * x.shape[-2]:
        return _orthogonalize_by_gram(x, polynomials)
    xp = array_namespace(x)
    for coefficients in polynomials:
        gram = xp.matmul(x, xp.swapaxes(x, -1, -2))  # (..., rows, rows)
        x = xp.matmul(_polynomial(gram, coefficients), x)
    return x


def _orthogonalize_by_gram(x, polynomials):
    """The same for wide matrices, with products of the short side only.

    An iteration multiplies X by a polynomial P of the Gram matrix G = X X^T, which is symmetric and commutes with it.
    The next Gram matrix is P X X^T P = P G P, so that X itself is needed again only at the end, times the product of
    all P.
    """
    xp = array_namespace(x)
    gram = xp.matmul(x, xp.swapaxes(x, -1, -2))
    product = polynomial = _polynomial(gram, polynomials[0])
    for coefficients in polynomials[1:]:
        gram = xp.matmul(polynomial, xp.matmul(gram, polynomial))
        polynomial = _polynomial(gram, coefficients)
        product = xp.matmul(polynomial, product)
    return xp.matmul(product, x)


def _polynomial(gram, coefficients):
    """a I + b G + c G^2, for symmetric matrices G."""
    xp = array_namespace(gram)
    a, b, c = coefficients
    fast = find_update("muon_polynomial", gram)
    if fast:
        return fast(gram, xp.matmul(gram, gram), coefficients)
    diagonal = np.arange(gram.shape[-1])
    factor = c * gram
    factor[..., diagonal, diagonal] += b
    polynomial = xp.matmul(factor, gram)
    polynomial[..., diagonal, diagonal] += a
    return polynomial
