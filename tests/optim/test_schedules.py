"""Learning-rate schedules at the ends of warmup and decay."""

import numpy as np
import pytest

from tinyattn.optim import schedules


def rates(schedule, steps, **options):
    found = [schedule(step, **options) for step in steps]
    assert all(type(rate) is float for rate in found)
    return found


def test_cosine_rises_falls_and_stays():
    options = {"peak": 1e-3, "minimum": 1e-4, "warmup": 100, "decay": 2000}
    found = rates(schedules.warmup_cosine, [0, 99, 100, 1050, 2000, 5000], **options)
    expected = [1e-3 / 101, 1e-3 * 100 / 101, 1e-3, 5.5e-4, 1e-4, 1e-4]
    np.testing.assert_allclose(found, expected)


def test_linear_falls_evenly():
    found = rates(schedules.warmup_linear, range(6), peak=1.0, minimum=0.2, decay=4)
    np.testing.assert_allclose(found, [1.0, 0.8, 0.6, 0.4, 0.2, 0.2])


@pytest.mark.parametrize(("shape", "middle"), [("linear", 0.5), ("cosine", 0.5)])
def test_trapezoid_is_level_until_its_last_part(shape, middle):
    options = {"peak": 1.0, "decay": 100, "warmup": 10, "decay_share": 0.4, "shape": shape}
    found = rates(schedules.trapezoid, [0, 10, 59, 60, 80, 100, 101], **options)
    np.testing.assert_allclose(found, [1 / 11, 1, 1, 1, middle, 0, 0], atol=1e-15)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_trapezoid_at_the_ends_of_its_share(share):
    found = rates(schedules.trapezoid, [0, 5, 9, 10, 11], peak=1.0, decay=10, decay_share=share)
    expected = [1, 1, 1, 1, 0] if share == 0 else [1, 0.5, 0.1, 0, 0]
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_an_unknown_shape_is_refused():
    with pytest.raises(ValueError, match="'square'"):
        schedules.trapezoid(0, peak=1.0, decay=2, shape="square")


@pytest.mark.parametrize("name", ["warmup_cosine", "warmup_linear", "trapezoid", "constant"])
def test_numbers_of_numpy_give_python_floats(name):
    options = {} if name == "constant" else {"decay": np.int64(10)}
    schedule = getattr(schedules, name)
    for step in range(12):
        assert type(schedule(np.int64(step), peak=np.float32(1), warmup=3, **options)) is float
