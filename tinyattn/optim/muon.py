"""Muon: momentum, orthogonalized by Newton-Schulz iterations."""

import math

import numpy as np

from ..backend import array_namespace
from ..kernels.updates import find_update
from .optimizer import Optimizer

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STACKED = 4  # matrices that are worked on together on a CPU: enough for one call, little enough to share out


class Muon(Optimizer):
    """Update each weight matrix with the orthogonal matrix nearest to its momentum.

    With G the gradient of a matrix W, stored (in, out):
        B = momentum B + G,        U = G + momentum B (Nesterov)  or  U = B,
        W = W - lr weight_decay W - lr sqrt(max(1, out/in)) orthogonal(U).
    ``orthogonal(U)`` has the singular vectors of U and singular values near 1: all directions of the momentum change
    the weight by the same amount, including rare ones.

    Use it for the matrices inside a network, and AdamW for embeddings, output layer, norms and biases:
    ``tinyattn.models.split_for_muon`` splits the parameters.

    Args:
        params: matrices, named matrices or groups: see ``Optimizer``.
        lr: learning rate; an update has the size lr in every direction, independently of the size of the gradient.
        momentum: momentum factor.
        nesterov: use Nesterov momentum.
        ns_steps: number of Newton-Schulz iterations.
        weight_decay: weight decay coefficient; each step subtracts lr weight_decay W.
        parts: number of matrices concatenated in each parameter, each orthogonalized separately: 3 for queries, keys
            and values in one weight (in, 3 out).

    Raises:
        ValueError: for parameters that are not matrices, or with a number of columns not divisible by ``parts``.

    Source: K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024).

    >>> import tinyattn as ta
    >>> w = ta.tensor([[0.0, 0.0], [0.0, 0.0]], requires_grad=True)
    >>> optimizer = Muon([w], lr=0.1)
    >>> (w * ta.tensor([[100.0, 0.0], [0.0, 1.0]])).sum().backward()
    >>> optimizer.step()
    >>> bool(abs(w.numpy()[0, 0] / w.numpy()[1, 1]) < 2)
    True
    """

    buffers = ("momentum",)

    def __init__(
        self,
        params,
        lr=0.02,
        momentum=0.95,
        nesterov=True,
        ns_steps=5,
        weight_decay=0.0,
        parts=1,
    ):
        self._place_arrays = {}
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_steps": ns_steps,
                "weight_decay": weight_decay,
                "parts": parts,
            },
        )

    def check(self, group):
        super().check(group)
        if not 0 <= group["momentum"] < 1:
            raise ValueError(f"momentum must be in [0, 1), got {group['momentum']}")
        for name, least in (("ns_steps", 0), ("parts", 1)):
            if group[name] != int(group[name]) or group[name] < least:
                raise ValueError(
                    f"{name} must be a whole number of at least {least}, got {group[name]}"
                )
            group[name] = int(group[name])

    def check_parameters(self, parameters, group):
        for parameter in parameters:
            if parameter.ndim != 2 or parameter.shape[1] % group["parts"]:
                raise ValueError(
                    f"Muon updates matrices, got a parameter of shape {parameter.shape} with "
                    f"parts={group['parts']}: use AdamW for biases, norms and embeddings"
                )

    def updates(self):
        """Yield ``(update, items)``: an item is a stack of matrices that are updated together."""
        # The fast version sums squares in float64, from whose range only those of float64 can be outside.
        narrow = all(member.values.dtype != "d" for member in self._storages)
        if narrow and find_update("muon_directions", self._storages[0].storage.values):
            yield _update_in_place, list(self._places())
            return
        stacks = {}  # backend, shape with rows <= columns, options -> matrices
        for member in self._storages:
            for position, has_gradient in enumerate(member.present):
                if has_gradient:
                    self._collect(member, position, stacks)
        yield (
            muon_update,
            [
                (matrices[start : start + size], dict(options))
                for (backend, _, options), matrices in stacks.items()
                for size in [len(matrices) if backend.kind == "cuda" else _STACKED]
                for start in range(0, len(matrices), size)
            ],
        )

    def _collect(self, member, position, stacks):
        """Queue the matrices of one parameter, each with its gradient and its momentum."""
        storage, group = member.storage, member.group
        piece = storage.slices[position]
        view = member.values[piece].reshape(storage.views[position].shape)
        if not view.size:
            return
        width = view.shape[1] // group["parts"]
        options = _options(group, view.shape[0], width)
        arrays = [
            view,
            storage.gradients[piece].reshape(view.shape),
            member.buffers["momentum"][piece].reshape(view.shape),
        ]
        for part in range(group["parts"]):
            matrices = [array[:, part * width : (part + 1) * width] for array in arrays]
            if view.shape[0] > width:
                # Products are smaller on the short side.
                matrices = [matrix.T for matrix in matrices]
            key = (storage.backend, matrices[0].shape, tuple(options.items()))
            stacks.setdefault(key, []).append(matrices)

    def _places(self):
        """The start positions of the matrices of each shape in the flat arrays of a group, for fast versions."""
        for member in self._storages:
            storage, parts = member.storage, member.group["parts"]
            shapes = {}  # (rows, columns of a part) -> start positions
            for view, piece, has_gradient in zip(storage.views, storage.slices, member.present):
                if has_gradient and view.size:
                    rows, width = view.shape[0], view.shape[1] // parts
                    starts = [piece.start + part * width for part in range(parts)]
                    shapes.setdefault((rows, width), []).extend(starts)
            for (rows, width), starts in shapes.items():
                key = (storage.backend.device, *starts)
                places = self._place_arrays.get(key)
                if places is None:
                    host = np.array(starts, np.int64)
                    places = self._place_arrays[key] = storage.backend.asarray(host)
                flat = member.arrays(self.buffers)
                options = _options(member.group, rows, width)
                yield flat, places, (rows, width), (width * parts, 1), options


def _options(group, rows, columns):
    """The options of a group for matrices of a shape, Python numbers."""
    return {
        "lr": float(group["lr"]) * math.sqrt(max(1.0, columns / rows)),
        "momentum": float(group["momentum"]),
        "nesterov": group["nesterov"],
        "steps": group["ns_steps"],
        "decay": 1 - float(group["lr"]) * float(group["weight_decay"]),
    }


def _update_in_place(item):
    """The update rule of Muon on all matrices of one shape in a group's flat arrays, by fast versions."""
    (values, *flat), places, shape, steps, options = item
    if shape[0] > shape[1]:  # products are smaller on the short side
        shape, steps = shape[::-1], steps[::-1]
    moving = {name: options[name] for name in ("momentum", "nesterov")}
    directions = find_update("muon_directions", values)(flat, places, shape, steps, **moving)
    updates = _orthogonal(directions, options["steps"], _COEFFICIENTS)
    apply = find_update("muon_apply", values)
    apply(values, places, updates, steps, decay=options["decay"], lr=options["lr"])


def muon_update(stack):
    """The update rule of Muon on a few matrices of one shape, in place.

    Args:
        stack: a list of matrices, each as (weight, gradient, momentum), and a dict of options, Python numbers:
            lr, momentum, nesterov, steps, and decay, the share of the weight that stays.
    """
    matrices, options = stack
    directions = []
    for _, gradient, momentum in matrices:
        momentum *= options["momentum"]
        momentum += gradient
        directions.append(
            gradient + options["momentum"] * momentum if options["nesterov"] else momentum
        )
    xp = array_namespace(*directions)
    updates = newton_schulz(xp.stack(directions), options["steps"])
    for (weight, _, _), update in zip(matrices, updates):
        if options["decay"] != 1:
            weight *= options["decay"]
        update *= options["lr"]
        weight -= update


def newton_schulz(matrices, steps=5, coefficients=_COEFFICIENTS):
    """Nearly orthogonal matrices with the singular vectors of the given ones.

    Each step is an odd polynomial, X <- a X + b (X X^T) X + c (X X^T)^2 X, which maps every singular value s to
    a s + b s^3 + c s^5 and leaves the singular vectors alone. The coefficients lift small values as fast as possible:
    after 5 steps all those above a few thousandths of the largest lie between about 0.7 and 1.2.

    Args:
        matrices: an array (..., rows, columns), best with rows <= columns; it is not changed.
        steps: how often the polynomial is applied.
        coefficients: a, b and c.

    Returns:
        A fresh array of the same shape and dtype.

    >>> import numpy as np
    >>> np.linalg.svd(newton_schulz(np.diag([5.0, 1.0, 0.5])))[1].round(1).tolist()
    [0.8, 0.7, 0.7]
    """
    xp = array_namespace(matrices)
    largest = xp.max(xp.abs(matrices), axis=(-2, -1), keepdims=True)
    x = matrices / xp.where(largest == 0, 1, largest)  # whose squares neither over- nor underflow
    norm = xp.sqrt(xp.sum(x * x, axis=(-2, -1), keepdims=True))
    x = x / xp.maximum(norm, 1)  # singular values in [0, 1]; only that of zeros is below 1
    return _orthogonal(x, steps, coefficients)


def _orthogonal(x, steps, coefficients):
    """``newton_schulz`` of matrices with singular values in [0, 1]."""
    if steps and x.shape[-1] >= 2 * x.shape[-2]:
        return _newton_schulz_on_gram(x, steps, coefficients)
    xp = array_namespace(x)
    for _ in range(steps):
        gram = xp.matmul(x, xp.swapaxes(x, -1, -2))  # (..., rows, rows)
        polynomial = _polynomial(gram, coefficients)
        x = xp.matmul(polynomial, x)
    return x


def _newton_schulz_on_gram(x, steps, coefficients):
    """The same for wide matrices, with products of the short side only.

    A step multiplies X by a polynomial P of the Gram matrix G = X X^T, which is symmetric and commutes with it. The
    next Gram matrix is P X X^T P = P G P, so that X itself is needed again only at the end, times the product of all P.
    """
    xp = array_namespace(x)
    gram = xp.matmul(x, xp.swapaxes(x, -1, -2))
    product = _polynomial(gram, coefficients)
    polynomial = product
    for _ in range(steps - 1):
        gram = xp.matmul(polynomial, xp.matmul(gram, polynomial))
        polynomial = _polynomial(gram, coefficients)
        product = xp.matmul(polynomial, product)
    return xp.matmul(product, x)


def _polynomial(gram, coefficients):
    """a I + b G + c G^2, for symmetric matrices G."""
    xp = array_namespace(gram)
    a, b, c = coefficients
    polynomial = xp.matmul(gram, gram)
    fast = find_update("muon_polynomial", gram)
    if fast:
        return fast(gram, polynomial, coefficients)
    polynomial *= c
    polynomial += b * gram
    diagonal = np.arange(gram.shape[-1])
    polynomial[..., diagonal, diagonal] += a
    return polynomial
