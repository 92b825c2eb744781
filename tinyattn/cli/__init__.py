"""The command ``tinyattn``: train, sample, export, gradcheck, explain, explore, bench, learn.

The command line is parsed by cyclopts. It reads types, defaults and field docstrings from plain dataclasses, so that
nothing is written twice, and raises exceptions with one-sentence messages (tyro and jsonargparse print several lines
and exit the process).

Exit status: 0; 1 for a failed check or a run that had to stop; 2 for a usage error, reported in one sentence; 3 for an
inconclusive check; 130 for an interruption (a training run is saved first).
"""

import contextlib
import os
import sys
import warnings

from ..data import InputError
from ..error_messages import LONGEST, shortened
from .display import discard_output
from .terminal import visible_output


def main(argv=None):
    """Run one command and return its exit status.

    Args:
        argv: list of arguments; ``sys.argv[1:]`` by default.
    """
    _prepare_output_streams()
    with visible_output(), _one_line_warnings():
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        except KeyboardInterrupt:
            # A text sample may have stopped in the middle of a line.
            print("\ninterrupted", file=sys.stderr)
            return 130


def _run(words):
    from cyclopts import CycloptsError

    from .app import describe_usage_error, make_app

    app = make_app(words)
    try:
        status = app(
            _attach_standard_input(words),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except CycloptsError as error:
        return _print_error(describe_usage_error(error), words)
    except InputError as error:
        return _print_error(str(error), words)
    except BrokenPipeError:
        discard_output()
        return 0
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        return _print_error(f"not enough memory{why}: use a smaller batch or model", words)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{where}{error.strerror or error}", words)
    return status if isinstance(status, int) else 0


def _attach_standard_input(words):
    """Write ``--data -`` as ``--data=-``: cyclopts parses a separate argument that starts with a hyphen as an option.

    >>> _attach_standard_input("train --data a.txt - b.txt --out -".split())
    ['train', '--data', 'a.txt', '--data=-', 'b.txt', '--out', '-']
    """
    attached, option = [], ""
    for word in words:
        if word == "-" and option == "--data":
            if attached[-1] == "--data":
                del attached[-1]
            word = "--data=-"
        elif word.startswith("-"):
            option = word.partition("=")[0]
        attached.append(word)
    return attached


def _print_error(message, words):
    """Print an error message on one line, with long arguments shortened."""
    for word in words:
        for given in (word, word.partition("=")[2]):
            for text in {given, repr(given)[1:-1]}:
                if len(text) > LONGEST:
                    message = message.replace(text, shortened(text))
    print(f"tinyattn: {' '.join(message.split())}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def _one_line_warnings():
    """Print each ``InputWarning`` on one line, without the source line that issued it."""
    with warnings.catch_warnings():
        default = warnings.showwarning

        def show(message, category, *where, **more):
            # By name: importing the class would slow the start of every command.
            if "InputWarning" in (one.__name__ for one in category.__mro__):
                print(f"tinyattn: {' '.join(str(message).split())}", file=sys.stderr)
            else:
                default(message, category, *where, **more)

        warnings.showwarning = show
        yield


def _prepare_output_streams():
    """Print characters that the output encoding lacks as escapes such as ``\\u2019``, and replace closed streams.

    In a process started with a closed output, ``sys.stdout`` is None: it is replaced by the null device.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
