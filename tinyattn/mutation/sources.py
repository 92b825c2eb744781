"""Mutants in source files, for tests that run as a separate command on a copy of the project."""

import ast
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

LARGEST = 200e6  # of a project that is copied [bytes]
_IGNORED = ("__pycache__", "node_modules", "venv", ".*")


class ProjectCopy:
    """A copy of the directory with a file, in which a function of the file is changed and a command runs.

    The directory is the current one if the file is within it, else that of the file. Hidden files and virtual
    environments are not copied.

    Args:
        path: the file.
        root: another directory to copy.

    Raises:
        ValueError: if the directory is larger than 200 MB.
    """

    def __init__(self, path, root=None):
        path = Path(path).resolve()
        current = Path.cwd() if root is None else Path(root).resolve()
        self._root = current if path.is_relative_to(current) else path.parent
        self._source = path.read_text(encoding="utf-8")
        self._original = path

    def __enter__(self):
        ignore = shutil.ignore_patterns(*_IGNORED)
        size = 0
        for directory, folders, files in os.walk(self._root):
            left_out = ignore(directory, folders + files)
            folders[:] = [folder for folder in folders if folder not in left_out]
            for file in set(files) - left_out:
                with contextlib.suppress(OSError):
                    size += os.path.getsize(os.path.join(directory, file))
            if size > LARGEST:
                raise ValueError(
                    f"{self._root} holds more than {LARGEST / 1e6:.0f} MB, which would be copied: "
                    "run the command in a smaller directory with the file"
                )
        self._place = tempfile.TemporaryDirectory(prefix="mutants-")
        self._copy = Path(self._place.name).resolve() / self._root.name
        shutil.copytree(self._root, self._copy, ignore=ignore, ignore_dangling_symlinks=True)
        self._file = self._copy / self._original.relative_to(self._root)
        return self

    def __exit__(self, *exception):
        self._place.cleanup()

    def score(self, function, changes, command):
        """Yield ``(Change, caught)`` for each mutant: caught if the command fails, or takes ten times as long.

        Raises:
            ValueError: if the command fails on the file as it is, or passes although the function raises.
        """
        started = time.perf_counter()
        status = self.run(command, timeout=None)
        limit = 10 * (time.perf_counter() - started) + 10
        if status != 0:
            raise ValueError(
                f"{command!r} ends with status {status} on the file as it is, expected 0"
            )
        name, line = function.__name__, function.__code__.co_firstlineno
        raises = ast.parse(f"raise RuntimeError('{name} was called')")
        self._write(_with_body(self._source, name, line, raises.body))
        if self.run(command, limit) == 0:
            raise ValueError(
                f"{command!r} passes although {name} raises an error: it does not call {name} "
                "of the copy, in the directory where it runs"
            )
        for change, _ in changes:
            self._write(_with_body(self._source, name, line, change.tree.body[0].body))
            yield change, self.run(command, limit) != 0

    def run(self, command, timeout):
        """The exit status of a command in the copy; None if it took longer than ``timeout`` seconds."""
        paths = [self._copy, self._copy / "src", self._file.parent]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        process = subprocess.Popen(
            command,
            shell=True,
            cwd=self._copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(timeout)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise

    def _write(self, source):
        self._file.write_text(source, encoding="utf-8")


def _with_body(source, name, line, body):
    """The source with another body of the function ``name`` that begins at a line (its decorators included).

    >>> print(_with_body("def f(x):\\n    return x\\n\\n\\ny = 1\\n", "f", 1, ast.parse("pass").body))
    def f(x):
        pass
    <BLANKLINE>
    <BLANKLINE>
    y = 1
    <BLANKLINE>
    """
    (function,) = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name == name
        and line in (node.lineno, *(d.lineno for d in node.decorator_list))
    ]
    lines = source.splitlines()
    first = function.body[0]
    indent = " " * (function.col_offset + 4)
    text = ast.unparse(ast.fix_missing_locations(ast.Module(list(body), []))).splitlines()
    header = lines[function.lineno - 1 : first.lineno - 1]
    if not header:  # def f(x): return x, on one line
        header = [lines[first.lineno - 1][: first.col_offset]]
    changed = [*header, *(f"{indent}{one}" for one in text)]
    return "\n".join([*lines[: function.lineno - 1], *changed, *lines[function.end_lineno :], ""])
