"""Figures: contents, file formats, and errors."""

import json

import numpy as np
import pytest

import tinyattn as ta
from tests.study.test_observation import TEXT, VOCABULARY, make_model

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("overlay", ["P", "S", "dP", "dS", "PdP"])
def test_attention_maps_show_the_numbers_of_every_head(overlay):
    model = make_model()
    picture = ta.study.attention_maps(model, TEXT, overlay, vocabulary=VOCABULARY)
    seen = ta.study.observe(model, TEXT, vocabulary=VOCABULARY)
    expected = {
        "P": seen.weights,
        "S": seen.scores,
        "dP": seen.gradient,
        "dS": seen.score_gradient,
        "PdP": seen.weights * seen.gradient,
    }[overlay]
    images = [axes.images[0] for axes in picture.figure.axes if axes.images]
    assert len(images) == 4
    for image, numbers in zip(images, expected.reshape(4, len(TEXT), len(TEXT))):
        shown = np.ma.filled(image.get_array(), np.nan)
        np.testing.assert_allclose(shown[seen.allowed], numbers[seen.allowed], atol=1e-12)
        assert np.isnan(shown[~seen.allowed]).all()
    assert picture._repr_png_().startswith(PNG)


def test_an_unknown_overlay_is_refused():
    with pytest.raises(ValueError, match="P, S, dP, dS, PdP"):
        ta.study.attention_maps(make_model(), TEXT, "Q", vocabulary=VOCABULARY)


def test_a_head_report_prints_draws_and_lists(tmp_path):
    report = ta.study.head_report(make_model(), TEXT, vocabulary=VOCABULARY)
    assert report.shares["neighbor"].shape == (2, 2)
    assert len(str(report).splitlines()) == 6
    assert report._repr_html_().count("<tr>") == 5
    report.save(tmp_path / "heads.png")
    assert (tmp_path / "heads.png").read_bytes().startswith(PNG)


def test_a_loss_curve_is_drawn_from_metrics(tmp_path):
    lines = [
        {"step": s, "loss": 4 - s / 10, **({"val_loss": 3.0} if s % 5 == 0 else {})}
        for s in range(10)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    axes = ta.study.loss_curve(tmp_path).figure.axes[0]
    assert axes.lines[0].get_ydata().tolist() == [line["loss"] for line in lines]
    assert axes.lines[1].get_xdata().tolist() == [0, 5]
    assert axes.get_ylabel() == "loss (nats per token)"
    (tmp_path / "vocab.json").write_text('{"tokenizer": "bytes"}')
    for run in (tmp_path, tmp_path / "metrics.jsonl"):
        axes = ta.study.loss_curve(run).figure.axes[0]
        assert axes.get_ylabel() == "loss (nats per byte)"
    with pytest.raises(FileNotFoundError, match=r"metrics\.jsonl"):
        ta.study.loss_curve(tmp_path / "none")


def test_saving_as_something_else_names_the_endings(tmp_path):
    report = ta.study.head_report(make_model(), TEXT, vocabulary=VOCABULARY)
    with pytest.raises(ValueError, match=r"\.png or \.svg"):
        report.save(tmp_path / "heads.pdf")
