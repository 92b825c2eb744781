"""The pictures of losses are drawn for any title, in the unit of the run."""

import warnings

import pytest

figure_module = pytest.importorskip("matplotlib.figure")

from tinyattn.train import picture  # noqa: E402

LINES = [
    {"step": 1, "loss": 5.0},
    {"step": 2, "loss": 4.0, "bits_per_character": 3.0},
    {"step": 2, "val_loss": 4.5, "val_bits_per_character": 3.0},
]


@pytest.fixture
def drawn(monkeypatch):
    """The axes of each picture."""
    figures = []
    original = figure_module.Figure.savefig

    def savefig(figure, *arguments, **options):
        figures.append(figure)
        original(figure, *arguments, **options)

    monkeypatch.setattr(figure_module.Figure, "savefig", savefig)
    return figures


def test_control_characters_in_a_title_are_escaped(tmp_path, drawn, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture.draw_loss(tmp_path / "loss.png", LINES, title="a\x1b[2Jb\x07 $x$")
        picture.draw_comparison(tmp_path / "two.png", {"one": LINES}, title="\x00")
    assert drawn[0].axes[0].get_title() == r"a\x1b[2Jb\x07 $x$"
    assert drawn[1].axes[0].get_title() == r"\x00"
    assert capfd.readouterr().err == ""


def test_the_axis_on_the_right_is_in_bits_per_character(tmp_path, drawn):
    picture.draw_loss(tmp_path / "loss.png", LINES, unit="token")
    axes = drawn[0].axes[0]
    assert axes.get_ylabel() == "loss (nats per token)"
    (right,) = axes.child_axes
    assert right.get_ylabel() == "bits per character"
    lowest, highest = axes.get_ylim()
    assert right.get_ylim() == pytest.approx((lowest * 3 / 4.5, highest * 3 / 4.5))


def test_metrics_of_earlier_versions_have_no_axis_in_bits(tmp_path, drawn):
    picture.draw_loss(
        tmp_path / "loss.png", [{"step": 1, "loss": 2.0}, {"step": 1, "val_loss": 2.0}]
    )
    assert not drawn[0].axes[0].child_axes
