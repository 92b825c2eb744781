"""The subcommands of ``tinyattn learn``, on a directory of exercises; each function returns text to print."""

import contextlib
import inspect
import itertools
import textwrap
from pathlib import Path

from ..autograd import PRIMITIVES
from ..data import InputError
from ..survey.mutations import rule_functions
from .exercise import PATH, Vjp, exercise
from .process import SECONDS, check_file
from .record import Record

RIGHTS = (
    "(your file is code: it runs with your permissions, in a separate process with a time limit)"
)
WIDTH = 100


def overview(directory="."):
    """The list of exercises, which are solved, and the next one."""
    record = Record(directory)
    upcoming = record.next()
    lines = [
        f"{len(PATH)} exercises in writing backward passes. All they need is NumPy and the chain rule.",
        "",
    ]
    for number, name in enumerate(PATH, 1):
        one, of = exercise(name), record.of(name)
        mark = "done" if "passed" in of else "next" if name == upcoming else ""
        state = [f"{one.minutes} min"]
        if "passed" in of:
            state = []
        elif of.get("checks"):
            state.append(_times(of["checks"], "check"))
        if of.get("hints"):
            state.append(_times(of["hints"], "hint"))
        if "solution" in of:
            state.append("solution seen")
        lines.append(f"{number:3d}  {mark:4}  {name:14} {one.title:32} {', '.join(state)}".rstrip())
    lines.append("")
    if upcoming is None:
        lines.append("All done. Train a GPT on your own backward passes:  tinyattn train --rules .")
    elif (Path(directory) / f"{upcoming}.py").exists():
        lines.append(f"go on with:  tinyattn learn check {upcoming}.py")
    else:
        lines.append(f"go on with:  tinyattn learn start {upcoming}")
    if any("passed" in record.of(n) and isinstance(exercise(n).parts[0], Vjp) for n in PATH):
        lines.append("train with what is done:  tinyattn train --rules .")
    return "\n".join(lines)


def start(name, directory="."):
    """Write the file of an exercise.

    Raises:
        InputError: if the file exists; a learner's file is never overwritten.
    """
    one = exercise(name)
    path = Path(directory) / f"{name}.py"
    record = Record(directory)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(one.file())
    except FileExistsError:
        raise InputError(
            f"{path} exists and is not overwritten: continue with it, or start again with "
            f"tinyattn learn reset {name}, which keeps it under another name"
        ) from None
    record.note(name, started=True)
    functions = " and ".join(part.name for part in one.parts)
    return "\n".join(
        [
            f"{path}: {one.title}, about {one.minutes} minutes. Open it in an editor, read, and write {functions}.",
            f"try it:    python {path}",
            f"check it:  tinyattn learn check {path}",
            f"stuck:     tinyattn learn check {path} --hint",
        ]
    )


def check(file, name=None, seconds=SECONDS):
    """Judge a file, and record the result in its directory: ``(text, whether it is right)``.

    Raises:
        InputError: if the file does not exist, or belongs to no exercise.
    """
    path, name = locate(file, name)
    record = Record(path.parent)
    result, printed = check_file(path, name, seconds)
    of = record.of(name)
    values = {"checks": of.get("checks", 0) + 1}
    if result.passed and "passed" not in of:
        values["passed"] = True
    record.note(name, **values)
    lines = [f"{exercise(name).title}: {path}"]
    for verdict in result.verdicts:
        lines += ["", *_report(verdict)]
    if printed:
        lines += ["", "Your code printed:", textwrap.indent(printed, "  ")]
    lines.append("")
    if result.passed:
        lines.append(_passed(name, record, path.parent))
    elif all(not verdict.written for verdict in result.verdicts):
        lines.append(f"write it in {path}; for a hint:  tinyattn learn check {path} --hint")
    else:
        hints = of.get("hints", 0)
        if any(verdict.written and not verdict.passed for verdict in result.verdicts):
            lines.append(f"look at the numbers:  tinyattn learn see {path}")
        lines.append(f"a hint, the {_ordinal(hints)} of 3:  tinyattn learn check {path} --hint")
    return "\n".join(lines), result.passed


def _report(verdict):
    lines = [
        f"{'right' if verdict.passed else 'WRONG' if verdict.written else '  ...'}  {verdict.findings[0]}"
    ]
    lines += [f"       {line}" for line in verdict.findings[1:]]
    for line in verdict.diagnosis.splitlines():
        lines += _wrapped(line, "       ")
    for note in verdict.notes:
        lines += _wrapped(note, "       ")
    return lines


def _wrapped(line, indent):
    inner = indent + " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line.strip(), WIDTH, initial_indent=inner, subsequent_indent=inner) or [""]


def _passed(name, record, directory):
    upcoming = record.next(after=name)
    if upcoming is None:
        return (
            "That was the last one. Train a GPT on your own backward passes:  tinyattn train --rules "
            + str(directory)
        )
    return f"ours:  tinyattn learn check {directory / name}.py --solution\nnext:  tinyattn learn start {upcoming}"


def hint(file, name=None):
    """The next of the three hints of an exercise."""
    path, name = locate(file, name, must_exist=False)
    record = Record(path.parent)
    hints = exercise(name).hints
    number = min(record.of(name).get("hints", 0), len(hints) - 1)
    record.note(name, hints=number + 1)
    lines = [f"Hint {number + 1} of {len(hints)} for {name}:", *_wrapped(hints[number], "  ")]
    if number + 1 == len(hints):
        lines.append(f"That was the last. Our solution:  tinyattn learn check {path} --solution")
    return "\n".join(lines)


def solution(file, name=None):
    """The library's rule with its derivation, next to the learner's code; recorded in ``progress.json``."""
    path, name = locate(file, name, must_exist=False)
    Record(path.parent).note(name, solution=True)
    lines = []
    for part in exercise(name).parts:
        lines += [
            f"Our {part.name}"
            + (f", the rule of {part.primitive}" if isinstance(part, Vjp) else ""),
            "",
        ]
        lines += ["    " + line for line in derivation(part)]
        yours = _source_in(path, part.name)
        if yours:
            lines += _side_by_side(_code(part), yours)
        else:
            lines += ["    " + line for line in _code(part)]
        lines.append("")
    return "\n".join(line.rstrip() for line in lines).rstrip()


def derivation(part):
    """The lines of the docstring of a primitive that derive its backward."""
    if not isinstance(part, Vjp):
        return []
    text = inspect.getdoc(PRIMITIVES[part.primitive])
    about = text.split("\nArgs:")[0].splitlines()[:1]
    start = text.index("Backward.")
    end = min(
        (at for at in (text.find("\nSource:", start), text.find("\n>>>", start)) if at > 0),
        default=len(text),
    )
    return [*about, "", *text[start:end].rstrip().splitlines(), ""]


def _code(part):
    """The lines of the library's code: the functions of the backward pass."""
    functions = rule_functions(part.primitive) if isinstance(part, Vjp) else [part.answer]
    lines = []
    for function in functions:
        lines += [*textwrap.dedent(inspect.getsource(function)).splitlines(), ""]
    return lines[:-1]


def _source_in(path, function):
    """The lines of a function in a file, found without executing or parsing the file."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines):
            if line.startswith(f"def {function}("):
                return inspect.getblock([one + "\n" for one in lines[number:]])
    return []


def _side_by_side(ours, yours):
    width = max(map(len, ours))
    ours, yours = ["ours", "----", *ours], ["yours", "-----", *(line.rstrip() for line in yours)]
    if width > 92:  # too wide for a terminal: one below the other
        return ["    " + line for line in [*ours, "", *yours]]
    pairs = itertools.zip_longest(ours, yours, fillvalue="")
    return [f"    {one:{width}}  |  {other}".rstrip() for one, other in pairs]


def reset(name, directory="."):
    """Rename the file of an exercise, and write a new one."""
    exercise(name)
    path = Path(directory) / f"{name}.py"
    text = []
    if path.exists():
        for number in itertools.count(1):
            kept = path.with_name(f"{name}_{number}.py")
            if not kept.exists():
                break
        path.rename(kept)
        text.append(f"{path} is now {kept}")
    return "\n".join([*text, start(name, directory)])


def locate(file, name=None, must_exist=True):
    """The path and the exercise of a file, given as a path or as the name of an exercise.

    Raises:
        InputError: if the file does not exist, or its name is not that of an exercise.
    """
    path = Path(file)
    if path.suffix != ".py" and not path.exists():
        path = path.with_name(path.name + ".py")
    if name is None:
        name = path.stem
        if name not in PATH:
            raise InputError(
                f"{path} is named after no exercise: say which one it is of with --exercise, one of {', '.join(PATH)}"
            )
    exercise(name)
    if must_exist and not path.is_file():
        raise InputError(f"there is no file {path}: begin with tinyattn learn start {name}")
    return path, name


def _times(count, what):
    return f"{count} {what}{'s' if count > 1 else ''}"


def _ordinal(done):
    return ("first", "second", "third")[min(done, 2)]
