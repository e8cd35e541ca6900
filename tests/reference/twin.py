"""The kernels compiled by an ordinary C++ compiler: the same files, a block's threads played by this machine's."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

from kappasharp.native import nvrtc, sources
from kappasharp.native.sources import Launch

COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
HEAD = Path(__file__).with_name("twin.hpp").read_text("utf-8")
# GCC 13 finds a variable of its own vectors clobbered where threads change places; Clang does not know that warning.
QUIET = ["-Wno-unknown-warning-option", "-Wno-clobbered"]
FLAGS = ["-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "-fPIC", "-Wall", "-Wextra", "-Werror", *QUIET]


class Twin:
    """Executes launches with `lanes` threads in a warp and, where told, another number of warps in a block."""

    def __init__(self, lanes: int = 1, warps: int | None = None) -> None:
        self.lanes, self.warps = lanes, warps

    def __call__(self, request: Launch) -> None:
        warps = request.threads // nvrtc.WARP if self.warps is None else self.warps
        # How many threads and blocks share a multiprocessor is the device compiler's business.
        defines = tuple(pair for pair in request.defines if pair[0] not in ("THREADS", "BLOCKS"))
        run = library(request.kernel, defines, self.lanes)
        values = [argument(part) for part in request.arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        assert run(request.blocks, warps * self.lanes, request.shared_bytes, pointers), "wrote past its shared memory"


def argument(part: torch.Tensor | int | float) -> ctypes._SimpleCData:
    if isinstance(part, torch.Tensor):
        assert part.is_contiguous()
        return ctypes.c_void_p(part.data_ptr())
    return ctypes.c_int(part) if isinstance(part, int) else ctypes.c_double(part)


@cache
def folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="kappasharp-twin-")


@cache
def standard() -> Path:
    """The headers of the language, compiled once: they are most of what a kernel's file has the compiler read."""
    path = Path(folder().name) / "standard.hpp"
    path.write_text("".join(line + "\n" for line in HEAD.splitlines() if line.startswith("#include <")))
    compiled("-x", "c++-header", str(path), "-o", f"{path}.gch")
    return path


def compiled(*words: str, given: str = "") -> None:
    assert COMPILER is not None
    done = subprocess.run([COMPILER, *FLAGS, *words], input=given, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def library(kernel: str, defines: tuple[tuple[str, int], ...], lanes: int) -> ctypes._CFuncPtr:
    """The kernel's entry, compiled once."""
    entry = f'extern "C" bool run_it(int b, int t, int s, void** a) {{ return run({kernel}, b, t, s, a); }}\n'
    name = "-".join([kernel, *(str(value) for _, value in defines), str(lanes)])
    path = Path(folder().name) / f"{name}.so"
    text = sources.cuda(kernel, (*defines, ("LANES", lanes)), HEAD) + entry
    compiled("-shared", "-include", str(standard()), "-x", "c++", "-", "-o", str(path), given=text)
    run = ctypes.CDLL(str(path)).run_it
    run.argtypes, run.restype = [ctypes.c_int] * 3 + [ctypes.c_void_p], ctypes.c_bool
    return run
