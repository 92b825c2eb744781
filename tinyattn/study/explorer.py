"""``tinyattn explore``: a model on a text as one web page, forward and backward, offline."""

import copy
import html
import os
import sys
from pathlib import Path
from urllib.parse import quote

import numpy as np

from ..train.session import load_run, load_snapshot
from ..train.storage.atomic import write_atomic
from ..train.storage.run_directory import RunDirectory
from .observation import block_size_of, observe
from .page import MEGABYTE, Content, Maps, pack_target, render

MEGABYTES = 4.0
CURVE_POINTS = 500
# What a page takes beside the maps, and a map's byte once it is packed: both on the safe side.
FRAME = 350_000
BYTE = 1.2


class Page:
    """An explorer page: ``content``, its numbers, and ``html``, the file as one string."""

    def __init__(self, content):
        self.content = content
        self.html = render(content)

    def save(self, path):
        """Write the page to ``path``; returns it.

        Raises:
            FileNotFoundError: where the directory does not exist.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"there is no directory {path.parent}: make it, or give another output"
            )
        write_atomic(path, self.html)
        return path

    def _repr_html_(self):
        # A frame of its own: the notebook's styles and the page's leave each other alone.
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
    """Look at a model on a text, and make a page of what its heads do, forward and backward.

    Args:
        model: a model with softmax attention, or the directory of a run, which adds its loss curve and snapshots.
        text: the characters to look at; a run has a default, the beginning of its validation part.
        vocabulary: a ``CharVocabulary``; a run brings its own.
        positions: of which single characters' losses the gradients are kept, besides those of the whole text's:
            a list of positions (negative ones count from the end), ``"all"``, or None for the ones with the largest
            loss, as many as fit.
        snapshots: how many of the run's snapshots are kept, evenly spaced; None for as many as fit.
        megabytes: what fits means. What is asked for by name is kept whatever it takes.
        cut: cut a text longer than the model's block to its beginning; refused without.

    Returns:
        A ``Page``.

    Raises:
        ValueError: as ``observe`` does, and for positions that are not in the text.
        FileNotFoundError: where the run is none.

    >>> import tinyattn as ta
    >>> config = ta.models.GPTConfig(vocabulary_size=4, block_size=8, layers=1, heads=2, dim=8)
    >>> explore(ta.models.GPT(config), "abcab", vocabulary="abcd")
    <Page: 5 characters, ... MB>
    """
    loaded = None
    if isinstance(model, (str, os.PathLike)):
        loaded = load_run(model)
        model, vocabulary = loaded.model, vocabulary or loaded.vocabulary
        text = _validation_text(loaded) if text is None else text
    if text is None:
        raise ValueError("no text to look at: give one")
    text = _fitting(text, model, cut)
    seen = observe(model, text, vocabulary=vocabulary)
    step = "now" if loaded is None else loaded.step
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
    )
    cells = int(seen.allowed.sum()) * seen.scores.shape[0] * seen.scores.shape[1]
    room = megabytes * MEGABYTE - FRAME - 8 * BYTE * cells
    if loaded is not None:
        content.curve = _curve(loaded.path)
        # Half the room at most, so that single characters have theirs.
        content.snapshots = _snapshots(loaded, text, snapshots, room / 2 / (4 * BYTE * cells))
        room -= len(content.snapshots) * 4 * BYTE * cells
    for position in _chosen_positions(positions, seen, room):
        content.targets[position] = pack_target(seen.gradient_of(position), seen.allowed)
    return Page(content)


def run(
    run,
    text=None,
    output="explorer.html",
    positions=None,
    snapshots=None,
    megabytes=MEGABYTES,
    cut=False,
    gradcheck=None,
    file=None,
):
    """Write the page of a run, and say where; the body of ``tinyattn explore``.

    Args:
        run: the run's directory.
        text: what to look at; by default the beginning of the validation part.
        output: the file to write.
        positions: ``"all"``, or numbers apart by commas, as for ``explore``.
        snapshots, megabytes, cut: as for ``explore``.
        gradcheck: the report that ``tinyattn gradcheck --html`` wrote, to link to; by default a gradcheck.html in the
            run's directory or beside the page.

    Returns:
        The exit status, 0.

    Raises:
        ValueError, FileNotFoundError: for the user's mistakes, in one sentence.
    """
    output = Path(output)
    if not output.parent.is_dir():
        raise FileNotFoundError(
            f"there is no directory {output.parent}: make it, or give another output"
        )
    page = explore(
        run,
        text,
        positions=_parse_positions(positions),
        snapshots=snapshots,
        megabytes=megabytes,
        cut=cut,
    )
    report = _gradcheck_report(gradcheck, [Path(run), output.parent])
    if report is not None:
        page.content.gradcheck = quote(os.path.relpath(report, output.parent).replace(os.sep, "/"))
        page = Page(page.content)
    page.save(output)
    content = page.content
    layers, heads = content.maps.scores.shape[:2]
    print(
        f"{output}: {layers} layers of {heads} heads on {len(content.characters)} characters, mean loss "
        f"{content.maps.loss:.3f} nats; gradients of the whole text's loss and of {len(content.targets)} single "
        f"characters'; {len(content.snapshots)} snapshots; {len(page.html) / MEGABYTE:.2f} MB, opens without network",
        file=sys.stdout if file is None else file,
    )
    return 0


def _fitting(text, model, cut):
    block = block_size_of(model)
    if block is None or len(text) <= block:
        return text
    if not cut:
        raise ValueError(
            f"the text has {len(text):,} characters, the model sees {block} at once: give a shorter one, or "
            f"cut it to its first {block} (--cut)"
        )
    return text[:block]


def _gradcheck_report(given, places):
    if given is not None:
        if not Path(given).is_file():
            raise FileNotFoundError(
                f"there is no report {given}: write it with tinyattn gradcheck --html {given}"
            )
        return Path(given)
    found = [place / "gradcheck.html" for place in places if (place / "gradcheck.html").is_file()]
    return found[0] if found else None


def _validation_text(loaded):
    from ..data import CharDataset

    block = loaded.config.architecture.block_size
    try:
        dataset = CharDataset.load(loaded.config.run.data, block, None, loaded.vocabulary)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the run's text is not there to take some of ({error}): give --text"
        ) from None
    return loaded.vocabulary.decode(dataset.validation[:block])


def _curve(path):
    lines = [
        line for line in RunDirectory(path).read_metrics() if "loss" in line or "val_loss" in line
    ]
    # Every validation loss is kept; of the many training losses, evenly spaced ones.
    every = -(-len(lines) // CURVE_POINTS)
    kept = [line for k, line in enumerate(lines) if k % max(every, 1) == 0 or "val_loss" in line]
    return [
        {"step": line["step"], "loss": line.get("loss"), "val_loss": line.get("val_loss")}
        for line in kept
    ]


def _snapshots(loaded, text, wanted, fitting):
    run = RunDirectory(loaded.path)
    steps = [step for step in run.snapshot_steps() if step != loaded.step]
    count = min(len(steps), int(fitting) if wanted is None else wanted)
    if count <= 0:
        return []
    chosen = sorted({steps[round(k)] for k in np.linspace(0, len(steps) - 1, count)})
    model = copy.deepcopy(loaded.model)
    maps = []
    for step in chosen:
        load_snapshot(model, run, step)
        then = observe(model, text, vocabulary=loaded.vocabulary)
        maps.append(Maps(step, then.loss, then.scores, then.gradient))
    return maps


def _chosen_positions(wanted, seen, room):
    length = len(seen.characters)
    possible = [i for i in range(length) if not np.isnan(seen.losses[i])]
    if wanted == "all":
        return possible
    if wanted is not None:
        chosen = [position + length if position < 0 else position for position in wanted]
        for given, position in zip(wanted, chosen):
            if position not in possible:
                raise ValueError(
                    f"position {given} has no character to predict: expected one of {_ranges(possible)}, or a "
                    "negative number that counts from the end of the text"
                )
        return chosen
    layers, heads = seen.scores.shape[:2]
    cells = np.cumsum(seen.allowed.sum(axis=1))
    chosen = []
    for position in sorted(possible, key=lambda i: -seen.losses[i]):
        # A causal model's loss reaches the rows up to its position, in the last layer its own row alone.
        if seen.expected[-1] is None:
            reach = (layers - 1) * cells[position] + position + 1
        else:
            reach = layers * cells[-1]
        size = 4 * BYTE * heads * int(reach)
        if size <= room:
            room -= size
            chosen.append(position)
    return chosen


def _ranges(numbers):
    """Ascending numbers in words.

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
            f'--positions {positions!r}: expected whole numbers apart by commas, or "all"'
        ) from None
