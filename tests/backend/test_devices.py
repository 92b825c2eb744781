"""The devices of the other tests: every test with the fixture ``device`` runs on a GPU too, where there is one."""

import pytest

from tests.conftest import DEVICES, missing


@pytest.mark.gpu
def test_there_is_a_gpu_to_test_on():
    reason = missing("cuda")
    if reason is not None:
        pytest.skip(f"the tests run on {' and '.join(DEVICES)} only: {reason}")
    assert len(DEVICES) == 3


@pytest.mark.parametrize("name", ["cpu", "strict"])
def test_devices_that_need_numpy_only_are_always_there(name):
    assert missing(name) is None
