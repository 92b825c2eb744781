"""Muon: momentum, orthogonalized by Newton-Schulz iterations."""

import math

import numpy as np

from ..backend import array_namespace
from ..kernels.updates import find_update
from .newton_schulz import POLYNOMIALS, normalize, orthogonalize, polynomials_of
from .optimizer import Optimizer

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
        ns_steps: number of Newton-Schulz iterations; by default 5 for constant polynomials and 4 for minimax ones.
        polynomials: "constant", the same polynomial in each iteration, or "minimax", the best one for each, which needs
            fewer: see ``newton_schulz.py``.
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
    choices = {"polynomials": POLYNOMIALS}

    def __init__(
        self,
        params,
        lr=0.02,
        momentum=0.95,
        nesterov=True,
        ns_steps=None,
        weight_decay=0.0,
        parts=1,
        polynomials="constant",
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
                "polynomials": polynomials,
            },
        )

    def check(self, group):
        if group["ns_steps"] is None:
            group["ns_steps"] = POLYNOMIALS.get(group["polynomials"], 0)
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
        # Large matrices first, so that workers finish at about the same time.
        stacks = sorted(stacks.items(), key=lambda stack: math.prod(stack[0][1]), reverse=True)
        yield (
            muon_update,
            [
                (matrices[start : start + size], dict(options))
                for (backend, _, options), matrices in stacks
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
        "polynomials": polynomials_of(group["polynomials"], group["ns_steps"]),
        "decay": 1 - float(group["lr"]) * float(group["weight_decay"]),
    }


def _update_in_place(item):
    """The update rule of Muon on all matrices of one shape in a group's flat arrays, by fast versions."""
    (values, *flat), places, shape, steps, options = item
    if shape[0] > shape[1]:  # products are smaller on the short side
        shape, steps = shape[::-1], steps[::-1]
    moving = {name: options[name] for name in ("momentum", "nesterov")}
    directions = find_update("muon_directions", values)(flat, places, shape, steps, **moving)
    updates = orthogonalize(directions, options["polynomials"])
    apply = find_update("muon_apply", values)
    apply(values, places, updates, steps, decay=options["decay"], lr=options["lr"])


def muon_update(stack):
    """The update rule of Muon on a few matrices of one shape, in place.

    Args:
        stack: a list of matrices, each as (weight, gradient, momentum), and a dict of options, Python numbers:
            lr, momentum, nesterov, polynomials, and decay, the share of the weight that stays.
    """
    matrices, options = stack
    weight = matrices[0][0]
    xp, factor = array_namespace(weight), options["momentum"]
    directions = xp.empty((len(matrices), *weight.shape), dtype=weight.dtype)
    for direction, (_, gradient, momentum) in zip(directions, matrices):
        momentum *= factor
        momentum += gradient
        if options["nesterov"]:
            xp.multiply(momentum, factor, out=direction)
            direction += gradient
        else:
            direction[...] = momentum
    updates = orthogonalize(normalize(directions), options["polynomials"])
    for (weight, _, _), update in zip(matrices, updates):
        if options["decay"] != 1:
            weight *= options["decay"]
        update *= options["lr"]
        weight -= update
