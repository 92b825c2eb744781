"""``tinyattn train --rules``: the capstone of the course, training with a learner's backward passes."""

import dataclasses
import sys
from pathlib import Path

from ..data import InputError
from ..learn.capstone import RuleError, describe, in_place, load_rules
from ..train.config import make_config
from ..train.picture import draw_comparison
from ..train.session import new_directory
from ..train.storage.run_directory import RunDirectory


def train_with_rules(options, source, processes, train):
    """Train with the rules of a directory, and return the exit status.

    Where one is wrong and ``source.anyway`` is set, the same model is trained with our rules as well, and both losses
    are drawn in ``rules.png``.

    Args:
        options: dict of the options that were given.
        source: ``SourceOptions``.
        processes: ``Processes``.
        train: ``train(options, source, processes)``, an ordinary training run.
    """
    if processes.size > 1:
        raise InputError("--rules trains in one process: start it without mpiexec")
    print(f"rules  checking those in {source.rules}; they are code that runs with your permissions")
    rules = load_rules(source.rules)
    bad = [
        (name, v)
        for name, r in rules.results.items()
        for v in r.verdicts
        if v.written and not v.passed
    ]
    for name, verdict in bad:
        print(f"       {name}: {verdict.findings[0]}")
        print("".join(f"         {line}\n" for line in verdict.diagnosis.splitlines()), end="")
    if bad and not source.anyway:
        where = ", ".join(dict.fromkeys(name for name, _ in bad))
        print(
            f"tinyattn: wrong: {where}; correct it, move the file away, or train with it on purpose with --anyway",
            file=sys.stderr,
        )
        return 1
    if source.resume is not None:
        config = RunDirectory.open(source.resume).config()
        out = Path(source.resume)
    else:
        options = rules.options(options)
        config = make_config(options)
        out = Path(options.get("out") or new_directory(config))
        options["out"] = str(out)
    print(describe(rules, config), flush=True)
    try:
        with in_place(rules.products()):
            status = train(options, source, processes)
    except RuleError as error:
        print(f"tinyattn: {error}", file=sys.stderr)
        return 1
    if not rules.wrong or status == 130 or source.resume is not None:
        return status
    return _compare(rules, options, source, processes, train, out)


def _compare(rules, options, source, processes, train, out):
    """Train the same model with our rules, and draw both losses; returns the exit status."""
    reference = out.with_name(f"{out.name}-right")
    print(f"\nthe same model with our rules, for comparison: {reference}")
    plain = dataclasses.replace(source, rules=None, anyway=False)
    with in_place(rules.kernels_off()):
        status = train({**options, "out": str(reference)}, plain, processes)
    if status:
        return status
    wrong = ", ".join(rules.wrong)
    runs = {f"yours ({wrong} wrong)": out, "our rules": reference}
    lines = {label: RunDirectory.open(path).read_metrics() for label, path in runs.items()}
    picture = out / "rules.png"
    draw_comparison(picture, lines, f"the same model, the same text: {wrong}, yours and ours")
    print(f"both losses:  {picture}")
    return 0
