"""The default number of workers respects CPU affinity, container quotas and OMP_NUM_THREADS."""

import math
import os

import pytest

from tinyattn.train.parallel import cores


def groups(tmp_path, membership, files):
    """A list of control groups, and a tree of mounted ones."""
    (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return tmp_path / "cgroup", tmp_path / "mount"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, math.inf),
        ({"cpu.max": "150000 100000"}, 1.5),  # the root that a container sees
        ({"cpu.max": "max 100000"}, math.inf),
        ({"job/cpu.max": "max 100000", "job/task/cpu.max": "300000 100000"}, 3),
        ({"job/cpu.max": "50000 100000", "job/task/cpu.max": "300000 100000"}, 0.5),
        ({"other/cpu.max": "50000 100000"}, math.inf),
        ({"cpu.max": "50000 0", "job/cpu.max": "nonsense"}, math.inf),
    ],
)
def test_the_quota_of_cgroup_v2_is_the_smallest_of_a_group_and_its_ancestors(
    tmp_path, files, expected
):
    assert cores.cgroup_quota(*groups(tmp_path, "0::/job/task\n", files)) == expected


@pytest.mark.parametrize("directory", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("quota", "expected"), [("200000", 2), ("-1", math.inf)])
@pytest.mark.parametrize("group", ["", "docker/1"])
def test_the_quota_of_cgroup_v1_is_that_of_the_cpu_controller(
    tmp_path, directory, quota, expected, group
):
    files = {
        f"{directory}/{group}/cpu.cfs_quota_us": quota,
        f"{directory}/{group}/cpu.cfs_period_us": "100000",
    }
    membership = "12:memory:/x\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/a:b\n0::/\n"
    assert cores.cgroup_quota(*groups(tmp_path, membership, files)) == expected


def test_a_system_without_control_groups_has_no_quota(tmp_path):
    assert cores.cgroup_quota(tmp_path / "nothing", tmp_path) == math.inf


@pytest.mark.parametrize(
    ("affinity", "quota", "variable", "expected"),
    [
        (8, math.inf, None, 8),
        (8, math.inf, "3", 3),
        (8, math.inf, "4,2", 4),
        (2, math.inf, "64", 2),
        (8, math.inf, "0", 8),
        (8, math.inf, "many", 8),
        (8, 2.0, None, 2),
        (8, 1.4, None, 1),
        (8, 1.5, None, 2),
        (8, 0.2, None, 1),
        (8, 4.0, "1", 1),
    ],
)
def test_the_least_of_affinity_quota_and_omp_num_threads_counts(
    affinity, quota, variable, expected, monkeypatch
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(affinity)), raising=False)
    monkeypatch.setattr(cores, "cgroup_quota", lambda: quota)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert cores.available_cores() == expected
