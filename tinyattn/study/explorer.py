"""``tinyattn explore``: an offline HTML page of a model's attention on a text, forward and backward."""

import copy
import html
import os
from pathlib import Path
from urllib.parse import quote

import numpy as np

from ..data.atomic import write_atomic
from ..train.loading import LoadedRun, load_model, load_snapshot
from ..train.storage.run_directory import RunDirectory
from .observation import as_tokenizer, block_size_of, observe
from .page import MEGABYTE, Content, Maps, pack_target, render

MEGABYTES = 4.0
CURVE_POINTS = 500
# Upper estimates for the size limit: the page without maps [bytes], and packed bytes per byte of a map.
FRAME = 350_000
BYTE = 1.2


class Page:
    """An explorer page: its ``content`` and the rendered ``html``."""

    def __init__(self, content):
        self.content = content
        self.html = render(content)

    def save(self, path):
        """Write the page to ``path``; returns ``path``.

        Raises:
            FileNotFoundError: if the directory does not exist.
        """
        path = _checked_output(path)
        write_atomic(path, self.html)
        return path

    def _repr_html_(self):
        # An iframe isolates the styles of the page from those of the notebook.
        document = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{document}" style="width:100%;height:900px;border:0" title="explorer"></iframe>'

    def __repr__(self):
        length = len(self.content.characters)
        return f"<Page: {length} characters, {len(self.html) / MEGABYTE:.2f} MB>"


def explore(
    model,
    text=None,
    *,
    vocabulary=None,
    positions=None,
    snapshots=None,
    megabytes=MEGABYTES,
    cut=False,
):
    """Run a model on a text and create the explorer page of its attention heads, forward and backward.

    Args:
        model: a model with softmax attention; the directory of a run, whose loss curve and snapshots are included; or
            the folder of a GPT-2 with its tokenizer.
        text: input text; for a run, the beginning of its validation split by default.
        vocabulary: a tokenizer; a run and a folder have their own.
        positions: positions to include the gradients of a single character's loss for, in addition to those of the mean
            loss: a list (negative positions count from the end), ``"all"``, or None for as many as fit, those with the
            largest loss first.
        snapshots: number of the run's snapshots to include, evenly spaced; None for as many as fit.
        megabytes: size limit of the page [MB]. Explicit ``positions`` and ``snapshots`` may exceed it.
        cut: truncate a text that is longer than the model's block size instead of raising an error.

    Returns:
        A ``Page``.

    Raises:
        ValueError: as ``observe`` does, and for positions outside the text.
        FileNotFoundError: if the run does not exist.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=4, block_size=8, layers=1, heads=2, dim=8)
    >>> explore(ta.models.GPT(config), "abcab", vocabulary="abcd")
    <Page: 5 characters, ... MB>
    """
    loaded = None
    if isinstance(model, (str, os.PathLike)):
        loaded = load_model(model)
        model, vocabulary = loaded.model, vocabulary or loaded.vocabulary
    run = loaded if isinstance(loaded, LoadedRun) else None
    if text is None and run is not None:
        text = _validation_text(run)
    if text is None:
        raise ValueError("a model without a run has no text of its own: give one (text=, --text)")
    text = _truncated(text, model, as_tokenizer(vocabulary), cut)
    seen = observe(model, text, vocabulary=vocabulary)
    step = "now" if run is None else run.step
    content = Content(
        title=type(model).__name__ if loaded is None else loaded.path.resolve().name,
        characters=seen.characters,
        expected=seen.expected,
        maps=Maps(step, seen.loss, seen.scores, seen.gradient),
        head_dim=seen.head_dim,
        parameters=model.parameter_count(),
        losses=seen.losses,
        probabilities=seen.probabilities,
        vocabulary=seen.vocabulary,
        norms=seen.norms,
        unit=seen.unit,
    )
    cells = int(seen.allowed.sum()) * seen.scores.shape[0] * seen.scores.shape[1]
    space = megabytes * MEGABYTE - FRAME - 8 * BYTE * cells  # remaining bytes
    if run is not None:
        content.curve = _curve(run.path)
        # At most half of the space, to leave the rest to the gradients of single characters.
        content.snapshots = _snapshots(run, text, snapshots, space / 2 / (4 * BYTE * cells))
        space -= len(content.snapshots) * 4 * BYTE * cells
    for position in _chosen_positions(positions, seen, space):
        content.targets[position] = pack_target(seen.gradient_of(position), seen.allowed)
    return Page(content)


def run(
    model,
    text=None,
    output="explorer.html",
    positions=None,
    snapshots=None,
    megabytes=MEGABYTES,
    cut=False,
    gradcheck=None,
):
    """Write the explorer page of a model and print a summary; implements ``tinyattn explore``.

    Args:
        model: directory of a run, or folder of a GPT-2.
        text: input text; by default the beginning of the validation split of a run.
        output: output file.
        positions: ``"all"``, or numbers separated by commas, as in ``explore``.
        snapshots, megabytes, cut: as in ``explore``.
        gradcheck: report of ``tinyattn gradcheck --html`` to link to; by default a gradcheck.html in the directory of
            the run or of the page.

    Returns:
        The exit status, 0.

    Raises:
        ValueError, FileNotFoundError: for invalid arguments, with a one-sentence message.
    """
    output = _checked_output(output)
    page = explore(
        model,
        text,
        positions=_parse_positions(positions),
        snapshots=snapshots,
        megabytes=megabytes,
        cut=cut,
    )
    report = _gradcheck_report(gradcheck, [Path(model), output.parent])
    if report is not None:
        page.content.gradcheck = quote(os.path.relpath(report, output.parent).replace(os.sep, "/"))
        page = Page(page.content)
    page.save(output)
    content = page.content
    layers, heads = content.maps.scores.shape[:2]
    print(
        f"{output}: {layers} layers of {heads} heads on {len(content.characters)} {content.unit}s, mean loss "
        f"{content.maps.loss:.3f} nats; gradients of the mean loss and of the losses of {len(content.targets)} single "
        f"{content.unit}s; {len(content.snapshots)} snapshots; {len(page.html) / MEGABYTE:.2f} MB, works offline"
    )
    return 0


def _checked_output(path):
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no directory {path.parent}: create it, or give another output"
        )
    return path


def _truncated(text, model, vocabulary, cut):
    block = block_size_of(model)
    ids = vocabulary.encode(text)
    if block is None or len(ids) <= block:
        return text
    if not cut:
        raise ValueError(
            f"the text has {len(ids):,} {vocabulary.unit}s, and the model's block size is {block}: give a shorter "
            f"text, or truncate it to its first {block} {vocabulary.unit}s (--cut)"
        )
    return _beginning(ids, vocabulary, block)


def _beginning(ids, vocabulary, size):
    """The longest text that ``ids`` begin with and that is encoded as at most ``size`` ids."""
    for count in range(size, 0, -1):
        text = vocabulary.decode(ids[:count])
        # A token may end within a character, and at its end the text may be encoded otherwise.
        if "\ufffd" not in text[-1:] and len(vocabulary.encode(text)) <= size:
            return text
    return ""


def _gradcheck_report(given, places):
    if given is not None:
        if not Path(given).is_file():
            raise FileNotFoundError(
                f"there is no report {given}: create it with tinyattn gradcheck --html {given}"
            )
        return Path(given)
    found = [place / "gradcheck.html" for place in places if (place / "gradcheck.html").is_file()]
    return found[0] if found else None


def _validation_text(loaded):
    from ..data import TextDataset

    block = loaded.config.architecture.block_size
    try:
        dataset = TextDataset.load(loaded.config.run.data, block, None, loaded.vocabulary)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot read the run's text, which --text defaults to ({error}): give --text"
        ) from None
    return _beginning(dataset.validation, loaded.vocabulary, block)


def _curve(path):
    lines = [
        line for line in RunDirectory(path).read_metrics() if "loss" in line or "val_loss" in line
    ]
    # Keep every validation loss, and evenly spaced training losses.
    every = -(-len(lines) // CURVE_POINTS)
    kept = [line for k, line in enumerate(lines) if k % max(every, 1) == 0 or "val_loss" in line]
    return [
        {"step": line["step"], "loss": line.get("loss"), "val_loss": line.get("val_loss")}
        for line in kept
    ]


def _snapshots(loaded, text, wanted, limit):
    run = RunDirectory(loaded.path)
    steps = [step for step in run.snapshot_steps() if step != loaded.step]
    count = min(len(steps), int(limit) if wanted is None else wanted)
    if count <= 0:
        return []
    chosen = sorted({steps[round(k)] for k in np.linspace(0, len(steps) - 1, count)})
    model = copy.deepcopy(loaded.model)
    maps = []
    for step in chosen:
        load_snapshot(model, run, step)
        seen = observe(model, text, vocabulary=loaded.vocabulary)
        maps.append(Maps(step, seen.loss, seen.scores, seen.gradient))
    return maps


def _chosen_positions(wanted, seen, space):
    length = len(seen.characters)
    possible = [i for i in range(length) if not np.isnan(seen.losses[i])]
    if wanted == "all":
        return possible
    if wanted is not None:
        chosen = [position + length if position < 0 else position for position in wanted]
        for given, position in zip(wanted, chosen):
            if position not in possible:
                raise ValueError(
                    f"position {given} has no target character: expected one of {_ranges(possible)}, or a negative "
                    "number that counts from the end of the text"
                )
        return chosen
    layers, heads = seen.scores.shape[:2]
    cells = np.cumsum(seen.allowed.sum(axis=1))
    chosen = []
    for position in sorted(possible, key=lambda i: -seen.losses[i]):
        # In a causal model the gradient reaches the rows up to the position, in the last layer only its own row.
        if seen.expected[-1] is None:
            reach = (layers - 1) * cells[position] + position + 1
        else:
            reach = layers * cells[-1]
        size = 4 * BYTE * heads * int(reach)
        if size <= space:
            space -= size
            chosen.append(position)
    return chosen


def _ranges(numbers):
    """Format ascending integers as ranges.

    >>> _ranges([0, 1, 2, 5])
    '0 to 2, 5'
    """
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)


def _parse_positions(positions):
    if positions is None or positions == "all" or not isinstance(positions, str):
        return positions
    try:
        return [int(word) for word in positions.replace(",", " ").split()]
    except ValueError:
        raise ValueError(
            f'--positions {positions!r}: expected whole numbers separated by commas, or "all"'
        ) from None
