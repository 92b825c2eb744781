"""Plot the loss curve of a run, with matplotlib."""

import contextlib
import io
import logging
import warnings

from ..data.atomic import write_atomic
from ..data.corpus import corpus_title
from ..error_messages import visible
from .reports import MovingAverage


def draw_run(run, baselines=None):
    """Plot the ``loss.png`` of a run.

    Args:
        run: a ``RunDirectory``.
        baselines: dict of name to loss, plotted as horizontal lines.

    Raises:
        ImportError: if matplotlib is not installed.
        InputError: if a file of the run is damaged.
        OSError: if the picture cannot be written, or matplotlib cannot write its cache.
    """
    config = run.config()
    shape = config.architecture
    title = (
        f"{corpus_title(config.run.data)}: {shape.model} {shape.layers}/{shape.heads}/{shape.dim}, "
        f"{config.run.preset}"
    )
    unit = run.vocabulary().unit
    draw_loss(run.path / "loss.png", run.read_metrics(), baselines, title, unit)


def draw_loss(path, lines, baselines=None, title="", unit="character"):
    """Plot training and validation loss against steps in a PNG file.

    If ``lines`` have bits per character, the axis on the right is in these, as the validation text has them.

    Args:
        path: the file to write.
        lines: a result of ``read_metrics``.
        baselines: dict of name to loss, plotted as horizontal lines.
        title: title of the plot.
        unit: what a loss is the mean over: character, byte or token.

    Raises:
        ImportError: if matplotlib is not installed.
        OSError: as ``draw_run``.
    """
    with _plot(path, title, unit) as axes:
        steps, losses = _series(lines, "loss")
        axes.plot(steps, losses, color="#9ecae1", linewidth=0.8, label="batch")
        axes.plot(steps, smooth(losses), color="#2171b5", linewidth=1.6, label="batch, smoothed")
        steps, losses = _series(lines, "val_loss")
        axes.plot(steps, losses, color="#d94801", marker="o", markersize=4, label="validation")
        if losses:
            axes.annotate(
                f"{losses[-1]:.3f}",
                (steps[-1], losses[-1]),
                xytext=(0, 7),
                textcoords="offset points",
                ha="right",
                color="#d94801",
            )
        for (name, loss), style in zip((baselines or {}).items(), (":", "--")):
            axes.axhline(loss, color="#737373", linestyle=style, linewidth=1)
            axes.annotate(
                f"{name} {loss:.3f}",
                (0.995, loss),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                fontsize=8,
                color="#525252",
            )
        _, bits = _series(lines, "val_bits_per_character")
        if bits and losses[-1] > 0:
            factor = bits[-1] / losses[-1]
            scales = (lambda loss: factor * loss, lambda bits: bits / factor)
            axes.secondary_yaxis("right", functions=scales).set_ylabel("bits per character")


def draw_comparison(path, runs, title=""):
    """Plot the training losses of several runs against steps in a PNG file.

    Args:
        path: the file to write.
        runs: dict of label to a result of ``read_metrics``.
        title: title of the plot.

    Raises:
        ImportError: if matplotlib is not installed.
        OSError: as ``draw_run``.
    """
    with _plot(path, title) as axes:
        for (label, lines), color in zip(runs.items(), ("#d94801", "#2171b5", "#525252")):
            steps, losses = _series(lines, "loss")
            axes.plot(steps, losses, color=color, linewidth=0.8, alpha=0.35)
            final = f", final loss {smooth(losses)[-1]:.3f}" if losses else ""
            axes.plot(steps, smooth(losses), color=color, linewidth=1.6, label=f"{label}{final}")


@contextlib.contextmanager
def _plot(path, title, unit="character"):
    """The axes of a plot of losses against steps, written to a PNG file at the end of the block."""
    with warnings.catch_warnings(), _silent("matplotlib"):
        warnings.simplefilter("ignore")  # about glyphs missing in a font
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        with matplotlib.rc_context():
            figure = Figure(figsize=(7, 4.2), dpi=120, layout="constrained")
            FigureCanvasAgg(figure)  # without pyplot: no window, no global state
            axes = figure.add_subplot()
            yield axes
            axes.set(xlabel="step", ylabel=f"loss (nats per {unit})")
            axes.set_title(visible(title), parse_math=False)  # a file name may contain $
            axes.grid(alpha=0.25)
            axes.legend(frameon=False)
            content = io.BytesIO()
            figure.savefig(content, format="png")
    write_atomic(path, content.getvalue())


@contextlib.contextmanager
def _silent(name):
    """Silence a logger, which would write to standard error."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _series(lines, quantity):
    found = [(line["step"], line[quantity]) for line in lines if quantity in line]
    return [step for step, _ in found], [value for _, value in found]


def smooth(values, half_life=5):
    """Exponential moving averages of ``values``, in which weights halve every ``half_life`` values.

    >>> smooth([2.0, 2.0])
    [2.0, 2.0]
    """
    average = MovingAverage(0.5 ** (1 / half_life))
    return [average.add(value) for value in values]
