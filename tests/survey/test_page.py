"""The page is one file without network access, and shows what the survey found."""

import re
import xml.dom.minidom

import pytest

from tests.study.browser import running_browser
from tinyattn.survey.curve import step_curve
from tinyattn.survey.page import page
from tinyattn.survey.primitives import check_primitive, versions
from tinyattn.survey.row import Row


@pytest.fixture(scope="module")
def text():
    names = ("softmax", "add")
    rows = [check_primitive(name, version) for name in names for version in versions(name)]
    rows.append(Row("wrong", "block", cases=1, faults=["the gradient of <b> is wrong"]))
    curves = [step_curve("softmax"), step_curve("add")]
    return page(rows, curves, "WRONG: 1 of 5", False, "float64 & more")


def test_it_needs_no_network(text):
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)


def test_it_shows_every_row_and_curve_and_fault(text):
    assert text.count("<tr>") == 1 + 5
    assert text.count("<figure") == 2 and 'href="#softmax"' in text
    assert "the gradient of &lt;b&gt; is wrong" in text and "float64 &amp; more" in text


def test_its_drawings_are_well_formed_and_inside_their_frame(text):
    for drawing in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        xml.dom.minidom.parseString(drawing)
        assert "nan" not in drawing and "inf" not in drawing
        width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing).groups())
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", drawing):
            assert 0 <= float(x) <= width and 0 <= float(y) <= height


def test_it_has_a_light_and_a_dark_theme(text):
    assert "prefers-color-scheme: dark" in text and "color-scheme: light dark" in text


def test_the_curve_has_its_minimum_between_truncation_and_rounding():
    curve = step_curve("softmax")
    step, error = curve.best
    assert 1e-7 < step < 1e-4 and error < 1e-9
    assert curve.complex_step < 1e-14
    assert curve.truncates and not step_curve("add").truncates


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_number_of_the_table_is_cut_off(text, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    with running_browser() as browser:
        tab = browser.new_page(viewport={"width": width, "height": 800})
        tab.goto(path.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        cut = tab.evaluate(
            "[...document.querySelectorAll('td')].filter((cell) => {"
            "  const box = cell.getBoundingClientRect();"
            "  return box.left < 0 || box.right > innerWidth || cell.scrollWidth > cell.clientWidth + 1;"
            "}).map((cell) => cell.textContent)"
        )
        assert cut == []
        named = tab.evaluate(
            "getComputedStyle(document.querySelector('td[data-name=relative]'), '::before').content"
        )
        assert named == ('"relative"' if width < 700 else "none")
