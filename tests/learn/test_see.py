"""``see``: a learner's gradient next to the correct one, as text for every backward pass and as a page for softmax."""

import re
import xml.dom.minidom

import pytest

from tinyattn.data import InputError
from tinyattn.learn.exercise import PATH, Vjp, exercise
from tinyattn.learn.see import see

BACKWARD = [name for name in PATH if isinstance(exercise(name).parts[0], Vjp)]


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(directory, name, body):
    text = re.sub(r"raise NotImplementedError\(.*\)", body, exercise(name).file())
    (directory / f"{name}.py").write_text(text)


@pytest.mark.parametrize("name", BACKWARD)
def test_our_solution_agrees_and_another_differs(name, directory):
    write(directory, name, "return 0")
    lines = [
        f"from tinyattn.learn.exercise import exercise\n{part.name} = exercise({name!r}).parts[{i}].solution()\n"
        for i, part in enumerate(exercise(name).parts)
    ]
    wrong = [
        line
        + f"right_{i} = {part.name}\ndef {part.name}(*a, **k): return tuple(None if d is None else 2 * d "
        f"for d in right_{i}(*a, **k))\n"
        for i, (line, part) in enumerate(zip(lines, exercise(name).parts))
    ]
    (directory / f"{name}.py").write_text("".join(lines))
    text, agree = see(f"{name}.py")
    assert agree and "differs" not in text.lower()
    (directory / f"{name}.py").write_text("".join(wrong))
    text, agree = see(name)
    assert not agree and "differs" in text.lower()


def test_the_page_of_softmax_is_one_file_without_network_and_names_the_difference(directory):
    write(directory, "softmax", "return y * g")
    text, agree = see("softmax.py", output="bars.html")
    page = (directory / "bars.html").read_text()
    assert not agree and "bars.html" in text
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)
    assert "They differ by up to 0.087" in page and "prefers-color-scheme: dark" in page
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        xml.dom.minidom.parseString(drawing)
        for y in re.findall(r' y="(-?[\d.]+)"', drawing):
            assert 0 <= float(y) <= 150


def test_gradients_that_are_no_numbers_are_drawn_as_text(directory):
    write(directory, "softmax", "return y * np.nan")
    see("softmax")
    assert "nan" in (directory / "softmax.html").read_text()


def test_what_see_cannot_show_is_an_error(directory):
    write(directory, "graph", "return {}")
    with pytest.raises(InputError, match="no backward pass"):
        see("graph.py")
    write(directory, "gelu", "return g.nothing")
    text, agree = see("gelu.py")
    assert not agree and "AttributeError" in text and "Traceback" not in text
    with pytest.raises(InputError, match="only softmax has a page"):
        see("gelu.py", output="x.html")
