"""docs/gradcheck.md names every key of the JSON, and the options of the command."""

import dataclasses
import re
from pathlib import Path

import numpy as np

from tinyattn.checker import gradient_report
from tinyattn.checker.report import Finding, Kink, Precision
from tinyattn.cli import main

TEXT = (Path(__file__).parents[1] / "docs" / "gradcheck.md").read_text(encoding="utf-8")


def keys_of_table(head):
    """The keys in the first column of the table that begins with ``head``."""
    rows = TEXT.partition(f"| {head} | meaning |")[2].partition("\n\n")[0].splitlines()[2:]
    return {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}


def keys_of_row(head, key):
    (row,) = [
        line
        for line in TEXT.partition(f"| {head} |")[2].splitlines()
        if line.startswith(f"| `{key}` |")
    ][:1]
    return set(re.findall(r"`(\w+)`", row.split("|")[2]))


def test_the_schema_has_every_key_and_no_other():
    report = gradient_report((np.sin, lambda g, x: g), [np.ones(3)], curves=True)
    document = report.to_json()
    (argument,) = document["arguments"]
    assert set(document) == keys_of_table("key of the report")
    assert set(argument) == keys_of_table("key of an argument")
    assert set(argument["worst"][0]) == keys_of_table("key of an element")
    assert set(argument["ladder"]) == keys_of_table("key of a ladder")


def test_the_schema_has_the_keys_of_findings_kinks_and_precision():
    for kind, head, key in [
        (Finding, "key of the report", "findings"),
        (Kink, "key of an argument", "kinks"),
        (Precision, "key of an argument", "precision"),
    ]:
        fields = {field.name for field in dataclasses.fields(kind)}
        assert fields <= keys_of_row(head, key)


def test_its_options_exist(capsys):
    assert main(["gradcheck", "--help"]) == 0
    known = capsys.readouterr().out
    table = TEXT.partition("| option | meaning |")[2].partition("\n\n")[0]
    for option in re.findall(r"`(--\w+)", table):
        assert option in known
