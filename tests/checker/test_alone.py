"""The checker works without the rest of the library: with NumPy, the engine and its backends."""

import subprocess
import sys
from pathlib import Path

import tinyattn

# `tinyattn` is replaced by an empty package, so that its `__init__`, which imports everything, does not run.
PROGRAM = """
import importlib.abc, sys, types
import numpy as np, numpy.random

before = set(sys.modules)

class Only(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top, _, rest = name.partition(".")
        if top == "tinyattn" and rest.partition(".")[0] not in ("checker", "autograd", "backend"):
            raise ImportError(f"{name} is above the engine")

sys.meta_path.insert(0, Only())
package = types.ModuleType("tinyattn")
package.__path__ = [sys.argv[1]]
sys.modules["tinyattn"] = package

from tinyattn.autograd import Tensor, primitive
from tinyattn.checker import GradcheckError, gradcheck, gradient_report

@primitive
def cube(x, /, error=1.0):
    return x * x * x

@cube.vjp
def cube_vjp(g, _out, x, *, error=1.0):
    return error * 3 * g * x * x

x = Tensor(np.array([[0.5, -1.5], [2.0, 0.25]]))
for settings in ({}, {"mode": "directional"}, {"oracle": "complex"}):
    assert gradcheck(cube, x, **settings)
assert gradcheck(lambda: cube(x), (), params={"x": x})
try:
    gradcheck(lambda x: cube(cube(x), error=1.001), x)
except GradcheckError as error:
    assert error.op == "cube" and error.report.culprit == "cube"
else:
    raise SystemExit("a wrong gradient passed")
imported = {name.split(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
assert imported == {"tinyattn"}, imported
print(*sorted({name.split(".")[1] for name in sys.modules if name.startswith("tinyattn.")}))
"""


def test_the_checker_needs_numpy_and_nothing_above_the_engine(tmp_path):
    package = Path(tinyattn.__file__).parent
    words = [sys.executable, "-c", PROGRAM, str(package)]
    run = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["autograd", "backend", "checker"]
