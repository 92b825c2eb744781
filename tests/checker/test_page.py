"""The page of a report."""

import html
import shutil

import numpy as np
import pytest

from tinyattn.checker import gradient_report
from tinyattn.checker.page import report_page
from tinyattn.checker.report import Finding


def report(backward=lambda g, x: g * np.cos(x), **settings):
    arrays = [np.random.default_rng(0).standard_normal((3, 4))]
    return gradient_report((np.sin, backward), arrays, curves=True, **settings)


def wrong(g, x):
    dx = g * np.cos(x)
    dx[1, 2] *= 1.01
    return dx


def test_a_wrong_gradient_is_shown_in_error_bars_with_its_step_curve_and_call():
    checked = report(wrong)
    page = report_page(checked)
    assert 'class="verdict bad">Wrong: 12 elements checked, 1 wrong' in page
    assert "<td>[1, 2]</td>" in page and 'class="bad">wrong</td>' in page
    assert page.count('class="double" d="M') == 2  # the curve, and its key
    assert page.count('<path class="bar"') == 2  # the band of the error bar, and its key
    assert checked.call in html.unescape(page) and "curves" not in checked.call


def test_findings_are_listed_and_text_is_escaped():
    checked = report()
    checked.findings = [Finding("keeps state", None, "a < b")]
    checked.function = "<f>"
    page = report_page(checked)
    assert "<strong>keeps state</strong>: a &lt; b" in page
    assert "The gradient of &lt;f&gt;" in page


@pytest.mark.parametrize("settings", [{"mode": "fast"}, {"oracle": "complex"}])
def test_reports_without_a_ladder_have_a_page(settings):
    assert report_page(report(**settings)).endswith("</html>\n")
    assert report_page(report(wrong, mode="fast")).endswith("</html>\n")


def test_infinite_slopes_and_constants_have_a_page():
    with np.errstate(all="ignore"):
        checked = gradient_report(
            (lambda x: 1e300 * x + 0 * x, lambda g, x: np.inf * g), np.ones(2), curves=True
        )
    assert report_page(checked).endswith("</html>\n")
    linear = gradient_report((lambda x: x, lambda g, x: g.copy()), np.zeros(2), curves=True)
    assert report_page(linear).endswith("</html>\n")


def test_it_fits_a_phone(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or pytest.skip("chromium is not installed")
    path = tmp_path / "page.html"
    path.write_text(report_page(report(wrong)), encoding="utf-8")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 390, "height": 844})
        tab.goto(path.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        browser.close()
