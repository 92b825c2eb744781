"""NVRTC, NVIDIA's runtime compiler, which compiles the sources without a GPU."""

import ctypes
import importlib.metadata
import re

from tinyattn.kernels.cuda.launch import OPTIONS

# Fewer optimizations: compiling takes an eighth of the time. NVRTC before CUDA 12.9 does not have the option.
FAST = ("--Ofast-compile=max",)
_INVALID_OPTION = 5


def find():
    """The path of the library of the package nvidia-cuda-nvrtc, or None."""
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            files = importlib.metadata.files(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if re.fullmatch(r"libnvrtc\.so\.\d+", file.name):
                return str(file.locate())
    return None


def compile_for(text, expressions, architecture):
    """The machine code of all ``expressions``, kernels of a source, for an architecture such as ``"sm_90"``.

    Raises:
        SyntaxError: with the messages of the compiler.
    """
    library = ctypes.CDLL(find())
    status, result = _compile(
        library, text, expressions, (f"--gpu-architecture={architecture}", *OPTIONS, *FAST)
    )
    if status == _INVALID_OPTION:
        status, result = _compile(
            library, text, expressions, (f"--gpu-architecture={architecture}", *OPTIONS)
        )
    if status:
        raise SyntaxError(result)
    return result


def _compile(library, text, expressions, options):
    """The status, and the machine code or the messages of the compiler."""
    program = ctypes.c_void_p()
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None
        )
    )
    try:
        for expression in expressions:
            _check(library.nvrtcAddNameExpression(program, expression.encode()))
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = library.nvrtcCompileProgram(program, len(options), given)
        size = ctypes.c_size_t()
        if status:
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            return status, log.value.decode()
        _check(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        code = ctypes.create_string_buffer(size.value)
        _check(library.nvrtcGetCUBIN(program, code))
        return status, code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _check(status):
    assert status == 0, f"NVRTC error {status}"
