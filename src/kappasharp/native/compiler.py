"""Kernels for the CPU: compiled by this machine's C++ compiler at first use, a few seconds, and kept for the next time.

Without a compiler torch does the same work, more slowly.
"""

import ctypes
import os
import platform
import shlex
import shutil
import struct
import subprocess
import warnings
from functools import cache
from pathlib import Path

from torch import Tensor

from kappasharp.native import sources
from kappasharp.native.sources import Launch

FLAGS = (
    "-std=c++17", "-O3", "-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno",
    "-fno-trapping-math", "-fPIC", "-shared", "-fvisibility=hidden",
)  # fmt: skip
# For this machine's own processor; the second form is Apple's, and a compiler that knows neither gets none.
PROCESSOR = (("-march=native",), ("-mcpu=native",), ())
# Bytes that each argument of a launch has.
SLOT = 8
# How a launch ends. (cpu/entries.hpp)
DONE, NO_MEMORY = 1, 2
# A compiler that takes longer is not waited for.
SECONDS = 120
NO_COMPILER = "no C++ compiler was found"


def refusal() -> str | None:
    """Why the kernels cannot run on this CPU; None where they can."""
    return _library()[1]


def execute(launch: Launch) -> None:
    """Run a launch, its blocks one after another."""
    library, reason = _library()
    assert library is not None, reason
    arguments = launch.arguments
    slots, size = ctypes.create_string_buffer(SLOT * len(arguments)), len(arguments)
    # One piece of memory for all of them: an object for each would take as long as a small kernel.
    values = [part.data_ptr() if isinstance(part, Tensor) else part for part in arguments]
    _layout(tuple(map(type, arguments))).pack_into(slots, 0, *values)
    at = ctypes.addressof(slots)
    pointers = (ctypes.c_void_p * size)(*range(at, at + SLOT * size, SLOT))
    ended = getattr(library, f"run_{launch.kernel}")(launch.blocks, ctypes.c_longlong(launch.own_bytes), pointers)
    if ended == NO_MEMORY:
        raise MemoryError(
            f"The kernel {launch.kernel} asked for {launch.own_bytes:,} bytes, and there are not so many."
        )
    assert ended == DONE, f"the kernel {launch.kernel} wrote past its memory"


@cache
def _layout(kinds: tuple[type, ...]) -> struct.Struct:
    """How arguments of these kinds are written into slots: a pointer, an int and nothing, or a double."""
    letters = ("Q" if issubclass(kind, Tensor) else "i4x" if issubclass(kind, int) else "d" for kind in kinds)
    return struct.Struct("=" + "".join(letters))


def compiler() -> str | None:
    """The C++ compiler: CXX, which may have words behind it, or the first that is found."""
    given = os.environ.get("CXX")
    return given if given else next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


@cache
def _library() -> tuple[ctypes.CDLL | None, str | None]:
    """The kernels, loaded once per process; or None and why not."""
    found = compiler()
    if found is None:
        return None, NO_COMPILER
    try:
        version = subprocess.run(
            [*shlex.split(found), "--version"], capture_output=True, text=True, check=True, timeout=SECONDS
        ).stdout
        words = (sources.cpu(), *FLAGS, version, platform.machine(), _features())
        path = sources.kept(words, ".so", lambda target: _compile(found, target))
        return ctypes.CDLL(str(path)), None
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"the kernels could not be compiled by {found}: {_said(error)}"
        warnings.warn(f"{reason}. torch does their work instead, more slowly.", stacklevel=2)
        return None, reason


def _compile(found: str, target: Path) -> None:
    for processor in PROCESSOR:
        words = [*shlex.split(found), *FLAGS, *processor, "-x", "c++", "-", "-o", str(target)]
        done = subprocess.run(words, input=sources.cpu(), text=True, capture_output=True, check=False, timeout=SECONDS)
        if done.returncode == 0:
            return
    done.check_returncode()


def _said(error: Exception) -> str:
    """What a compiler said last, or the error itself."""
    written = getattr(error, "stderr", None)
    return written.strip().splitlines()[-1] if written and written.strip() else str(error).removesuffix(".")


def _features() -> str:
    """What this processor can do, where the system says so: another machine may share the folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("flags", "Features", "CPU part", "model name"))}))
