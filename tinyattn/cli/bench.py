"""``tinyattn bench``: the comparisons in ``benchmarks/``, which come with the source and not with the package."""

import importlib
import sys
from pathlib import Path

from ..data import InputError
from ..error_messages import did_you_mean, shown

SOURCE = Path(__file__).resolve().parents[2]


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
