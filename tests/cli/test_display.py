"""Progress output: a live line on a terminal, plain lines elsewhere."""

import dataclasses
import io
import re

import pytest

from tinyattn.cli.display import EncodingProgress, LiveDisplay, PlainDisplay, make_display
from tinyattn.train.reports import EvaluationReport, StepReport

STEP = StepReport(
    step=30,
    loss=1.5,
    bits_per_character=2.25,
    smoothed_loss=1.75,
    learning_rate=1e-3,
    grad_norm=0.5,
    tokens_per_second=12345.6,
    seconds=10.0,
    seconds_left=90.0,
)
EVALUATION = EvaluationReport(
    step=30,
    loss=1.75,
    loss_steps=20,
    validation_loss=1.875,
    bits_per_character=2.7051,
    tokens=1000,
    validation_tokens=1000,
    unit="character",
    best=True,
    baselines={"unigram": 3.3473, "bigram": 2.4838},
    seconds=61.0,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show(display):
    with display:
        display.note("[a] text with brackets")
        display.step(STEP)
        display.evaluation(EVALUATION)
        display.sample(30, "ROMEO:\n[bold]What[/bold] :smile:\n")
    return display.stream.getvalue()


def test_an_evaluation_is_printed_with_the_baselines():
    text = show(PlainDisplay(300, io.StringIO(), interval=0.0))
    assert (
        "step 30/300  loss 1.500  1:30 left  smoothed 1.750  12,346 tokens/s  2.25 bits/char\n"
        in text
    )
    assert (
        "step 30/300  train 1.7500 (mean of the last 20 steps)  validation 1.8750, 2.705 bits/char (best)  "
        "unigram 3.347  bigram 2.484  [1:01]\n" in text
    )
    assert text.endswith("--- text sample after step 30\nROMEO:\n[bold]What[/bold] :smile:\n---\n")


def test_without_a_terminal_progress_is_printed_every_few_seconds_at_most():
    stream = io.StringIO()
    display = make_display(300, stream)
    for _ in range(100):
        display.step(STEP)
    assert stream.getvalue() == ""


def test_a_terminal_gets_the_same_lines_and_a_live_one_without_markup():
    display = make_display(300, Terminal())
    assert isinstance(display, LiveDisplay)
    text = show(display)
    for part in (
        "[a] text with brackets",
        "step 30/300  train 1.7500",
        "[bold]What[/bold] :smile:",
        "12,346 tokens/s",
    ):
        assert part in text
    assert text.rstrip().endswith("\x1b[2K")  # the live line is gone at the end


def test_a_partial_evaluation_says_how_many_characters():
    part = dataclasses.replace(EVALUATION, tokens=1_000_000, validation_tokens=9_999_999)
    display = PlainDisplay(300, io.StringIO())
    display.evaluation(part)
    line = display.stream.getvalue()
    assert "validation 1.8750, 2.705 bits/char (best, 1,000,000 of 9,999,999 characters)" in line


def test_a_long_evaluation_shows_its_progress():
    plain = PlainDisplay(300, io.StringIO(), interval=0.0)
    plain.evaluating(30, 20_000, 1_000_000)
    line = "step 30/300  evaluating: 20,000 of 1,000,000"
    assert plain.stream.getvalue() == line + "\n"
    live = make_display(300, Terminal())
    with live:
        live.evaluating(30, 20_000, 1_000_000)
    assert line in live.stream.getvalue()


@pytest.mark.parametrize("columns", [0, 1, 20, 40, 200, 10**30])
def test_the_live_line_shows_the_step_whatever_the_width(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", show(make_display(300, Terminal())))
    assert "step 30/300" in text and "train 1.7500" in text
    assert ("loss 1.500" in text) == (columns != 1 and columns != 20)


def test_control_characters_of_a_text_are_escaped_on_a_terminal():
    stream = Terminal()
    with make_display(300, stream) as display:
        display.sample(3, "a\x1b]0;title\x07b\r\x9bc\td")
    assert r"a\x1b]0;title\x07b\r\x9bc" in stream.getvalue()
    assert "\x07" not in stream.getvalue() and "\x9b" not in stream.getvalue()


def test_a_stream_without_isatty_gets_plain_lines():
    class Editor:
        def write(self, text): ...

        def flush(self): ...

    assert type(make_display(300, Editor())) is PlainDisplay


def test_encoding_shows_its_progress():
    plain = io.StringIO()
    with EncodingProgress(plain, interval=0.0) as progress:
        progress(262_144, 3_000_000)
    assert plain.getvalue() == "encoding the text: 262,144 of 3,000,000 characters\n"
    terminal = Terminal()
    with EncodingProgress(terminal) as progress:
        progress(262_144, 3_000_000)
        progress(3_000_000, 3_000_000)
    assert "encoding the text: 3,000,000 of 3,000,000 characters" in terminal.getvalue()
