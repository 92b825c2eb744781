"""``tinyattn train``: from options to a trained model, and what to do when it is interrupted."""

import contextlib
import os
import shlex
import signal
import sys
from pathlib import Path

from ..data import InputError
from ..train.config import make_config, options_from_json
from ..train.parallel.forks import WorkerError
from ..train.parallel.mpi import launched_processes
from ..train.session import begin, resume
from ..train.trainer import NonFiniteError
from .display import describe_duration, discard_output, make_display


def run(options, source):
    """Train, and return the exit status.

    Args:
        options: dict of the options that were given.
        source: ``SourceOptions``: a file with further ones, or a run to go on with.
    """
    processes = launched_processes()
    if processes.size == 1:
        return _run(options, source, processes)
    if not processes.is_first:
        # What the first process says, the others need not repeat.
        sys.stdout = sys.stderr = open(os.devnull, "w")
    try:
        return _run(options, source, processes)
    except BaseException as error:
        print(f"tinyattn: {error}", file=sys.stderr, flush=True)
        processes.abort(2 if isinstance(error, InputError | OSError) else 1)
        raise


def _run(options, source, processes):
    if source.resume is not None:
        if options.get("out") is not None:
            raise InputError("--resume writes to the run it goes on with: leave out --out")
        if source.config is not None:
            raise InputError("--resume takes the options of its run: leave out --config")
        trainer = resume(source.resume, options, processes)
    else:
        if source.config is not None:
            options = {**_options_of_file(source.config), **options}
        trainer = begin(make_config(options), processes=processes)
    with make_display(trainer.config.run.steps) as display, _Interruption() as interruption:
        display.note(describe_start(trainer))
        try:
            finished = trainer.train(display, lambda: interruption.asked)
        except NonFiniteError as error:
            print(f"tinyattn: stopped at {error}", file=sys.stderr)
            return 1
        except WorkerError as error:
            return _stopped(trainer, f"tinyattn: {error}", 1, " --workers 1")
        except KeyboardInterrupt:
            return _stopped(trainer, "\ninterrupted, the last saved state is whole", 130)
        except BrokenPipeError:
            discard_output()
            trainer.save(["last"])
            what = f"nobody reads the output any more: saved after step {trainer.step}"
            return _stopped(trainer, f"tinyattn: {what}", 1)
        except OSError as error:
            then = (
                f"go on with {_resume_command(trainer)}, the last saved state is whole"
                if trainer.run.holds_run()
                else "begin again, nothing was saved yet"
            )
            raise InputError(
                f"cannot write to {trainer.run.path}: {error.strerror or error}; mend that and {then}"
            ) from error
        if processes.is_first:
            _draw(trainer, display)
        display.note(describe_end(trainer, finished))
    return 130 if interruption.asked and not finished else 0


def _stopped(trainer, what, status, more=""):
    """Say on standard error why a run stopped and how to go on with it; returns the exit status."""
    print(f"{what}\ngo on with:  {_resume_command(trainer)}{more}", file=sys.stderr)
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
        del options["out"]  # a run's own config.json names its directory, which is taken
    return options


def describe_start(trainer):
    """The run's text, model and directory, in a few lines."""
    config, dataset = trainer.config, trainer.dataset
    shape = config.architecture
    size = trainer.processes.size
    processes = f" in each of {_count(size, 'process')}" if size > 1 else ""
    begun = f"going on after step {trainer.step}, " if trainer.step else ""
    return (
        f"text   {dataset.identity['name']}: {dataset.identity['characters']:,} characters "
        f"({len(dataset.vocabulary)} different), {len(dataset.train):,} to train on, "
        f"{len(dataset.validation):,} to validate on\n"
        f"model  {shape.model} {shape.layers}/{shape.heads}/{shape.dim}, "
        f"block {shape.block_size}, {trainer.model.parameter_count():,} parameters\n"
        f"run    {trainer.run.path}: {begun}{config.run.steps} steps of "
        f"{config.run.batch_size} x {shape.block_size} characters on {trainer.model.device}, "
        f"{_count(trainer.step_function.workers, 'worker')}{processes}"
    )


def _count(number, name):
    """``1 worker``, ``2 workers``, ``2 processes``."""
    plural = "es" if name.endswith("s") else "s"
    return f"{number} {name}{plural if number > 1 else ''}"


def describe_end(trainer, finished):
    """What was reached, and the commands that go on from there."""
    if finished:
        path = shlex.quote(str(trainer.run.path))
        return (
            f"done in {describe_duration(trainer.seconds)}: best validation loss "
            f"{trainer.best_loss:.4f} at step {trainer.best_step}\n"
            f'let it write with:  tinyattn sample {path} --prompt "..."'
        )
    return (
        f"saved after step {trainer.step} of {trainer.config.run.steps}\n"
        f"go on with:  {_resume_command(trainer)}"
    )


def _draw(trainer, display):
    from ..train.picture import draw_loss

    shape = trainer.config.architecture
    try:
        draw_loss(
            trainer.run.path / "loss.png",
            trainer.run.path / "metrics.jsonl",
            trainer.dataset.baselines,
            f"{trainer.dataset.identity['name']}: {shape.model} "
            f"{shape.layers}/{shape.heads}/{shape.dim}, {trainer.config.run.preset}",
        )
    except ImportError:
        display.note("loss.png is left out: it takes matplotlib (pip install matplotlib)")


class _Interruption:
    """Turns the first Ctrl-C (or termination) into a request to stop; a second interrupts at once.

    Nothing is printed here: a signal may come in the middle of another line.
    """

    def __init__(self):
        self.asked = False
        self._previous = {}

    def __enter__(self):
        numbers = [signal.SIGINT, signal.SIGTERM]
        hangup = getattr(signal, "SIGHUP", None)  # Windows has none
        if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:  # as under nohup
            numbers.append(hangup)
        for number in numbers:
            # Only the main thread may set handlers; elsewhere the caller has its own way to stop.
            with contextlib.suppress(ValueError):
                self._previous[number] = signal.signal(number, self._ask)
        return self

    def _ask(self, number, frame):
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *exception):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
