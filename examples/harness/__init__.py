"""Command-line options, tables, figures and training loops of the examples.

Each example is a script: ``python examples/NAME.py`` prints its measurements, asserts the claim in its docstring, and
writes ``NAME.png``. ``--quick`` runs in seconds and asserts the same claim; ``--out`` sets the folder for the picture.
All random seeds are fixed.
"""

import argparse
import functools
import pathlib
import sys
import time

import numpy as np
import threadpoolctl

import tinyattn as ta

# The color-blind-safe palette of Okabe and Ito.
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
GRAY = "#666666"


class Run:
    """One run of an example: its options, and its output."""

    def __init__(self, name, options):
        self.name = name
        self.options = options
        self.quick = options.quick
        self.out = pathlib.Path(options.out)

    def choose(self, full, quick):
        """``full``, or ``quick`` in a quick run."""
        return quick if self.quick else full

    def say_what_is_missing(self, what):
        """In a quick run, print what it cannot show."""
        if self.quick:
            print(f"\n--quick is too short to show {what}; the full run does")

    def print_matrix(self, name, matrix):
        """Print a small matrix with its name, to three decimals."""
        text = np.array2string(np.asarray(matrix) + 0.0, precision=3, suppress_small=True)
        print(f"{name}\n  " + text.replace("\n", "\n  "))

    def print_table(self, header, rows):
        """Print a table with aligned columns."""
        cells = [[str(cell) for cell in row] for row in (header, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))

    def figure(self, rows=1, columns=1, width=3.6, height=3.2, squeeze=True):
        """A matplotlib figure with its axes, without a display."""
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
        """Draw a matrix as colored cells with their values, one hue for positive and one for negative values."""
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
        """Draw attention weights from white (0) to blue (1), one row per query, one column per key."""
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
        axes.set(title=title, xticks=[], yticks=[])
        if names is not None:
            axes.set_xticks(range(len(names)), names, rotation=90)
            axes.set_yticks(range(len(names)), names)
        axes.grid(False)

    def save(self, figure):
        """Write the picture and print its path."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{self.name}.png"
        figure.savefig(path, dpi=110, bbox_inches="tight")
        print(f"\npicture: {path}")


def fit(parameters, loss, steps, learning_rate=3e-3):
    """Train with AdamW; ``loss()`` draws a batch and returns its loss. Returns the losses of all steps."""
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


def fit_classifier(model, draw, steps, learning_rate, batch_size, test_size):
    """Train a classifier with cross-entropy, and test it on new examples.

    Args:
        draw: ``draw(count)`` returns logits and targets of ``count`` examples.

    Returns:
        Booleans of the shape of the targets, True for correct predictions.
    """
    fit(model.parameters(), lambda: ta.cross_entropy(*draw(batch_size)), steps, learning_rate)
    with ta.no_grad():
        logits, targets = draw(test_size)
    return logits.numpy().argmax(axis=-1) == targets


def example(function=None, **more):
    """Decorator: make ``function(run)`` the main program of its script.

    More options are given as arguments of argparse, ``@example(data={"default": "pydoc", "help": "text to train
    on"})``, and stored in ``run.options``.
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
            "--quick", action="store_true", help="run in seconds, and assert the same claim"
        )
        parser.add_argument(
            "--out", default="pictures", help="folder for the picture (default: pictures)"
        )
        for name, settings in more.items():
            parser.add_argument(f"--{name}", **settings)
        options = parser.parse_args(arguments)
        started = time.perf_counter()
        # The matrix products are too small for several threads.
        with threadpoolctl.threadpool_limits(1):
            function(Run(pathlib.Path(module.__file__).stem, options))
        print(f"the claim holds ({time.perf_counter() - started:.1f} s)")

    return main
