"""Run a learner's file in a separate process, with a time limit.

The code runs with the learner's permissions: the process is a protection from endless loops and crashes only.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from .verdict import Result, Verdict

SECONDS = 60.0
MOST_OUTPUT = 4000  # characters of what the learner's code prints


class ProcessError(Exception):
    """The process ended without a result; the message is a sentence for the learner."""


def check_file(file, name, seconds=SECONDS):
    """Judge a learner's file; returns the ``Result`` and the printed output.

    Args:
        file: its path.
        name: the exercise.
        seconds: the time limit [s].
    """
    try:
        result, printed = run(file, name, seconds)
    except ProcessError as error:
        verdict = Verdict(
            name, findings=[f"{Path(file).name} gave no result"], diagnosis=str(error)
        )
        return Result(name, [verdict]), error.printed
    return Result(name, [Verdict(**verdict) for verdict in result["verdicts"]]), printed


def gradients_of_file(file, name, calls, seconds=SECONDS):
    """The learner's gradients at ``calls``: for each call a list with one entry per input, or an error message.

    Args:
        calls: ``(function's name, g, out, inputs, parameters)``, arrays as lists.

    Raises:
        ProcessError: if the process ends without a result.
    """
    result, _ = run(file, name, seconds, calls)
    return result["gradients"]


def run(file, name, seconds=SECONDS, calls=()):
    """The result of ``worker.py``, and the output that the learner's code printed.

    The process is killed in any case, also if this one is interrupted, and on POSIX systems so are the processes that
    the learner's code has started.

    Raises:
        ProcessError: if the process exceeds the time limit, or ends without a result.
    """
    with tempfile.TemporaryDirectory(prefix="tinyattn-learn-") as directory:
        request = {
            "file": str(Path(file).resolve()),
            "exercise": name,
            "seconds": seconds,
            "calls": list(calls),
        }
        (Path(directory) / "request.json").write_text(json.dumps(request), "utf-8")
        status, printed = _run_worker(directory, seconds)
        result = Path(directory) / "result.json"
        if status == 0 and result.is_file():
            return json.loads(result.read_text("utf-8")), printed
    error = ProcessError(_ending(status, seconds))
    error.printed = printed
    raise error


def _run_worker(directory, seconds):
    """The exit status of the worker, None if it exceeded the time limit, and its output."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", "tinyattn.learn.worker", directory],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    output = _Output(process.stdout)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        _end(process)
    return status, output.text()


def _end(process):
    """Kill the process and those that it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


class _Output:
    """The beginning of a process's output; the rest is read and discarded."""

    def __init__(self, stream):
        self._stream = stream
        self._kept = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while chunk := self._stream.read1(65536):
            self._kept += chunk[: max(0, MOST_OUTPUT - len(self._kept))]

    def text(self):
        self._reader.join(2)
        return self._kept.decode("utf-8", "replace").rstrip()


def _ending(status, seconds):
    if status is None:
        return (
            f"it took more than {seconds:g} s and was ended: is there a loop without an end? "
            "(--seconds gives it more)"
        )
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return (
            f"its process was ended by {name}: it crashed, or ran out of memory or processor time"
        )
    return f"its process exited with status {status}, before it returned anything"
