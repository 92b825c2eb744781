"""``tinyattn train``: train a model, handle interruptions, and report the outcome."""

import contextlib
import os
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..data import InputError
from ..data.paths import PathText
from ..ranges import Positive
from ..startup import command_start
from ..train.budget.time_budget import TimeBudget
from ..train.config import (
    OptimizerOptions,
    as_annotated,
    describe_presets,
    flatten_groups,
    make_config,
    options_from_json,
)
from ..train.parallel import WorkerError
from ..train.parallel.mpi import launched_processes
from ..train.reports import DisplayError, show
from ..train.session import FinishedRunError, baselines_of, begin, resume
from ..train.trainer import NonFiniteError
from .display import EncodingProgress, describe_duration, discard_output, make_display
from .options import TextAndRunOptions, model_options, options


@dataclass(frozen=True)
class SourceOptions:
    """Sources of options that are not given on the command line."""

    config: PathText | None = None
    """JSON file with options, such as a run's config.json; command-line options override it [path]."""

    minutes: Positive | None = None
    """Time for the whole run: the size of the model, the steps and the regularization are chosen for it, for the text
    and for the speed of this machine, around the options that are given [minutes]."""

    resume: PathText | None = None
    """Run to resume, with its own options [directory]."""

    rules: PathText | None = None
    """Train with your own backward passes from the exercises of tinyattn learn in this directory [directory]."""

    anyway: Annotated[bool, Parameter(negative=())] = False
    """With --rules: train even if a backward pass is wrong, and compare with the correct rules."""


def add_to(app):
    ModelOptions = model_options()

    @app.command(help_epilogue=f"Presets\n\n{describe_presets()}")
    def train(
        *,
        run: Annotated[TextAndRunOptions, options("Run")] = TextAndRunOptions(),  # noqa: B008
        source: Annotated[SourceOptions, options("Defaults and resumption")] = SourceOptions(),
        model: Annotated[ModelOptions, options("Model")] = ModelOptions(),  # noqa: B008
        optimizer: Annotated[OptimizerOptions, options("Optimizer")] = OptimizerOptions(),  # noqa: B008
    ):
        """Train a small language model on characters, bytes or byte pairs; about a minute with the defaults.

        Command-line options override the file given with --config, which overrides the preset.
        """
        values = flatten_groups(run, model, optimizer)
        given = {name: values[name] for name in app.given & values.keys()}
        return start(given, as_annotated(source))


def start(options, source):
    """Train, and return the exit status.

    Args:
        options: dict of the options given on the command line.
        source: ``SourceOptions``: a file with more options, or a run to resume.
    """
    processes = launched_processes()
    if processes.size == 1:
        return _run(options, source, processes)
    errors, name = sys.stderr, "tinyattn"
    if not processes.is_first:
        # Only the first process prints, except for an error that the first does not have.
        sys.stdout = sys.stderr = open(os.devnull, "w")
        name = f"tinyattn, process {processes.rank}"
    try:
        return _run(options, source, processes)
    except BaseException as error:
        status = 2 if isinstance(error, InputError | OSError) else 1
        message = f"{name}: {error}"
        processes.abort(status, lambda: print(message, file=errors, flush=True))
        raise


def _run(options, source, processes):
    if source.rules is not None:
        if source.minutes is not None:
            raise InputError("--rules trains for a number of --steps: leave out --minutes")
        from .rules import train_with_rules

        return train_with_rules(options, source, processes, _run_once)
    if source.anyway:
        raise InputError("--anyway is for --rules DIRECTORY: give that too")
    return _run_once(options, source, processes)


def _run_once(options, source, processes):
    budget = None
    if source.resume is not None:
        if source.minutes is not None:
            raise InputError("--resume continues to the last step of its run: leave out --minutes")
        if options.get("out") is not None:
            raise InputError("--resume continues in the directory of its run: leave out --out")
        if source.config is not None:
            raise InputError("--resume uses the options of its run: leave out --config")
        try:
            with EncodingProgress() as watch:
                trainer = resume(source.resume, options, processes, watch)
        except FinishedRunError as error:
            run = error.run
            if processes.broadcast(lambda: (run.path / "loss.png").exists()):
                raise
            return _draw_later(run) if processes.is_first else 0
    else:
        if source.config is not None:
            options = {**_options_of_file(source.config), **options}
        if source.minutes is not None:
            budget = TimeBudget(source.minutes, options, command_start())
            config = budget.first_config
        else:
            config = make_config(options)
        with EncodingProgress() as watch:
            trainer = begin(config, processes=processes, watch=watch, budget=budget)
    with _Interruption() as interruption:
        status = _train(trainer, interruption, budget)
    if status == 1:
        processes.abort(status)  # the other processes are waiting for the gradients of this one
    return status


def _train(trainer, interruption, budget):
    finished = False
    try:
        with _shown(make_display(trainer.config.run.steps)) as display:
            show(display.note, describe_start(trainer))
            if budget is not None:
                show(display.note, describe_plan(trainer, budget.plan))
            finished = trainer.train(display, lambda: interruption.asked)
            if trainer.processes.is_first:
                most = trainer.config.run.evaluate_characters
                _draw(trainer.run, trainer.dataset.evaluated(most).baselines)
            show(display.note, describe_end(trainer, finished))
    except NonFiniteError as error:
        _tell(f"tinyattn: stopped at {error}")
        return 1
    except WorkerError as error:
        what = f"tinyattn: {error}"
        if trainer.saved_step == trainer.step:
            what += f"; saved after step {trainer.step}"
        return _stopped(trainer, what, 1, " --workers 1")
    except KeyboardInterrupt:
        return _stopped(trainer, "\ninterrupted; the last saved state is intact", 130)
    except DisplayError as error:
        discard_output()
        closed = isinstance(error.__cause__, BrokenPipeError)
        what = "the output pipe was closed" if closed else f"cannot write the output ({error})"
        if finished:
            _tell(f"tinyattn: {what}; the run {trainer.run.path} is finished")
            return 0
        if not trainer.run.has_saved_state():
            _tell(f"tinyattn: {what}; nothing was trained yet")
            return 1
        return _stopped(trainer, f"tinyattn: {what}: saved after step {trainer.step}", 1)
    except OSError as error:
        then = (
            f"resume with {_resume_command(trainer)}, the last saved state is intact"
            if trainer.run.has_saved_state()
            else "start again, nothing was saved yet"
        )
        raise InputError(
            f"cannot write to {trainer.run.path}: {error.strerror or error}; fix that and {then}"
        ) from error
    return 130 if interruption.asked and not finished else 0


@contextlib.contextmanager
def _shown(display):
    """Enter and exit the display, ignoring an OSError on exit."""
    show(display.__enter__)
    try:
        yield display
    finally:
        with contextlib.suppress(OSError):
            display.__exit__(None, None, None)


def _tell(text):
    """Print to standard error, which may be closed together with the terminal."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _stopped(trainer, what, status, more=""):
    """Report on standard error why a run stopped and how to resume it; returns the exit status."""
    _tell(f"{what}\nresume with:  {_resume_command(trainer)}{more}")
    return status


def _resume_command(trainer):
    return f"tinyattn train --resume {shlex.quote(str(trainer.run.path))}"


def _options_of_file(path):
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"--config: there is no file {path}") from None
    except UnicodeDecodeError:
        raise InputError(f"--config: {path} is not UTF-8 text") from None
    options = options_from_json(text, str(path))
    out = options.get("out")
    if isinstance(out, str) and Path(out).resolve() == Path(path).resolve().parent:
        del options["out"]  # the config.json of a run names its own directory, which already exists
    return options


def describe_start(trainer):
    """Summary of the run's text, model and directory."""
    config, dataset = trainer.config, trainer.dataset
    shape = config.architecture
    size = trainer.processes.size
    processes = f" in each of {_count(size, 'process')}" if size > 1 else ""
    executor = trainer.step_function.executor
    fallback = f" (threads: {executor.fallback})" if executor.fallback else ""
    source = f"from   {config.run.from_}\n" if config.run.from_ and not trainer.step else ""
    resumed = f"resuming after step {trainer.step}, " if trainer.step else ""
    return (
        f"text   {dataset.identity['name']}: {dataset.identity['characters']:,} characters{_tokens(dataset)}, "
        f"{len(dataset.train):,} for training, {len(dataset.validation):,} for validation\n"
        f"{source}model  {shape.model} {shape.layers}/{shape.heads}/{shape.dim}, "
        f"block {shape.block_size}, {trainer.model.parameter_count():,} parameters\n"
        f"run    {trainer.run.path}: {resumed}{config.run.steps} steps of "
        f"{config.run.batch_size} x {shape.block_size} {dataset.vocabulary.unit}s on {trainer.model.device}, "
        f"{_count(executor.workers, 'worker')}{fallback}{processes}"
    )


def describe_plan(trainer, plan):
    """The options that ``--minutes`` has chosen, and the command that repeats the training."""
    config = trainer.config
    shape, run = config.architecture, config.run
    minutes = f"{plan.minutes:g} minute{'' if plan.minutes == 1 else 's'}"
    heads = f"/{shape.heads}" if shape.model in ("gpt", "encoder") else ""
    size = f"{shape.layers}{heads}/{shape.dim}, block {shape.block_size}, batch {run.batch_size}"
    early = (
        f"       the text is short: {plan.epochs:.0f} passes over it take about "
        f"{describe_duration(plan.seconds)}\n"
        if plan.ends_early
        else ""
    )
    step = plan.step_seconds
    duration = f"{1000 * step:.0f} ms" if step < 1 else f"{step:.1f} s"
    again = shlex.quote(str(trainer.run.path / "config.json"))
    return (
        f"time   {minutes} here: {size}, {run.steps:,} steps of {duration}, "
        f"{plan.epochs:.1f} passes over the text, dropout {shape.dropout:g}\n"
        f"{early}       the same again:  tinyattn train --config {again}"
    )


def _tokens(dataset):
    """The number of tokens and of distinct ones, as printed after the number of characters."""
    vocabulary = dataset.vocabulary
    if vocabulary.unit == "character":
        return f" ({len(vocabulary)} distinct)"
    number = len(dataset.train) + len(dataset.validation)
    return f", {number:,} {vocabulary.unit}s ({len(vocabulary):,} distinct)"


def _count(number, name):
    """``1 worker``, ``2 workers``, ``2 processes``."""
    plural = "es" if name.endswith("s") else "s"
    return f"{number} {name}{plural if number > 1 else ''}"


def _bits(trainer):
    """The best loss in bits per character."""
    evaluated = trainer.dataset.evaluated(trainer.config.run.evaluate_characters)
    bits = evaluated.bits_per_character(trainer.best_loss)
    return f" nats per {trainer.dataset.vocabulary.unit} ({bits:.3f} bits per character)"


def describe_end(trainer, finished):
    """Result of the run, and the command to sample from it or to resume it."""
    if finished:
        path = shlex.quote(str(trainer.run.path))
        return (
            f"done in {describe_duration(trainer.seconds)}: best validation loss "
            f"{trainer.best_loss:.4f}{_bits(trainer)} at step {trainer.best_step}\n"
            f'generate text with:  tinyattn sample {path} --prompt "..."'
        )
    return (
        f"saved after step {trainer.step} of {trainer.config.run.steps}\n"
        f"resume with:  {_resume_command(trainer)}"
    )


def _draw(run, baselines=None):
    """Draw ``loss.png``, and report a failure as a warning; returns whether it was drawn."""
    from ..train.picture import draw_run

    try:
        draw_run(run, baselines)
    except Exception as error:
        why = (
            "it needs matplotlib: pip install matplotlib"
            if isinstance(error, ImportError)
            else error
        )
        _tell(
            f"tinyattn: {run.path / 'loss.png'} could not be drawn ({' '.join(str(why).split())}); the run is "
            f"intact, and tinyattn train --resume {shlex.quote(str(run.path))} draws it once it is finished"
        )
        return False
    return True


def _draw_later(run):
    """Draw the missing ``loss.png`` of a finished run; returns the exit status."""
    if not _draw(run, baselines_of(run)):
        return 1
    print(f"the run {run.path} is finished: drew the missing {run.path / 'loss.png'}")
    return 0


class _Interruption:
    """Context manager: signal handlers that turn Ctrl-C and termination signals into a request to stop and save.

    A second Ctrl-C raises KeyboardInterrupt at once. The other signals never interrupt saving, even if several arrive:
    a batch system sends SIGUSR1 before its time limit and SIGTERM at the limit. The handlers print nothing, since a
    signal may arrive in the middle of a line.
    """

    # Signals that the platform lacks are skipped (Windows has SIGBREAK, but neither SIGHUP nor SIGUSR1).
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGBREAK")

    def __init__(self):
        self.asked = False
        self._interrupted = False
        self._previous = {}

    def __enter__(self):
        for name in self.names:
            number = getattr(signal, name, None)
            if number is None or (
                name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN  # as under nohup
            ):
                continue
            # Signal handlers can be set in the main thread only; in other threads none are needed.
            with contextlib.suppress(ValueError):
                self._previous[number] = signal.signal(number, self._ask)
        return self

    def _ask(self, number, frame):
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        self.asked = True

    def __exit__(self, *exception):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
