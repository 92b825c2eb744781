"""What the tests of this directory need besides Python: they skip without it, but never in .ci/run."""

import os
import shutil

import pytest


def need(found, what):
    """Skip a test, or all of a module, unless ``found``; in .ci/run, which installs all of it, fail."""
    if not found:
        message = f"needs {what}"
        assert not os.environ.get("TINYATTN_CI"), message
        pytest.skip(message, allow_module_level=True)


def need_compiler():
    need(
        shutil.which(os.environ.get("CXX", "g++")), "g++, which compiles kernels for the simulator"
    )
