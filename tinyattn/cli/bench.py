"""``tinyattn bench``: the comparisons in ``benchmarks/``, which come with the source and not with the package."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..data import InputError
from ..data.paths import PathText
from ..error_messages import did_you_mean, shown
from ..train.config import as_annotated
from .options import options

SOURCE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class BenchOptions:
    """How much is measured, and where to."""

    quick: bool = False
    """Measure less and smaller, to see that everything works."""

    one_core: bool = False
    """Keep everything to one core and take the processor's time: for a machine that is busy."""

    json: PathText | None = None
    """File for the results; NAME.json in benchmarks/results by default [path]."""


def add_to(app):
    app.command(bench)


def bench(
    name: Annotated[
        str | None, Parameter(help="Benchmark to run; the list of them without it.")
    ] = None,
    /,
    *,
    how: Annotated[BenchOptions, options()] = BenchOptions(),
):
    """Compare with PyTorch and JAX, where they are installed, and with what the machine could do."""
    how = as_annotated(how)
    return run(name, how.quick, how.json, how.one_core)


def run(name, quick=False, output=None, one_core=False):
    """Run a benchmark, or list them; returns the exit status.

    Args:
        name: which one; None lists them.
        quick: fewer and smaller measurements.
        output: path of the JSON file.
        one_core: processor time on one core.

    Raises:
        InputError: where the package was installed without its source, and for an unknown name.
    """
    if not (SOURCE / "benchmarks" / "__main__.py").is_file():
        raise InputError(
            "the benchmarks come with tinyattn's source, and this is an installed package: "
            "run tinyattn bench in a checkout of the repository"
        )
    if str(SOURCE) not in sys.path:
        sys.path.insert(0, str(SOURCE))
    benchmarks = importlib.import_module("benchmarks")
    if name is None:
        for one, meaning in benchmarks.NAMES.items():
            print(f"{one:16} {meaning}")
        return 0
    if name not in benchmarks.NAMES:
        raise InputError(
            f"unknown benchmark {shown(name)}: "
            f"{did_you_mean(name, benchmarks.NAMES) or 'expected one of ' + ', '.join(benchmarks.NAMES)}"
        )
    return importlib.import_module("benchmarks.__main__").run(name, quick, output, one_core)
