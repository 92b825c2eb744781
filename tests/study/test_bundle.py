"""The committed bundle is up to date with its sources."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tinyattn

STUDY = Path(tinyattn.__file__).parent / "study"
WEB = STUDY / "web"


def test_the_bundle_names_the_digest_of_its_sources():
    names = [f"src/{path.name}" for path in (WEB / "src").iterdir()] + ["build.mjs", "package.json"]
    digest = hashlib.sha256(b"".join((WEB / name).read_bytes() for name in sorted(names)))
    bundle = (STUDY / "explorer.html").read_text("utf-8")
    assert re.search(r"sources ([0-9a-f]{64})", bundle)[1] == digest.hexdigest(), (
        "the sources have changed: npm ci && npm run build in tinyattn/study/web"
    )


def test_node_builds_the_same_bundle(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (WEB / "node_modules").is_dir():
        pytest.skip("the front end's packages are not installed: npm ci in tinyattn/study/web")
    subprocess.run(["node", "build.mjs", tmp_path / "built.html"], cwd=WEB, check=True)
    assert (tmp_path / "built.html").read_bytes() == (STUDY / "explorer.html").read_bytes()


def test_the_bundle_loads_nothing():
    bundle = (STUDY / "explorer.html").read_text("utf-8")
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", bundle)
    assert "default-src 'none'" in bundle
    assert bundle.count("__PAYLOAD__") == 1 and bundle.count("__TITLE__") == 1
