"""The list of commands, and the command line they make."""

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

# What other programs call an option of ours that is spelt quite differently.
KNOWN_ELSEWHERE = {
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

# Each is a module of this package with a function ``add_to(app)``.
COMMANDS = (
    "train",
    "sample",
    "gradcheck",
    "explain",
    "explore",
    "bench",
)


class _App(App):
    @property
    def console(self):
        """Where help is printed; rich is imported when it is."""
        from .console import make_console

        return make_console(sys.stdout)


def make_app(words=()):
    """The command line, new for each call of ``main``.

    Args:
        words: the words of the command line. If they begin with a command, only its module is imported.
    """
    app = _App(
        name="tinyattn",
        help="Attention and a small GPT whose every backward pass can be read, checked, watched.",
        version=__version__,
        suppress_keyboard_interrupt=False,  # main tells it
    )
    app.given = set()  # the options on this command line, by the names of their fields
    app.config = _remember_given(app.given)
    wanted = [name for name in COMMANDS if name in words[:1]]
    for name in wanted or COMMANDS:
        importlib.import_module(f".{name}", __package__).add_to(app)
    startup.be_interruptible()  # the imports are done
    return app


def _remember_given(given):
    """A cyclopts hook that notes which options were given, by the name of their field."""

    def remember(app, commands, arguments):
        for argument in arguments:
            _check_whole(argument)
            if argument.tokens:
                given.add(argument.keys[-1] if argument.keys else argument.name.lstrip("-"))

    return remember


def _check_whole(argument):
    """Tell whole numbers from others: cyclopts rounds 1.5 to 2 without a word, and Python reads up to 4300 digits."""
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


def explain_mistake(error):
    """The sentence for a command line that cyclopts cannot read; its own, where there is none better."""
    if isinstance(error, UnknownOptionError):
        word = (error.token.keyword or error.token.value).split("=")[0]
        names = [name for one in error.argument_collection if one.parse for name in one.names]
        meant = option(KNOWN_ELSEWHERE.get(word.lstrip("-").replace("-", "_"), ""))
        near = nearest(word.lstrip("-"), [name.removeprefix("--") for name in names])
        proposed = [f"--{name}" for name in near]
        if meant in names:
            proposed = [meant]
        hint = (
            f"did you mean {' or '.join(proposed[:2])}?" if proposed else "--help lists the options"
        )
        return f"unknown option {shortened(word)}: {hint}"
    if isinstance(error, UnusedCliTokensError):
        words = error.unused_tokens
        command = " ".join(["tinyattn", *(error.command_chain or ())])
        return (
            f"{command} does not know what to do with {shown(words[0])}: its options have names "
            f"({command} --help lists them)"
        )
    return str(error)
