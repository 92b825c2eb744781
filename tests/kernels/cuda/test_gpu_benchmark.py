"""The GPU benchmark: its JSON file is complete after each section, even if the section fails."""

import json

import pytest

from benchmarks import gpu
from benchmarks.gpu_sections.session import PRECISIONS
from tests.kernels.cuda.tools import need_compiler
from tinyattn.kernels.cuda import simulated_kernels

need_compiler()


@pytest.fixture
def session(tmp_path):
    with simulated_kernels():
        yield gpu.Session("strict", 60, tmp_path / "results" / "gpu.json", rehearse=True)


def written(session):
    return json.loads(session.path.read_text())


def test_the_file_is_complete_after_each_section_even_one_that_fails(session):
    def fails(_):
        raise RuntimeError("no such kernel")

    session.run(fails)
    assert written(session)["fails"]["error"] == "RuntimeError: no such kernel"
    session.run(gpu.matrix_peak)
    assert set(written(session)) == {"rehearsal", "machine", "gpu", "fails", "matrix_peak"}
    assert set(written(session)["matrix_peak"]["tflops"]) == set(PRECISIONS)


def test_a_section_beyond_the_budget_is_left_out_by_name(session):
    session.ends = 0
    session.run(gpu.attention)
    assert written(session)["attention"] == {"left_out": "the budget was spent"}


def test_a_profile_counts_the_launches_by_name(session):
    session.run(gpu.profile)
    result = written(session)["profile"]
    assert result["launches"]["attention_forward"] == 1 and result["kernels"] > 50


def test_without_a_gpu_nothing_is_measured(tmp_path, capsys):
    path = tmp_path / "gpu.json"
    assert gpu.main(["--device", "cuda:99", "--json", str(path)]) == 2
    assert "nothing is measured" in capsys.readouterr().err and not path.exists()
