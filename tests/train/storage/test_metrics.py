"""What was measured can be read back, after a kill too."""

import json

import numpy as np

from tinyattn.train.picture import draw_loss, smooth
from tinyattn.train.storage.metrics import Metrics, read_metrics


def test_lines_hold_what_was_measured_and_nothing_else(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    metrics.append(1, loss=4.2, val_loss=None, grad_norm=float("inf"), learning_rate=1e-9)
    metrics.close()
    assert json.loads(path.read_text()) == {"step": 1, "loss": 4.2, "learning_rate": 1e-9}


def test_resumption_drops_the_steps_that_will_be_measured_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    for step in range(1, 8):
        metrics.append(step, loss=float(step))
    metrics.close()
    with open(path, "a") as file:
        file.write('{"step": 8, "lo')  # a kill in the middle of a line
    metrics = Metrics(path, keep=5)
    metrics.append(6, loss=60.0)
    metrics.close()
    assert [line["loss"] for line in read_metrics(path)] == [1, 2, 3, 4, 5, 60]


def test_smoothing_does_not_start_from_zero_and_follows():
    values = smooth([3.0] * 5 + [1.0] * 100)
    assert np.allclose(values[:5], 3.0)
    assert abs(values[-1] - 1.0) < 1e-3
    assert smooth([]) == []


def test_the_picture_is_a_png_even_before_any_evaluation(tmp_path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    for step in range(1, 4):
        metrics.append(step, loss=1.0 / step)
    metrics.close()
    draw_loss(
        tmp_path / "loss.png", read_metrics(tmp_path / "metrics.jsonl"), {"bigram": 0.5}, r"a $\no$"
    )
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_a_line_that_is_no_text_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 4.0}\n\xff\xfe\n{"step": 2, "loss": 3.0}\n')
    assert [line["step"] for line in read_metrics(path)] == [1, 2]
