"""The number of CPU cores available to this process."""

import math
import os
from pathlib import Path


def available_cores():
    """The number of CPU cores this process may use, at least 1.

    The minimum of the cores of its CPU affinity, the CPU quota of its container (rounded to whole cores), and
    ``OMP_NUM_THREADS`` if that is set.

    >>> available_cores() >= 1
    True
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this operating system
        cores = os.cpu_count() or 1
    limits = [cores, cgroup_quota() + 0.5]
    # OMP_NUM_THREADS is a list, with one number per nesting level.
    threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if threads.isdecimal() and int(threads) > 0:
        limits.append(int(threads))
    return max(1, math.floor(min(limits)))


def cgroup_quota(membership="/proc/self/cgroup", mount="/sys/fs/cgroup"):
    """The smallest CPU quota of this process's control group and its ancestors, in cores; infinity if there is none.

    Args:
        membership: file that lists the process's control groups.
        mount: directory where they are mounted: version 2, or version 1 with a directory per controller.

    Source: the Linux kernel's documentation, cgroup-v2 (``cpu.max``) and sched-bwc (``cpu.cfs_quota_us``).
    """
    try:
        lines = Path(membership).read_text().splitlines()
    except OSError:  # not on this operating system
        return math.inf
    quotas = [math.inf]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        parts = path.strip("/").split("/")
        for root in {Path(mount, controllers), Path(mount, "cpu" if controllers else "")}:
            # In a container, the root may be the container's group, while the path is relative to the host's root.
            quotas += [_quota(root.joinpath(*parts[:depth])) for depth in range(len(parts) + 1)]
    return min(quotas)


def _quota(directory):
    """The quota of one control group, in cores."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        try:
            quota, period = " ".join((directory / name).read_text() for name in names).split()
            if int(quota) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError, ZeroDivisionError):  # no such file, or no quota: "max"
            continue
    return math.inf
