"""The command ``tinyattn``: train, sample, gradcheck, explain, explore, bench.

The command line is made by cyclopts: it reads types, defaults and the docstrings of fields from plain
dataclasses, so that nothing is written twice, and it raises its errors as exceptions with one-sentence
messages (tyro and jsonargparse print boxes or several lines and exit by themselves).

Exit status: 0; 1 for a failed check or a run that had to stop; 2 for a mistake of the user's, told in
one sentence; 130 for an interrupted run, saved.
"""

import contextlib
import os
import sys
import warnings

from ..data import InputError
from ..error_messages import LONGEST, shortened
from .terminal import visible_output


def main(argv=None):
    """Run one command and return its exit status.

    Args:
        argv: the words after the command's name; those of this process by default.
    """
    _survive_any_encoding()
    with visible_output(), _notices_on_one_line():
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        except KeyboardInterrupt:
            # A sample may have stopped in the middle of a line.
            print("\ninterrupted", file=sys.stderr)
            return 130


def _run(words):
    from cyclopts import CycloptsError

    from .app import explain_mistake, make_app

    app = make_app(words)
    try:
        status = app(
            _spell_standard_input(words),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except CycloptsError as error:
        return _print_error(explain_mistake(error), words)
    except InputError as error:
        return _print_error(str(error), words)
    except BrokenPipeError:
        from .display import discard_output

        discard_output()
        return 0
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        return _print_error(
            f"not enough memory{why}: ask for less, such as a smaller batch or model", words
        )
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{where}{error.strerror or error}", words)
    return status if isinstance(status, int) else 0


def _spell_standard_input(words):
    """``--data -`` as ``--data=-``: cyclopts takes a word of its own that begins with a hyphen for an option.

    >>> _spell_standard_input("train --data a.txt - b.txt --out -".split())
    ['train', '--data', 'a.txt', '--data=-', 'b.txt', '--out', '-']
    """
    spelt, option = [], ""
    for word in words:
        if word == "-" and option == "--data":
            if spelt[-1] == "--data":
                del spelt[-1]
            word = "--data=-"
        elif word.startswith("-"):
            option = word.partition("=")[0]
        spelt.append(word)
    return spelt


def _print_error(message, words):
    """Say in one line what cannot be done; of a long word that was given, the beginning is enough."""
    for word in words:
        for given in (word, word.partition("=")[2]):
            for spelt in {given, repr(given)[1:-1]}:
                if len(spelt) > LONGEST:
                    message = message.replace(spelt, shortened(spelt))
    sentence = " ".join(message.split())
    print(f"tinyattn: {sentence}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def _notices_on_one_line():
    """Show what there is to know about a run (``RunWarning``) without the line of code that says it."""
    with warnings.catch_warnings():
        plain = warnings.showwarning

        def show(message, category, *where, **more):
            if category.__name__ == "RunWarning":
                print(f"tinyattn: {' '.join(str(message).split())}", file=sys.stderr)
            else:
                plain(message, category, *where, **more)

        warnings.showwarning = show
        yield


def _survive_any_encoding():
    """What the terminal cannot show becomes an escape such as ``\\u2019`` instead of an error.

    A process started with an output closed has None in its place: what it prints goes nowhere then.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
