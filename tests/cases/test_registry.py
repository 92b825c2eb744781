"""Every hard case has a test with its id in the name."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
IDS = (HERE / "ids.txt").read_text().split()
TEST_OF_A_CASE = re.compile(r"^\s*def test_([A-Z]{2})_(\d\d)_", re.MULTILINE)


@pytest.fixture(scope="module")
def tested():
    found = set()
    for path in TESTS.rglob("test_*.py"):
        found.update("-".join(parts) for parts in TEST_OF_A_CASE.findall(path.read_text()))
    return found


@pytest.mark.parametrize("case", IDS)
def test_the_case_has_a_test_named_by_its_id(case, tested):
    assert case in tested, f"write test_{case.replace('-', '_')}_... under tests/"


def test_no_test_bears_an_id_that_is_no_case(tested):
    assert tested <= set(IDS)
