"""Load functions from a user's file, make random inputs for them, and report the file's errors with their lines."""

import contextlib
import importlib.util
import inspect
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from ..checker import GradcheckError
from ..data import InputError
from ..error_messages import did_you_mean, shown

FRAMEWORKS = ("torch", "jax", "tinyattn")
DTYPES = ("float64", "float32", "float16", "bfloat16")
LARGEST = 10**8  # elements of one input


@dataclass(frozen=True)
class Functions:
    """The function to check: ``fn``, as for ``gradcheck``, from ``path``, with arrays of ``framework``."""

    path: Path
    names: tuple
    fn: object
    framework: str  # "numpy" for a pair

    @property
    def name(self):
        return f"{self.path.name}:{','.join(self.names)}"

    @property
    def backward_name(self):
        return f"{self.backward.__qualname__} ({self.path.name})"

    @property
    def backward(self):
        """The Python function that computes the gradient.

        Raises:
            InputError: if there is none, or if its source cannot be changed.
        """
        fn = getattr(self.fn, "__self__", None) or self.fn
        if isinstance(fn, tuple):
            backward = fn[1]
        else:  # a torch.autograd.Function, a JAX custom_vjp
            backward = (isinstance(fn, type) and getattr(fn, "backward", None)) or getattr(
                fn, "bwd", None
            )
        if backward is None:
            raise InputError(
                f"--mutants: {self.name} has no backward pass of its own: give FILE.py:FORWARD,BACKWARD"
            )
        backward = inspect.unwrap(backward)
        if not inspect.isfunction(backward) or backward.__name__ == "<lambda>":
            raise InputError(
                f"--mutants: the backward pass of {self.name} is not a function defined with def"
            )
        return backward


def load_functions(target, framework=None):
    """The ``Functions`` of ``FILE.py:FORWARD,BACKWARD`` or ``FILE.py:FUNCTION``; the file is executed.

    Args:
        framework: one of ``FRAMEWORKS`` for a single function; inferred from the function and its file if None.

    Raises:
        InputError: if the file cannot be run, or has no such functions.
    """
    file, colon, words = target.rpartition(":")
    if not colon or "/" in words or not words:
        raise InputError(
            f"{shown(target)} does not name a function: expected FILE.py:FORWARD,BACKWARD or FILE.py:FUNCTION"
        )
    path = Path(file).expanduser()
    if not path.is_file():
        raise InputError(f"there is no file {shown(file)}")
    names = tuple(word.strip() for word in words.split(","))
    if len(names) > 2 or not all(names):
        raise InputError(
            f"given {len(names)} functions in {shown(words)}: expected FORWARD,BACKWARD or FUNCTION"
        )
    module = _executed(path.resolve())
    values = tuple(_member(module, name, path) for name in names)
    if len(values) == 2:
        return Functions(path.resolve(), names, values, "numpy")
    framework = framework or _framework(values[0], module, f"{path.name}:{names[0]}")
    if framework == "jax":
        sys.modules["jax"].config.update("jax_enable_x64", True)  # for inputs in float64
    fn = values[0]
    if framework == "torch" and isinstance(fn, type) and hasattr(fn, "named_parameters"):
        with errors_with_lines(path.resolve()):
            fn = fn()
    return Functions(path.resolve(), names, fn, framework)


def random_inputs(text, functions, seed):
    """Arrays of standard normal numbers for ``"3x4, 4:float32"``, of the framework of the functions.

    Raises:
        InputError: if the text is not of that form, or if the functions take another number of arguments.
    """
    fn = functions.fn
    first = fn[0] if isinstance(fn, tuple) else fn
    if text is None:
        parameters = _parameters(first)
        example = ", ".join(["3x4"] * max(1, len(parameters)))
        raise InputError(
            f"--inputs is missing: the shapes of {functions.names[0]}'s arguments"
            f"{' ' + ', '.join(parameters) if parameters else ''}, such as --inputs {example!r}"
        )
    random = np.random.default_rng([seed, *b"inputs"])
    arrays = []
    for entry in text.split(","):
        shape, dtype = _shape_and_dtype(entry)
        arrays.append(_of_dtype(random.standard_normal(shape), dtype, functions.framework))
    given = f"{len(arrays)} array{'s' * (len(arrays) != 1)}"
    _assert_taken(first, functions.names[0], arrays, f"--inputs gives {given}")
    if isinstance(fn, tuple):
        added = [None] if _parameters(fn[1])[-1:] == ["gradients"] else []
        expected = f"expected the cotangent and {given}{' and gradients' * len(added)}"
        _assert_taken(fn[1], functions.names[1], [None, *arrays, *added], expected)
    return arrays


def _shape_and_dtype(entry):
    """The shape and dtype of one input.

    >>> _shape_and_dtype(" 3x4:float32"), _shape_and_dtype("5"), _shape_and_dtype("scalar")
    (((3, 4), 'float32'), ((5,), 'float64'), ((), 'float64'))
    """
    shape, _, dtype = (word.strip() for word in entry.partition(":"))
    if not re.fullmatch(r"scalar|[0-9]{1,9}([x×][0-9]{1,9})*", shape):
        raise InputError(
            f"--inputs: {shown(entry.strip())} is not a shape: expected 3x4, 4 or scalar, separated by "
            "commas, each optionally with a dtype such as 3x4:float32"
        )
    if dtype not in ("", *DTYPES):
        raise InputError(
            f"--inputs: the dtype is {shown(dtype)}: expected one of {', '.join(DTYPES)}"
        )
    sizes = () if shape == "scalar" else tuple(int(size) for size in re.split("[x×]", shape))
    if np.prod(sizes, dtype=object) > LARGEST:
        raise InputError(
            f"--inputs: {shape} has more than {LARGEST:,} elements: give a smaller one"
        )
    return sizes, dtype or "float64"


def _of_dtype(array, dtype, framework):
    if framework == "torch":
        torch = sys.modules["torch"]
        return torch.tensor(array).to(getattr(torch, dtype))
    if framework == "jax":
        return sys.modules["jax"].numpy.array(array, dtype)
    if dtype == "bfloat16":
        raise InputError("--inputs: NumPy has no bfloat16: expected float64, float32 or float16")
    if framework == "tinyattn":
        from ..autograd import Tensor

        return Tensor(array.astype(dtype))
    return array.astype(dtype)


def _parameters(function):
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _accepts(function, arguments):
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # without a signature, as functions of C code are
        return True
    return True


def _assert_taken(function, name, arguments, otherwise):
    # An autograd.Function is called through apply, whose signature is (*args).
    if not isinstance(function, type) and not _accepts(function, arguments):
        taken = ", ".join(_parameters(function)) or "no arguments"
        raise InputError(f"{name} takes {taken}: {otherwise}")


# ----------------------------------------------------------------------------------------------------- the user's file


def _executed(path):
    """Execute a file as a module, which can import other files of its directory."""
    name = path.stem if path.stem not in sys.modules else f"user_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    with errors_with_lines(path):
        spec.loader.exec_module(module)
    return module


def _member(module, name, path):
    value = module
    for word in name.split("."):
        if not hasattr(value, word):
            names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            hint = did_you_mean(name, names) or f"it has {', '.join(names[:8]) or 'none'}"
            raise InputError(f"{path.name} has no function {shown(name)}: {hint}")
        value = getattr(value, word)
    if not callable(value):
        raise InputError(f"{path.name}:{name} is of type {type(value).__name__}, not a function")
    return value


def _framework(fn, module, name):
    """Infer the framework of a function from its type, or from what its file imports."""
    owner = getattr(fn, "__self__", fn)
    kinds = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    own = {kind.__module__.partition(".")[0].removesuffix("lib") for kind in kinds}
    found = [framework for framework in FRAMEWORKS if framework in own]
    if not found:
        used = set()
        for value in vars(module).values():
            origin = value.__name__ if isinstance(value, ModuleType) else None
            origin = origin or getattr(value, "__module__", None) or ""
            used.add(str(origin).partition(".")[0])
        found = [framework for framework in FRAMEWORKS if framework in used]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{name}: the file uses {' and '.join(found)}: choose with --framework")
    raise InputError(
        f"{name} is a function without a framework, and has no backward pass: "
        "give FILE.py:FORWARD,BACKWARD, or --framework"
    )


@contextlib.contextmanager
def errors_with_lines(path):
    """Convert exceptions of the file's code to an ``InputError`` with the line in the file."""
    try:
        yield
    except (GradcheckError, InputError, MemoryError):
        raise
    except SyntaxError as error:
        raise InputError(
            f"{Path(error.filename or path).name}:{error.lineno}: {error.msg}"
        ) from error
    except (Exception, SystemExit) as error:
        lines = [
            f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)
        ]
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if not lines and isinstance(error, (TypeError, ValueError)):
            raise InputError(str(error)) from error  # the checker's own sentence
        where = f"{path.name}:{lines[-1]}: " if lines else f"{path.name}: "
        raise InputError(f"{where}{what}") from error
