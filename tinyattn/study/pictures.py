"""Figures: attention maps, head reports and loss curves.

Each function returns a ``Picture``, which is displayed in a notebook and saved as PNG or SVG.
"""

import html
import importlib
import io
from pathlib import Path

import numpy as np

from ..data import InputError
from .heads import BEHAVIORS, cutoffs, even_shares, kind_of, measure_heads
from .observation import observe
from .page import softmax_rows

OVERLAYS = {
    "P": ("weights P", False),
    "S": ("scores S", True),
    "dP": ("dL/dP", True),
    "dS": ("dL/dS", True),
    "PdP": ("P * dL/dP", True),
}
FORMATS = (".png", ".svg")


def need(package, purpose):
    """Import ``package``, or raise an ImportError that says how to install it.

    >>> need("no_such_package", "draw_nothing")
    Traceback (most recent call last):
        ...
    ImportError: draw_nothing needs the package no_such_package: pip install no_such_package
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f"{purpose} needs the package {package}: pip install {package}") from None


class Picture:
    """A matplotlib figure with a description; displayed as an image in a notebook.

    Args:
        figure: a matplotlib figure.
        description: text alternative of the figure.
    """

    def __init__(self, figure, description):
        self.figure = figure
        self.description = description

    def save(self, path):
        """Write the picture to ``path`` in the format of its suffix, ``.png`` or ``.svg``; returns ``path``.

        Raises:
            ValueError: for any other suffix.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in FORMATS:
            raise ValueError(f"cannot save a picture as {Path(path).name!r}: expected .png or .svg")
        from ..data.atomic import write_atomic

        write_atomic(path, self._bytes(suffix[1:]))
        return Path(path)

    def _bytes(self, form):
        import matplotlib

        # Keep text as text in SVG, and make files reproducible.
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tinyattn"}):
            content = io.BytesIO()
            metadata = {"Date": None} if form == "svg" else None
            self.figure.savefig(content, format=form, dpi=130, metadata=metadata)
        return content.getvalue()

    def _repr_png_(self):
        return self._bytes("png")

    def _repr_svg_(self):
        return self._bytes("svg").decode("utf-8")

    def __repr__(self):
        return f"<Picture: {self.description}>"


class HeadReport(Picture):
    """Behaviors of every head.

    ``shares`` is a dict of behavior key to an array (layers, heads), ``even`` has the shares of uniform attention, and
    ``kinds`` is a list of names per layer.
    """

    def __init__(self, figure, description, shares, even, kinds):
        super().__init__(figure, description)
        self.shares, self.even, self.kinds = shares, even, kinds

    def __str__(self):
        names = [one.name for one in BEHAVIORS]
        lines = ["layer head " + " ".join(name.rjust(15) for name in names) + "  kind"]
        for layer, kinds in enumerate(self.kinds):
            for head, kind in enumerate(kinds):
                values = (self.shares[one.key][layer, head] for one in BEHAVIORS)
                cells = " ".join(f"{value:15.3f}" for value in values)
                lines.append(f"{layer:5d} {head:4d} {cells}  {kind}")
        even = " ".join(f"{self.even[one.key]:15.3f}" for one in BEHAVIORS)
        return "\n".join([*lines, f"      even {even}"])

    def _repr_html_(self):
        head = "".join(f"<th>{html.escape(one.name)}</th>" for one in BEHAVIORS)
        rows = []
        for layer, kinds in enumerate(self.kinds):
            for number, kind in enumerate(kinds):
                cells = "".join(
                    f"<td>{self.shares[one.key][layer, number]:.3f}</td>" for one in BEHAVIORS
                )
                rows.append(f"<tr><td>{layer}</td><td>{number}</td>{cells}<td>{kind}</td></tr>")
        return (
            f"<table><tr><th>layer</th><th>head</th>{head}<th>kind</th></tr>{''.join(rows)}</table>"
        )


def attention_maps(model, text, overlay="P", *, vocabulary=None):
    """Draw a heat map of every head on a text, one row per layer: the weights, the scores, or their gradients.

    Args:
        model: a GPT or Encoder, or the directory of a run.
        text: input text, at most as long as the model's block size.
        overlay: ``"P"``, ``"S"``, ``"dP"``, ``"dS"`` or ``"PdP"``; gradients are of the mean loss over the text.
        vocabulary: a ``CharVocabulary``; a run has its own.

    Returns:
        A ``Picture``.

    Raises:
        ValueError: for an unknown overlay, and as ``study.observe`` does.
        ImportError: if matplotlib is missing.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=3, block_size=8, layers=1, heads=2, dim=8)
    >>> picture = attention_maps(ta.models.GPT(config), "abcab", vocabulary="abc")
    """
    if overlay not in OVERLAYS:
        raise ValueError(f"unknown overlay {overlay!r}: expected one of {', '.join(OVERLAYS)}")
    need("matplotlib", "attention_maps")
    seen = observe(model, text, vocabulary=vocabulary)
    name, signed = OVERLAYS[overlay]
    maps = _overlay(seen, overlay)
    layers, heads, length = maps.shape[:3]
    figure = _figure((1.7 * heads + 0.8, 1.75 * layers + 0.5))
    axes = figure.subplots(layers, heads, squeeze=False)
    limit = float(np.nanmax(np.abs(maps))) or 1.0
    scale = _square_root_scale(limit, signed)
    for layer, head in np.ndindex(layers, heads):
        place = axes[layer, head]
        image = place.imshow(
            maps[layer, head],
            cmap="PuOr_r" if signed else "Blues",
            norm=scale,
            interpolation="nearest",
        )
        place.set(xticks=[], yticks=[])
        place.set_title(f"L{layer} h{head}", fontsize=8)
        if length <= 16:
            place.set_xticks(range(length), [_sign(c) for c in seen.characters], fontsize=6)
            place.set_yticks(range(length), [_sign(c) for c in seen.characters], fontsize=6)
    ticks = [t * limit for t in ((-1, -0.25, 0, 0.25, 1) if signed else (0, 0.0625, 0.25, 1))]
    bar = figure.colorbar(image, ax=axes, shrink=0.6, label=name, ticks=ticks)
    bar.ax.set_yticklabels([f"{tick:.2g}" for tick in ticks])
    bar.ax.minorticks_off()
    return Picture(figure, f"{name} of {layers} layers of {heads} heads on {length} characters")


def head_report(model, text, *, vocabulary=None):
    """Measure and classify the behavior of each head on a text.

    The table has the shares of six behaviors per head, and for each behavior the threshold on this text.
    ``study.heads`` defines them.

    Args:
        model, text, vocabulary: as in ``attention_maps``.

    Returns:
        A ``HeadReport``: a picture with ``shares`` and ``kinds``, which also prints as a table.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=3, block_size=8, layers=1, heads=2, dim=8)
    >>> report = head_report(ta.models.GPT(config), "abcab", vocabulary="abc")
    >>> len(report.kinds), len(report.kinds[0])  # layers, heads
    (1, 2)
    """
    need("matplotlib", "head_report")
    seen = observe(model, text, vocabulary=vocabulary, gradients=False)
    shares = measure_heads(softmax_rows(seen.scores), seen.characters, seen.allowed)
    even = even_shares(seen.characters, seen.allowed)
    layers, heads = next(iter(shares.values())).shape
    kinds = [
        [
            kind_of({key: share[layer, head] for key, share in shares.items()}, even)
            for head in range(heads)
        ]
        for layer in range(layers)
    ]
    table = np.stack([shares[one.key].ravel() for one in BEHAVIORS], axis=1)
    figure = _figure((6.4, 0.32 * len(table) + 1.5))
    axes = figure.subplots()
    axes.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, column in np.ndindex(table.shape):
        value = table[row, column]
        text_color = "white" if value > 0.6 else "black"
        label = "-" if np.isnan(value) else f"{value:.2f}"
        axes.text(column, row, label, ha="center", va="center", fontsize=8, color=text_color)
    needed = cutoffs(even)
    columns = [
        f"{one.name}\n"
        + ("not on this text" if np.isnan(even[one.key]) else f"from {needed[one.key]:.2f}")
        for one in BEHAVIORS
    ]
    axes.set_xticks(range(len(BEHAVIORS)), columns, rotation=20, fontsize=8)
    names = [
        f"L{k // heads} h{k % heads}: {kinds[k // heads][k % heads]}" for k in range(len(table))
    ]
    axes.set_yticks(range(len(table)), names, fontsize=8)
    description = f"shares of six behaviors for {layers} layers of {heads} heads"
    return HeadReport(figure, description, shares, even, kinds)


def loss_curve(run):
    """Draw the training and validation loss of a run over its steps.

    Args:
        run: the directory of a run, its ``metrics.jsonl``, or the result of ``tinyattn.train.load_run``.

    Returns:
        A ``Picture``.

    Raises:
        FileNotFoundError: if there is no such file.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "metrics.jsonl")
    >>> _ = file.write_text('{"step": 1, "loss": 4.2}\\n{"step": 2, "loss": 4.0}\\n')
    >>> picture = loss_curve(file)
    """
    from ..train.storage.metrics import read_metrics
    from ..train.storage.run_directory import RunDirectory

    need("matplotlib", "loss_curve")
    path = Path(getattr(run, "path", run))
    file = path / "metrics.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}: give the directory of a run, or its metrics.jsonl"
        )
    lines = RunDirectory(path).read_metrics() if path.is_dir() else read_metrics(file)
    try:
        unit = RunDirectory(file.parent).vocabulary().unit
    except InputError:  # a file of metrics without its run
        unit = "token"
    figure = _figure((6.4, 3.8))
    axes = figure.subplots()
    for quantity, name, style in [
        ("loss", "batch", {"color": "#1f6fb2", "linewidth": 0.9}),
        ("val_loss", "validation", {"color": "#c2620b", "marker": "o", "markersize": 4}),
    ]:
        points = [(line["step"], line[quantity]) for line in lines if quantity in line]
        if points:
            axes.plot(*zip(*points), label=name, **style)
    axes.set(xlabel="step", ylabel=f"loss (nats per {unit})")
    axes.grid(alpha=0.25)
    if axes.lines:
        axes.legend(frameon=False)
    return Picture(figure, f"loss over {lines[-1]['step'] if lines else 0} steps")


def _overlay(seen, overlay):
    scores = np.where(np.isfinite(seen.scores), seen.scores, np.nan).astype(np.float64)
    P = np.where(np.isnan(scores), np.nan, softmax_rows(seen.scores))
    dP = np.where(np.isnan(scores), np.nan, seen.gradient)
    PdP = P * dP
    dS = P * (dP - np.nansum(PdP, axis=-1, keepdims=True))
    return {"P": P, "S": scores, "dP": dP, "dS": dS, "PdP": PdP}[overlay]


def _square_root_scale(limit, signed):
    """Color scale by the square root of the magnitude, which makes small values visible."""
    from matplotlib.colors import FuncNorm

    def forward(value):
        return np.sign(value) * np.sqrt(np.abs(value))

    def inverse(value):
        return np.sign(value) * np.square(value)

    return FuncNorm((forward, inverse), vmin=-limit if signed else 0, vmax=limit)


def _figure(size):
    # Without pyplot: no window, and no global state shared with the caller's figures.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _sign(character):
    named = {" ": "\u2423", "\n": "\u21b5", "\t": "\u21e5", "$": r"\$"}
    return named.get(character, character if character.isprintable() else "\ufffd")
