"""Triton kernels compiled to PTX for a GPU that need not be there, in a process of its own.

Triton decides when it is imported whether it compiles or interprets, and tests interpret; so a child process compiles.
It is started once, imports a kernel's file without the package around it, and answers a line with a line.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

from .program import Program

__all__ = ["CompileError", "Compiled", "by_triton", "compiled", "has_triton", "specialised"]


class CompileError(ValueError):
    """What Triton says about a kernel that it does not compile."""


@dataclass(frozen=True)
class Compiled:
    """A kernel that was compiled.

    Parameters
    ----------
    program : Program
        The machine's, read from the PTX.
    ptx : str
        Triton's.
    shared_bytes : int
        Shared memory that a launch has to ask for, for each block.
    """

    program: Program
    ptx: str
    shared_bytes: int


def has_triton():
    """Whether Triton is installed, found without importing it."""
    return importlib.util.find_spec("triton") is not None


def specialised(names, arguments, options):
    """What a launch's arguments mean to the compiler, as Triton's own launcher has it.

    A whole number 1, None and truth values are constants, and so is what is given by its name; of the other whole
    numbers, and of addresses, a multiple of 16 is known to be one.

    Parameters
    ----------
    names : sequence of str
        Of the kernel's parameters.
    arguments : sequence
        Tensors (anything with ``data_ptr()`` and ``dtype``) and numbers, by position.
    options : dict
        The rest: constants by their name, and options of the compiler.

    Returns
    -------
    (dict, list)
        For :func:`compiled`, but for kernel and target; and the arguments that are left for the launch.

    Raises
    ------
    ValueError
        If a parameter has no argument, or a tensor a type that PTX has no pointer to.
    """
    given = dict(zip(names, arguments, strict=False)) | {name: options[name] for name in names if name in options}
    for name in names:
        if name not in given:
            raise ValueError(f"{name} is not given; expected all of {', '.join(names)}")
    signature, constants, attributes, left = {}, {}, {}, []
    for i, name in enumerate(names):
        value = given[name]
        if hasattr(value, "data_ptr"):
            dtype = str(value.dtype).rpartition(".")[2]
            if dtype not in _TYPES:
                raise ValueError(f"{name} has dtype {dtype}; expected one of {', '.join(_TYPES)}")
            signature[name], multiple = "*" + _TYPES[dtype], value.data_ptr() % 16 == 0
        elif isinstance(value, int) and not isinstance(value, bool) and value != 1 and i < len(arguments):
            signature[name], multiple = "i32" if -2**31 <= value < 2**31 else "i64", value % 16 == 0
        elif isinstance(value, float) and i < len(arguments):
            signature[name], multiple = "fp32", False
        else:
            signature[name], constants[name] = "constexpr", _as_text(value)
            continue
        left.append(value)
        if multiple:
            attributes[i] = 16
    rest = {name: value for name, value in options.items() if name not in names}
    return {"signature": signature, "constants": constants, "multiples": attributes, "options": rest}, left


_TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "int32": "i32", "int64": "i64",
          "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "i1"}


def _as_text(value):
    """A constant as JSON can carry it; types of Triton by their names."""
    return {"type": value.name} if hasattr(value, "primitive_bitwidth") else value


def compiled(kernel, specification, capability=90):
    """A kernel compiled as a launch asks for it.

    Parameters
    ----------
    kernel : Triton's function, or (file, name)
    specification : dict
        From :func:`specialised`.
    capability : int
        Of the GPU, as 90 for sm_90.

    Returns
    -------
    Compiled

    Raises
    ------
    CompileError
        With Triton's own words; or if the process that compiles has ended. The next call starts another one.
    """
    file, name = kernel if isinstance(kernel, tuple) else (inspect.getsourcefile(kernel.fn), kernel.fn.__name__)
    return _asked(json.dumps({"file": str(file), "kernel": name, "capability": capability, **specification}))


@functools.cache
def _asked(question):
    child, line = _child(), ""
    try:
        child.stdin.write(question + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
    except BrokenPipeError:  # it has ended before
        pass
    finally:
        if not line:  # an answer that comes after an interrupt must not become that of the next question
            _child.cache_clear()
            child.kill()
    if not line:
        raise CompileError("the process that compiles has ended")
    answer = json.loads(line)
    if "error" in answer:
        raise CompileError(answer["error"])
    return Compiled(Program.parse(answer["ptx"]), answer["ptx"], answer["shared_bytes"])


@functools.cache
def _child():
    child = subprocess.Popen([sys.executable, "-m", "ptx_machine.compiling"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "TRITON_INTERPRET": "0"})
    atexit.register(_ended, child)
    return child


def _ended(child):
    child.communicate()  # nothing more is asked, and so it ends


def by_triton(kernel, specification, capability=90):
    """What Triton makes of a kernel, in this process, which must compile and not interpret."""
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    names = kernel.arg_names
    constants = {(names.index(name),): getattr(tl, _LANGUAGE[value["type"]]) if isinstance(value, dict) else value
                 for name, value in specification["constants"].items()}
    attributes = {(int(i),): [["tt.divisibility", value]] for i, value in specification["multiples"].items()}
    source = ASTSource(kernel, specification["signature"], constants, attributes)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=specification["options"])


def _answer(question):
    """In the child: PTX."""
    kernel = getattr(_module(question["file"]), question["kernel"])
    done = by_triton(kernel, question, question["capability"])
    return {"ptx": done.asm["ptx"], "shared_bytes": done.metadata.shared}


_LANGUAGE = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "int32": "int32",
             "int64": "int64"}


@functools.cache
def _module(file):
    spec = importlib.util.spec_from_file_location("kernels_" + os.path.basename(file).removesuffix(".py"), file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _serve():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # to stop a computation is not to stop what compiles for it
    answers, sys.stdout = sys.stdout, sys.stderr  # what Triton prints is no answer
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line))
        except Exception as error:  # whatever it is, the parent wants to know
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
