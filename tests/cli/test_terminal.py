"""Output on terminals, pipes and other streams, and Ctrl-C during startup."""

import contextlib
import io
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tinyattn.cli import main, terminal
from tinyattn.cli.terminal import VisibleStream, visible

from .conftest import command

NASTY = "\x1b[2J\x1b]0;title\x07 \r \x9b31m \x7f \u202e"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def on_terminal(monkeypatch):
    """Run the command in this process with both outputs as terminals; returns ``(status, output)``."""

    def run(*words):
        stream = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            patch.setenv("TERM", "xterm")
            status = main([str(word) for word in words])
        return status, stream.getvalue()

    return run


def on_real_terminal(*words, columns=80):
    """The same in a subprocess with a pseudo-terminal of that many columns."""
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    process = command(*words, stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65536):
            output += part
    os.close(ours)
    return process.wait(timeout=60), output.decode()


@pytest.fixture(scope="module")
def nasty_run(tmp_path_factory):
    """A run with control characters in its name, in the name of its text, and in the text."""
    folder = tmp_path_factory.mktemp("runs")
    text, path = folder / "a\x1b]0;x\x07.txt", folder / "b\x1b[2J"
    text.write_text(f"the fox {NASTY} jumps\n" * 60, encoding="utf-8", newline="")
    tiny = "--layers 1 --heads 1 --dim 8 --block-size 8 --batch-size 4 --workers 1 --steps 2"
    words = ["train", "--data", str(text), "--out", str(path), *tiny.split()]
    assert main(words) == 0
    return text, path


def controls(text):
    """Control characters in ``text`` other than line ends."""
    return {c for c in text.replace("\r\n", "\n") if c != visible(c)}


@pytest.mark.parametrize("code", [*range(32), *range(0x7F, 0xA0), 0x202E, 0x2067])
def test_control_characters_become_escapes_and_newline_and_tab_stay(code):
    character = chr(code)
    if character in "\n\t":
        assert visible(character) == character
    else:
        assert visible(character) == repr(character)[1:-1] and visible(character).isprintable()


@pytest.mark.skipif(os.name == "nt", reason="takes a pseudo-terminal")
def test_a_terminal_gets_a_sample_with_escapes_and_a_pipe_the_characters(nasty_run):
    _, path = nasty_run
    words = ["sample", path, "--prompt", NASTY, "--length", 60, "--temperature", 3, "--seed", 1]
    status, shown = on_real_terminal(*words)
    assert status == 0 and controls(shown) == set()
    assert r"\x1b[2J\x1b]0;title\x07 \r \x9b31m \x7f \u202e" in shown
    output, _ = command(*words, env={"PYTHONIOENCODING": "utf-8"}).communicate(timeout=60)
    assert output.decode().startswith(NASTY)


@pytest.mark.parametrize(
    "words",
    [
        ["sample", f"no{NASTY}run"],
        ["sample", "RUN", "--prompt", "\x1b\x05"],
        ["train", "--data", f"no{NASTY}file"],
        ["train", f"--no{NASTY}option", "3"],
        ["train", "--steps", f"3{NASTY}"],
        ["train", "--preset", NASTY],
        ["gradcheck", "--op", NASTY],
        ["gradcheck", "RUN", "--device", NASTY],
        ["explain", NASTY],
        ["explain", "softmax", "--x", f"1 {NASTY}"],
        ["explore", "RUN", "--text", f"a {NASTY}\x05"],
        ["bench", NASTY],
        [NASTY],
    ],
)
def test_no_argument_reaches_the_terminal_raw(nasty_run, on_terminal, words):
    words = [nasty_run[1] if word == "RUN" else word for word in words]
    status, shown = on_terminal(*words)
    assert status == 2 and controls(shown) == set() and "Traceback" not in shown, shown


def test_training_on_a_terminal_shows_names_and_samples_with_escapes(
    nasty_run, on_terminal, tmp_path
):
    text, _ = nasty_run
    tiny = "--layers 1 --heads 1 --dim 8 --block-size 8 --batch-size 4 --workers 1 --steps 2"
    out = tmp_path / "c\x1b[2J"
    status, shown = on_terminal("train", "--data", text, "--out", out, *tiny.split())
    assert status == 0 and r"a\x1b]0;x\x07.txt" in shown and r"c\x1b[2J" in shown
    # The live line's own sequences are colors, lines up and lines cleared.
    assert "\x1b]" not in shown and "\x1b[2J" not in shown and "\x07" not in shown
    assert "\x9b" not in shown and "\u202e" not in shown


@pytest.mark.parametrize("columns", ["0", "1", "10", "9" * 30])
@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["explain", "softmax"]])
def test_an_invalid_width_is_ignored(monkeypatch, on_terminal, words, columns):
    monkeypatch.setenv("COLUMNS", columns)
    status, shown = on_terminal(*words)
    assert status == 0 and "Traceback" not in shown
    assert len(shown) > 200 and max(map(len, shown.splitlines())) <= 1200


@pytest.mark.skipif(os.name == "nt", reason="takes a pseudo-terminal")
@pytest.mark.parametrize("columns", [0, 3])
def test_a_very_narrow_terminal_shows_help(columns):
    status, shown = on_real_terminal("train", "--help", columns=columns)
    assert status == 0 and "Traceback" not in shown and len(shown) > 1000


class Editor(io.StringIO):
    """A minimal output stream, as in some editors and notebooks."""

    isatty = property()
    fileno = property()


@pytest.mark.parametrize("words", ["explain softmax", "gradcheck --op exp", "train --help"])
def test_a_stream_without_isatty_is_not_a_terminal(monkeypatch, words):
    monkeypatch.setattr(sys, "stdout", Editor())
    assert main(words.split()) == 0
    assert len(sys.stdout.getvalue()) > 100 and "\x1b" not in sys.stdout.getvalue()


def test_training_works_with_a_minimal_stream(monkeypatch, tmp_path, text_file):
    monkeypatch.setattr(sys, "stdout", Editor())
    tiny = "--layers 1 --heads 1 --dim 8 --block-size 8 --batch-size 4 --workers 1 --steps 2"
    words = ["train", "--data", str(text_file), "--out", str(tmp_path / "run"), *tiny.split()]
    assert main(words) == 0
    assert "done in" in sys.stdout.getvalue()


def test_the_streams_are_restored_afterwards(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    with terminal.visible_output():
        assert isinstance(sys.stdout, VisibleStream)
        sys.stdout.writelines(["a\x07", "b\n"])
    assert sys.stdout is stream and stream.getvalue() == "a\\x07b\n"


@pytest.mark.skipif(os.name == "nt", reason="takes a shell and its pipes")
@pytest.mark.parametrize("words", ["train --help", "--help", "sample --help", "explore --help"])
def test_help_into_a_closed_pipe_is_not_an_error(words):
    process = command(*words.split())
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0


@pytest.mark.skipif(os.name == "nt", reason="takes a signal that Windows has not")
def test_an_interruption_of_the_imports_exits_silently(tmp_path):
    # Slower than any machine, so that the signal comes in the middle of an import.
    folder = tmp_path / "numpy"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import sys, time\nprint('importing', flush=True)\n"
        "try:\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    raise ImportError('numpy cannot be imported')\n"
    )
    root = str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", "")
    process = command("explain", "softmax", env={"PYTHONPATH": root + os.pathsep + _root()})
    process.stdout.read(len("importing"))
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, b"")


def test_other_programs_keep_their_handler_of_sigint():
    code = (
        "import signal\nbefore = signal.getsignal(signal.SIGINT)\nimport tinyattn\n"
        "assert signal.getsignal(signal.SIGINT) is before is signal.default_int_handler"
    )
    for words in (["-c", code], ["-"]):
        done = subprocess.run(
            [sys.executable, *words],
            input=code,
            text=True,
            env={**os.environ, "PYTHONPATH": _root()},
        )
        assert done.returncode == 0


def _root():
    return str(Path(__file__).resolve().parents[2])


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("words", ["explain softmax", "sample RUN --length 3"])
def test_a_closed_output_is_not_an_error(trained, words):
    shell = f"{sys.executable} -m tinyattn {words.replace('RUN', str(trained))} >&-"
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        ["sh", "-c", shell], env={**os.environ, "PYTHONPATH": root}, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
