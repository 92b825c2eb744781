"""Chromium driven by Playwright, shared by the tests of the page."""

import shutil
from contextlib import contextmanager

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def running_browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on the path: the page is not tried in a browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser, path, fragment="", **options):
    """Open the page at ``path``; on exit, check that it made no requests and logged no errors."""
    options = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **options}
    tab = browser.new_page(**options)
    complaints, requests, dialogs = [], [], []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    tab.goto(path.as_uri() + fragment)
    tab.wait_for_selector("html[data-ready]", timeout=20_000)
    try:
        yield tab
    finally:
        tab.close()
    assert complaints == []
    assert dialogs == []
    assert [url for url in requests if url.partition("#")[0] != path.as_uri()] == []


def wait_until(tab, expression):
    """Poll ``expression``: Playwright's waiting needs eval, which the content security policy forbids."""
    for _ in range(200):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(25)
    raise AssertionError(f"still not so after 5 seconds: {expression}")
