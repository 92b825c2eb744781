"""Requirements of the tests in this directory: without them they skip, except in .ci/run, where they fail."""

import os
import shutil

import pytest


def need(found, what):
    """Skip a test or a module unless ``found``; fail in .ci/run, which installs all requirements."""
    if not found:
        message = f"needs {what}"
        assert not os.environ.get("TINYATTN_CI"), message
        pytest.skip(message, allow_module_level=True)


def need_compiler():
    need(
        shutil.which(os.environ.get("CXX", "g++")), "g++, which compiles kernels for the simulator"
    )
