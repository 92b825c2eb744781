"""``tinyattn bench``: run the benchmarks in ``benchmarks/``, which are part of the source tree and not installed."""

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
    """Benchmark options."""

    quick: bool = False
    """Smoke test: fewer and smaller measurements."""

    one_core: bool = False
    """Run on one core and report CPU time instead of wall time, for a busy machine."""

    json: PathText | None = None
    """Output file for the results; benchmarks/results/NAME.json by default [path]."""


def add_to(app):
    app.command(bench)


def bench(
    name: Annotated[
        str | None, Parameter(help="Benchmark to run; without it, list the benchmarks.")
    ] = None,
    /,
    *,
    how: Annotated[BenchOptions, options()] = BenchOptions(),
):
    """Benchmark against PyTorch and JAX, if installed, and against the hardware limit."""
    how = as_annotated(how)
    return run(name, how.quick, how.json, how.one_core)


def run(name, quick=False, output=None, one_core=False):
    """Run a benchmark, or list the benchmarks; returns the exit status.

    Args:
        name: name of a benchmark; None lists them.
        quick: fewer and smaller measurements.
        output: path of the JSON file.
        one_core: run on one core and measure CPU time.

    Raises:
        InputError: for an unknown name, and if the package is installed without its source tree.
    """
    if not (SOURCE / "benchmarks" / "__main__.py").is_file():
        raise InputError(
            "the benchmarks are not part of the installed package: run tinyattn bench in a checkout of the repository"
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
