"""Mutants in copies of source files."""

import ast
import sys

import pytest

from tinyattn.mutation.sources import ProjectCopy, _with_body

SOURCE = '''import functools

def one(x): return x


class Rule:
    @staticmethod
    @functools.cache
    def back(
        x,  # the input
    ):
        """Its docstring."""
        if x:
            return x
        return -x

    def more(self):
        return 1
'''


def test_only_the_body_of_the_function_changes():
    body = ast.parse("y = 3\nreturn y").body
    changed = _with_body(SOURCE, "back", SOURCE.splitlines().index("    @staticmethod") + 1, body)
    assert "        x,  # the input\n    ):\n        y = 3\n        return y\n" in changed
    assert "docstring" not in changed and "def more" in changed and "@functools.cache" in changed
    ast.parse(changed)
    changed = _with_body(SOURCE, "one", 3, body)
    assert "def one(x): \n    y = 3\n    return y\n" in changed
    ast.parse(changed)


def test_a_command_runs_on_the_copy_and_the_original_stays(tmp_path):
    path = tmp_path / "rule.py"
    path.write_text("value = 1\n")
    (tmp_path / ".hidden").mkdir()
    command = f"{sys.executable} -c \"import rule, os; assert not os.path.exists('.hidden'); "
    command += "open('written', 'w'); raise SystemExit(rule.value)\""
    with ProjectCopy(path, root=tmp_path) as copy:
        assert copy.run(command, timeout=60) == 1
        copy._write("value = 0\n")
        assert copy.run(command, timeout=60) == 0
    assert path.read_text() == "value = 1\n" and not (tmp_path / "written").exists()


def test_a_command_that_does_not_end_is_stopped(tmp_path):
    (tmp_path / "rule.py").write_text("")
    with ProjectCopy(tmp_path / "rule.py", root=tmp_path) as copy:
        assert copy.run("sleep 60 | sleep 60", timeout=0.2) is None


def test_a_large_directory_is_refused(tmp_path, monkeypatch):
    (tmp_path / "rule.py").write_text("x" * 2000)
    monkeypatch.setattr("tinyattn.mutation.sources.LARGEST", 1000)
    with pytest.raises(ValueError, match="run the command in a smaller directory"):
        with ProjectCopy(tmp_path / "rule.py", root=tmp_path):
            pass
