"""``tinyattn bench``: listing, results, and errors."""

import importlib
import json
import sys

import pytest

from tinyattn.cli import bench
from tinyattn.data import InputError


def test_without_a_name_it_lists_the_benchmarks(capsys):
    assert bench.run(None) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(importlib.import_module("benchmarks").NAMES)


def test_every_benchmark_that_is_listed_can_be_run():
    bench.run(None)
    for name in importlib.import_module("benchmarks").NAMES:
        assert callable(importlib.import_module(f"benchmarks.{name}").run), name


def test_an_unknown_name_is_a_usage_error():
    with pytest.raises(InputError, match="unknown benchmark 'nothing': expected one of"):
        bench.run("nothing")


def test_an_installed_package_refers_to_the_repository(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "SOURCE", tmp_path)
    with pytest.raises(InputError, match="checkout"):
        bench.run(None)


def test_libraries_are_measured_in_turns_and_missing_ones_are_named(capsys):
    bench.run(None)
    race = importlib.import_module("benchmarks.race")
    results = race.race("tape", ["numpy", "nobody"], {}, rounds=2, calls=3)
    assert results["numpy"]["calls"] == 6
    assert results["numpy"]["median_ms"] > 0
    assert "missing" in results["nobody"]
    assert "skipping nobody" in capsys.readouterr().out


def test_results_are_written_as_json(monkeypatch, tmp_path, capsys):
    bench.run(None)
    tape = importlib.import_module("benchmarks.tape")
    monkeypatch.setattr(tape, "run", lambda quick: {"results": {"quick": quick}})
    assert bench.run("tape", quick=True, output=tmp_path / "tape.json") == 0
    written = json.loads((tmp_path / "tape.json").read_text())
    assert written["benchmark"] == "tape" and written["results"] == {"quick": True}
    assert written["machine"]["python"] == sys.version.split()[0]
