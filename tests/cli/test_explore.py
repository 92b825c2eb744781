"""``tinyattn explore``, and the pages that commands write."""

import os

import pytest


def test_explore_writes_a_page(call, trained, tmp_path):
    answer = call("explore", trained, "--text", "the fox", "-o", "page.html")
    assert answer.status == 0, answer.error
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_positions_may_count_from_the_end(call, trained):
    answer = call(
        "explore", trained, "--text", "the fox", "--positions", "-2,-3", "-o", "page.html"
    )
    assert answer.status == 0 and "2 single characters" in answer.output, answer


@pytest.mark.parametrize(
    "words, message",
    [
        (["--text", "- ☃"], "☃"),
        (["--text", "the ☃"], "☃"),
        (["--text", "the", "-o", "."], "--output . is a directory: give a file name"),
        (["--text", "the", "-o", "nowhere/page.html"], "there is no directory nowhere"),
        (
            ["--text", "the fox jumps"],
            "13 characters, and the model's block size is 8: give a shorter text, or",
        ),
        (["--text", "the fox jumps"], "truncate it to its first 8 characters (--cut)"),
        (["--megabytes", "0"], "--megabytes must be above 0"),
    ],
)
def test_explore_refuses_in_one_sentence(refuse, trained, words, message):
    assert message in refuse("explore", trained, *words)


def test_a_long_text_is_truncated_with_cut(call, trained):
    answer = call("explore", trained, "--text", "the fox jumps", "--cut", "-o", "page.html")
    assert answer.status == 0 and "on 8 characters" in answer.output
    answer = call("explore", trained, "--text", "the", "--cut", "-o", "page.html")
    assert answer.status == 0 and "on 3 characters" in answer.output


@pytest.mark.parametrize("found", [True, False])
def test_the_page_is_opened_with_open(call, trained, tmp_path, monkeypatch, found):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or found)
    words = ["explore", trained, "--text", "the fox", "-o", "a page.html"]
    assert call(*words).status == 0 and not opened
    answer = call(*words, "--open")
    assert answer.status == 0 and opened == [(tmp_path / "a page.html").as_uri()]
    assert answer.error == ("" if found else "no web browser found: open a page.html in one\n")


def test_explore_needs_a_run(refuse, tmp_path):
    assert "is not a run" in refuse("explore", tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="POSIX links and modes")
@pytest.mark.parametrize("name", ["explore", "gradcheck"])
def test_a_page_is_written_to_the_target_of_a_link_and_keeps_its_mode(
    call, trained, tmp_path, name
):
    target, link = tmp_path / "target.html", tmp_path / "page.html"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    words = {
        "explore": ["explore", trained, "--text", "quick", "-o", link],
        "gradcheck": ["gradcheck", "--op", "relu", "--html", link],
    }[name]
    assert call(*words).status == 0
    assert link.is_symlink() and "<html" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["explore", "gradcheck"])
def test_a_full_disk_keeps_the_old_page(refuse, trained, tmp_path, monkeypatch, name):
    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    page = tmp_path / "page.html"
    page.write_text("old")
    monkeypatch.setattr("tinyattn.data.atomic._write_through", full)
    words = {
        "explore": ["explore", trained, "--text", "quick", "-o", page],
        "gradcheck": ["gradcheck", "--op", "relu", "--html", page],
    }[name]
    answer = refuse(*words)
    assert "No space left on device" in answer
    assert page.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
