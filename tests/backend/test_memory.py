"""The limit of a GPU's memory comes from the environment."""

import pytest

from tinyattn.backend.memory import gpu_memory_limit


def test_the_limit_is_given_in_gigabytes(monkeypatch):
    monkeypatch.delenv("TINYATTN_GPU_MEMORY", raising=False)
    assert gpu_memory_limit() is None
    monkeypatch.setenv("TINYATTN_GPU_MEMORY", "1.5")
    assert gpu_memory_limit() == 1_500_000_000


@pytest.mark.parametrize("text", ["all", "0", "-1", "inf", "nan"])
def test_what_is_no_amount_is_refused(monkeypatch, text):
    monkeypatch.setenv("TINYATTN_GPU_MEMORY", text)
    with pytest.raises(ValueError, match="TINYATTN_GPU_MEMORY must be a number of GB"):
        gpu_memory_limit()
