"""What a run shows: one live line in a terminal, plain lines elsewhere."""

import io

from tinyattn.cli.display import LiveDisplay, PlainDisplay, make_display
from tinyattn.train.trainer import EvaluationReport, StepReport

STEP = StepReport(
    step=30,
    loss=1.5,
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
    validation_loss=1.875,
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


def test_an_evaluation_stands_next_to_what_counting_achieves():
    text = show(PlainDisplay(300, io.StringIO(), interval=0.0))
    assert "step 30/300  loss 1.500  smoothed 1.750  12,346 tokens/s  1:30 left\n" in text
    assert (
        "step 30/300  train 1.7500  validation 1.8750 (best)  unigram 3.347  bigram 2.484  [1:01]\n"
        in text
    )
    assert text.endswith("--- a sample after step 30\nROMEO:\n[bold]What[/bold] :smile:\n---\n")


def test_steps_come_at_most_every_few_seconds_where_it_is_no_terminal():
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
