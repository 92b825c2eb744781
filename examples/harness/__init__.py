"""What the examples share: their options, their tables, and where their pictures go.

Every example is a script: ``python examples/NAME.py`` prints its numbers, asserts the claim in its head, and writes
``NAME.png``. ``--quick`` takes seconds, with the claim still asserted; ``--out`` says where pictures go.
All random numbers come from fixed seeds.
"""

import argparse
import functools
import pathlib
import sys
import time

import numpy as np
import threadpoolctl

import tinyattn as ta

# Okabe and Ito's colours, which those who cannot tell red from green can tell apart.
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
GREY = "#666666"


class Run:
    """One run of an example: whether it is to be quick, its further options, and where its picture goes."""

    def __init__(self, name, options):
        self.name = name
        self.options = options
        self.quick = options.quick
        self.out = pathlib.Path(options.out)

    def choose(self, full, quick):
        """``full``, or ``quick`` in a quick run."""
        return quick if self.quick else full

    def say_what_is_missing(self, what):
        """In a quick run, print what it is too short to show."""
        if self.quick:
            print(f"\n--quick is too short to show {what}; the full run does")

    def print_matrix(self, name, matrix):
        """A small matrix with its name, three digits behind the point."""
        text = np.array2string(np.asarray(matrix) + 0.0, precision=3, suppress_small=True)
        print(f"{name}\n  " + text.replace("\n", "\n  "))

    def print_table(self, header, rows):
        """Rows under a header, columns aligned."""
        cells = [[str(cell) for cell in row] for row in (header, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))

    def figure(self, rows=1, columns=1, width=3.6, height=3.2, squeeze=True):
        """A matplotlib figure with its axes, drawn without a screen."""
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        plt.rcParams.update(
            {
                "axes.grid": True,
                "axes.spines.right": False,
                "axes.spines.top": False,
                "axes.titlesize": 10,
                "font.size": 9,
                "grid.alpha": 0.25,
                "image.interpolation": "nearest",
                "legend.frameon": False,
            }
        )
        return plt.subplots(
            rows,
            columns,
            figsize=(width * columns, height * rows),
            layout="constrained",
            squeeze=squeeze,
        )

    def draw_matrix(self, axes, title, matrix):
        """A matrix as coloured cells with their numbers: one hue up for positive, another for negative."""
        matrix = np.asarray(matrix)
        limit = np.abs(matrix).max() or 1
        axes.imshow(matrix, cmap="PuOr_r", vmin=-limit, vmax=limit)
        digits, size = (3, 9) if matrix.shape[1] <= 4 else (2, 7)
        for (row, column), value in np.ndenumerate(matrix):
            shade = "white" if abs(value) > 0.6 * limit else "black"
            text = f"{value:.{digits}f}" if value else "0"
            axes.text(column, row, text, ha="center", va="center", color=shade, fontsize=size)
        axes.set(title=title, xticks=[], yticks=[])
        axes.grid(False)
        axes.spines[:].set_visible(False)

    def draw_weights(self, axes, title, weights, names=None):
        """Attention weights from white (0) to blue (1): a row a query, a column a key."""
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
        axes.set(title=title, xticks=[], yticks=[])
        if names is not None:
            axes.set_xticks(range(len(names)), names, rotation=90)
            axes.set_yticks(range(len(names)), names)
        axes.grid(False)

    def save(self, figure):
        """Write the picture and say where."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{self.name}.png"
        figure.savefig(path, dpi=110, bbox_inches="tight")
        print(f"\npicture: {path}")


def fit(parameters, loss, steps, learning_rate=3e-3):
    """Train with AdamW; ``loss()`` draws a batch and computes its loss. Returns the losses, a float a step."""
    optimizer = ta.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.0)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = ta.optim.schedules.trapezoid(
                step, peak=learning_rate, decay=steps, warmup=min(20, steps // 10)
            )
        value = loss()
        optimizer.zero_grad()
        value.backward()
        ta.optim.clip_grad_norm(parameters, 1.0)
        optimizer.step()
        losses.append(value.item())
    return losses


def example(function=None, **more):
    """Decorator: make ``function(run)`` the main program of the script it stands in.

    Further options are given as ``@example(data={"default": "pydoc", "help": "text to train on"})``, with the arguments
    of argparse, and found in ``run.options``.
    """
    if function is None:
        return functools.partial(example, **more)

    @functools.wraps(function)
    def main(arguments=None):
        module = sys.modules[function.__module__]
        parser = argparse.ArgumentParser(
            description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument(
            "--quick", action="store_true", help="seconds, with the claim still asserted"
        )
        parser.add_argument(
            "--out", default="pictures", help="folder for the picture (default: pictures)"
        )
        for name, settings in more.items():
            parser.add_argument(f"--{name}", **settings)
        options = parser.parse_args(arguments)
        started = time.perf_counter()
        # The products here are too small to be worth sharing among threads.
        with threadpoolctl.threadpool_limits(1):
            function(Run(pathlib.Path(module.__file__).stem, options))
        print(f"the claim holds ({time.perf_counter() - started:.1f} s)")

    return main
