"""HTML representation of tensors: small, escaped, and in the colors of the page."""

import html.parser
import re

import numpy as np
import pytest

import tinyattn as ta


class Balanced(html.parser.HTMLParser):
    """Collects the text, and fails where a tag is left open."""

    def __init__(self, content):
        super().__init__()
        self.open, self.text, self.tags = [], "", []
        self.feed(content)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(tensor):
    return Balanced(tensor._repr_html_())


def test_it_says_what_the_tensor_is_and_shows_its_numbers(device):
    x = ta.tensor([[1.0, 2.5], [-3.25, 1e-9]], requires_grad=True, device=device)
    page = shown(x)
    assert f"Tensor shape (2, 2), float32 on {device}, requires a gradient" in page.text
    assert [page.tags.count(tag) for tag in ("tr", "td")] == [2, 4]
    for number in ("2.5", "-3.25", "1e-09"):
        assert number in page.text
    assert "made by mul" in shown(x * 2).text
    assert "Parameter" in shown(ta.nn.Parameter(1.0)).text


@pytest.mark.parametrize(
    "shape", [(), (3,), (0,), (2, 0), (1000,), (300, 400), (2, 3, 4), (20, 30, 40, 5)]
)
@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "bool", "complex64"])
def test_tensors_of_every_shape_stay_small(shape, dtype):
    x = ta.tensor(np.ones(shape, dtype))
    assert len(x._repr_html_()) < 10_000
    assert str(shape) in shown(x).text and dtype in shown(x).text


def test_of_a_large_matrix_the_edges_are_shown():
    text = shown(ta.arange(400).reshape(20, 20)).text
    assert "399" in text and "…" in text and "210" not in text


def test_the_colors_are_those_of_the_page():
    for x in (ta.ones((2, 2)), ta.ones((2, 2, 2))):
        colors = re.findall(r"(?:color|background)[^:;\"]*:([^;\"]*)", x._repr_html_())
        assert set(colors) == {"inherit", "none"}


def test_text_is_escaped():
    class Odd(ta.Tensor):
        pass

    Odd.__name__ = "<script>"
    assert "<script>" not in Odd([1.0])._repr_html_() and "<script>" in shown(Odd([1.0])).text
