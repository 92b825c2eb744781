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

    If a rule is wrong and ``source.anyway`` is set, the same model is then trained with the library's rules, and both
    losses are plotted in ``rules.png``.

    Args:
        options: dict of the given options.
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
            f"tinyattn: wrong: {where}; correct it, remove the file, or train with it deliberately with --anyway",
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
    """Train the same model with the library's rules and plot both losses; returns the exit status."""
    reference = out.with_name(f"{out.name}-right")
    print(f"\nthe same model with the library's rules, for comparison: {reference}")
    plain = dataclasses.replace(source, rules=None, anyway=False)
    with in_place(rules.kernels_off()):
        status = train({**options, "out": str(reference)}, plain, processes)
    if status:
        return status
    wrong = ", ".join(rules.wrong)
    runs = {f"your rules ({wrong} is wrong)": out, "the library's rules": reference}
    lines = {label: RunDirectory.open(path).read_metrics() for label, path in runs.items()}
    picture = out / "rules.png"
    draw_comparison(picture, lines, f"Training loss with a wrong {wrong}, and with the library's")
    print(f"both losses:  {picture}")
    return 0
