"""No file of the repository contains a path or a host that exists on one machine only."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Written in pieces, so that this file passes its own test.
ONE_MACHINE = ["/" + name + "/" for name in ("work", "home", "root", "Users")]
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "yarn" + "pkg.com",
    "deb." + "debian.org",
    "conda." + "anaconda.org",
    "download." + "pytorch.org",
    "index" + "-url",
]
FORBIDDEN = re.compile(
    "|".join(
        [rf"(?<![\w.$}}*-]){re.escape(path)}" for path in ONE_MACHINE]
        + [re.escape(host) for host in REGISTRIES]
    )
)


def tracked_files():
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the tree is not a git checkout, so nothing says which files belong to it")
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_path_of_one_machine_or_a_registry_host():
    found = []
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" in content[:8192]:
            continue  # a picture, a font: no text
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            if match := FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match.group()}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text", ["see " + ONE_MACHINE[0] + "x", "https://" + REGISTRIES[0] + "/simple"]
)
def test_the_guard_sees_what_it_guards_against(text):
    assert FORBIDDEN.search(text)


def test_the_guard_leaves_ordinary_text_alone():
    assert not FORBIDDEN.search("frame" + ONE_MACHINE[0] + "x and ${dir}" + ONE_MACHINE[0])
