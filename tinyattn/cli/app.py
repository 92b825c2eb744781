"""The registry of commands, and the cyclopts app made of them."""

import importlib
import re
import sys
import typing

from cyclopts import App
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

from .. import __version__, startup
from ..data import InputError
from ..error_messages import nearest, shortened, shown
from ..models.config import OTHER_NAMES
from ..train.config import option

# Names of options in other programs, and the options they correspond to here.
ALIASES = {
    **OTHER_NAMES,
    "batch": "batch_size",
    "context": "block_size",
    "epochs": "steps",
    "eval_interval": "evaluate_every",
    "input": "data",
    "iterations": "steps",
    "max_iters": "steps",
    "max_new_tokens": "length",
    "num_workers": "workers",
    "output": "out",
    "start": "prompt",
}

# Registry: each command is a module of this package with a function ``add_to(app)``.
COMMANDS = (
    "train",
    "sample",
    "export",
    "gradcheck",
    "explain",
    "explore",
    "bench",
    "learn",
)


class _App(App):
    @property
    def console(self):
        """The console that help is printed on; rich is imported on first use."""
        from .console import make_console

        return make_console(sys.stdout)


def make_app(words=()):
    """Create the cyclopts app; each call of ``main`` creates a new one.

    Args:
        words: command-line arguments. If the first one is a command, only its module is imported.
    """
    app = _App(
        name="tinyattn",
        help="Train a small GPT, and read, check and explore its backward passes.",
        version=__version__,
        suppress_keyboard_interrupt=False,  # main reports it
    )
    app.given = set()  # field names of the options given on the command line
    app.config = _remember_given(app.given)
    wanted = [name for name in COMMANDS if name in words[:1]]
    for name in wanted or COMMANDS:
        importlib.import_module(f".{name}", __package__).add_to(app)
    startup.raise_on_interrupt()  # the imports are done
    return app


def _remember_given(given):
    """Return a cyclopts config hook that adds the field name of each given option to the set ``given``."""

    def remember(app, commands, arguments):
        for argument in arguments:
            _check_whole(argument)
            if argument.tokens:
                given.add(argument.keys[-1] if argument.keys else argument.name.lstrip("-"))

    return remember


def _check_whole(argument):
    """Raise an InputError unless integer options are integers of at most 999 digits.

    cyclopts rounds 1.5 to 2 silently, and Python refuses to convert integers of more than 4300 digits.
    """
    kinds = typing.get_args(argument.hint) or (argument.hint,)
    if int not in kinds:
        return
    for token in argument.tokens:
        if re.fullmatch(r"[+-]?[0-9]{1000,}", token.value):
            digits = len(token.value.lstrip("+-0"))
            raise InputError(
                f"{argument.name} is too large, given a whole number of {digits} digits"
            )
        if not _is_a(int, token.value) and _is_a(float, token.value):
            given = shortened(token.value)
            raise InputError(f"{argument.name} must be a whole number, given {given}")


def _is_a(kind, text):
    try:
        kind(text)
    except ValueError:
        return False
    return True


def describe_usage_error(error):
    """One sentence for a cyclopts error: with suggestions for unknown options, otherwise cyclopts' own message."""
    if isinstance(error, UnknownOptionError):
        word = (error.token.keyword or error.token.value).split("=")[0]
        names = [name for one in error.argument_collection if one.parse for name in one.names]
        alias = option(ALIASES.get(word.lstrip("-").replace("-", "_"), ""))
        near = nearest(word.lstrip("-"), [name.removeprefix("--") for name in names])
        similar = [alias] if alias in names else [f"--{name}" for name in near[:2]]
        hint = f"did you mean {' or '.join(similar)}?" if similar else "--help lists the options"
        return f"unknown option {shortened(word)}: {hint}"
    if isinstance(error, UnusedCliTokensError):
        words = error.unused_tokens
        command = " ".join(["tinyattn", *(error.command_chain or ())])
        return (
            f"{command}: unexpected argument {shown(words[0])}; options are given by name, "
            f"{command} --help lists them"
        )
    return str(error)
