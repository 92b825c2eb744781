"""Metrics can be read back, also after a kill."""

import json

import numpy as np
import pytest

from tinyattn.data import InputError
from tinyattn.train.picture import draw_loss, smooth
from tinyattn.train.storage.errors import DamagedFileError
from tinyattn.train.storage.metrics import Metrics, read_metrics


def test_lines_contain_finite_quantities_only(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    metrics.append(1, loss=4.2, val_loss=None, grad_norm=float("inf"), learning_rate=1e-9)
    metrics.close()
    assert json.loads(path.read_text()) == {"step": 1, "loss": 4.2, "learning_rate": 1e-9}


def test_resumption_removes_lines_of_later_steps(tmp_path):
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


def test_the_moving_average_is_not_biased_towards_zero():
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


def test_a_truncated_line_is_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 4.0}\n\xff\xfe\n{"step": 2, "loss": 3.0}\n')
    assert [line["step"] for line in read_metrics(path)] == [1, 2]


def written(path, *losses):
    metrics = Metrics(path)
    marks = []
    for step, loss in enumerate(losses, start=1):
        metrics.append(step, loss=loss)
        marks.append(metrics.mark())
    metrics.close()
    return marks


def test_a_file_is_truncated_at_the_mark_of_the_state(tmp_path):
    path = tmp_path / "metrics.jsonl"
    marks = written(path, 4.0, 3.0, 2.0)
    assert marks[-1]["bytes"] == path.stat().st_size
    metrics = Metrics(path, mark=marks[1])
    metrics.append(3, loss=2.5)
    assert metrics.mark()["bytes"] == marks[2]["bytes"]
    metrics.close()
    assert [line["loss"] for line in read_metrics(path)] == [4.0, 3.0, 2.5]


def test_a_file_changed_since_the_state_was_saved_is_rejected(tmp_path):
    path = tmp_path / "metrics.jsonl"
    marks = written(path, 4.0, 3.0, 2.0)
    content = path.read_bytes()
    for damaged in (content.replace(b"4.0", b"5.0"), content[:10], b""):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=r"metrics\.jsonl is damaged .*move it away"):
            Metrics(path, mark=marks[1])
        assert path.read_bytes() == damaged
    path.unlink()
    Metrics(path, mark=marks[1]).close()  # moved away, as was said


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"step": null, "loss": 1.0}', "'step' must be a whole number, given 'None'"),
        ('{"step": "x"}', "'step' must be a whole number"),
        ('{"step": 1.5}', "'step' must be a whole number"),
        ('{"step": true}', "'step' must be a whole number"),
        ('{"step": 2, "loss": "x"}', "'loss' must be a finite number, given 'x'"),
        ('{"step": 2, "val_loss": NaN}', "'val_loss' must be a finite number"),
        ('{"step": 2, "loss": [1]}', "'loss' must be a finite number"),
        ('{"step": 2, "loss": 1' + "0" * 400 + "}", "'loss' must be a finite number"),
    ],
)
def test_an_invalid_value_is_reported_with_its_line(tmp_path, line, message):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 4.0}\n' + line + "\n")
    with pytest.raises(InputError, match=rf"metrics\.jsonl, line 2: {message}"):
        read_metrics(path)


def test_a_line_nested_too_deeply_is_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 4.0}\n' + "[" * 100_000 + "\n")
    assert [line["step"] for line in read_metrics(path)] == [1]
