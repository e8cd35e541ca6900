"""Kernels for CUDA devices: compiled at run time by NVRTC, which comes with torch, and launched by the driver.

Everything here is about files of CUDA C++ beside this one and plain tensors; what they compute is known above. A launch
is a value, so the tests hand the same one to a twin that an ordinary compiler made of the same files.
"""

import ctypes
import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.cuda import _utils as torch_cuda

from kappasharp.files import replacing

SWITCH = "KAPPASHARP_KERNELS"
NOT_ON_CUDA = "not on a CUDA device"
CACHE = "KAPPASHARP_CACHE"
# The most shared memory that a block may ask for on the devices that this was written for (Hopper).
SHARED_BYTES = 232_448
# What every device has, where torch does not say.
SMALLEST_SHARED_BYTES = 49_152
WARP = 32
PARTS = ("normal.cuh", "descent.cuh", "factor.cuh")
# How often each kernel ran, and how often torch ran in its place, by reason: {("evidence", "kernel"): 12, …}.
taken: Counter[tuple[str, str]] = Counter()


class Launch(NamedTuple):
    """One kernel with its sizes and arguments; `defines` are the constants it is compiled for."""

    kernel: str
    defines: tuple[tuple[str, int], ...]
    blocks: int
    threads: int
    shared_bytes: int
    arguments: tuple[Tensor | int | float, ...]


Execute = Callable[[Launch], None]


def source(kernel: str, defines: tuple[tuple[str, int], ...], head: str) -> str:
    """The text to compile: constants, the head's definitions, the shared parts, the kernel."""
    constants = "".join(f"#define {name} {value}\n" for name, value in defines)
    here = resources.files("kappasharp.kernels")
    return constants + head + "".join(here.joinpath(name).read_text("utf-8") for name in (*PARTS, f"{kernel}.cu"))


def elsewhere(kernel: str, like: Tensor) -> bool:
    """Whether the tensors are on no CUDA device, so that there is nothing to prepare; counted in `taken`."""
    if like.device.type == "cuda":
        return False
    taken[kernel, NOT_ON_CUDA] += 1
    return True


def refusal(
    kernel: str, defines: tuple[tuple[str, int], ...], shared_bytes: int, like: Tensor, other: str | None = None
) -> str | None:
    """Why a kernel cannot take tensors like this one; None where it can. Either way it is counted in `taken`.

    `other` is a reason that only the caller knows.
    """
    reason = _refusal(like, shared_bytes) or other
    if reason is None:
        with torch.cuda.device(like.device):
            reason = _compiled(kernel, defines, torch.cuda.current_device())[1]
    taken[kernel, reason or "kernel"] += 1
    return reason


def _refusal(like: Tensor, shared_bytes: int) -> str | None:
    if like.device.type != "cuda":
        return NOT_ON_CUDA
    if os.environ.get(SWITCH, "1") == "0":
        return f"{SWITCH}=0"
    if like.dtype != torch.float64:
        return "not in double precision"
    launcher = getattr(torch_cuda, "_CudaKernel", None)
    if torch.version.hip or not hasattr(launcher, "set_shared_memory_config"):
        return "this torch cannot launch a kernel"
    return "too large for shared memory" if shared_bytes > shared_limit(like.device) else None


def shared_limit(device: torch.device) -> int:
    """The most shared memory that a block may ask for there; a twin on the CPU is held to what it was written for."""
    if device.type != "cuda":
        return SHARED_BYTES
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", SMALLEST_SHARED_BYTES))


def execute(launch: Launch) -> None:
    """Run a launch on the device of its first tensor, on torch's current stream there."""
    device = next(part.device for part in launch.arguments if isinstance(part, Tensor))
    with torch.cuda.device(device):
        run, reason = _compiled(launch.kernel, launch.defines, torch.cuda.current_device())
        assert run is not None, reason
        if launch.shared_bytes > run._max_shared_mem_bytes:
            run.set_shared_memory_config(launch.shared_bytes)
        size = {"grid": (launch.blocks, 1, 1), "block": (launch.threads, 1, 1), "shared_mem": launch.shared_bytes}
        run(args=list(launch.arguments), **size)


@cache
def _compiled(kernel: str, defines: tuple[tuple[str, int], ...], device: int) -> tuple[Any, str | None]:
    """The kernel, compiled once per process and device; or None and why not."""
    head = resources.files("kappasharp.kernels").joinpath("cuda.cuh").read_text("utf-8")
    major, minor = torch.cuda.get_device_capability(device)
    # Binds the device's context to this thread, which the driver asks for.
    torch.cuda.synchronize(device)
    try:
        binary = _kept(source(kernel, defines, head), f"sm_{major}{minor}")
        loaded: Any = torch_cuda._cuda_load_module(binary, [kernel])
        return loaded[kernel], None
    except (OSError, RuntimeError) as error:
        reason = f"{kernel} could not be compiled: {error}"
        warnings.warn(f"{reason}. torch does its work instead, more slowly.", stacklevel=2)
        return None, reason


def _kept(text: str, architecture: str) -> bytes:
    """The machine code, compiled once per machine: seconds, which every worker process would spend again."""
    words = "\x1f".join((text, architecture, str(torch.version.cuda), torch.__version__))
    path = _cache_folder() / f"{hashlib.sha256(words.encode()).hexdigest()[:32]}.cubin"
    if path.exists():
        return path.read_bytes()
    binary = _compile(text, architecture)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(binary)
    except OSError as error:
        warnings.warn(f"The compiled kernel cannot be kept in {path.parent}: {error}.", stacklevel=2)
    return binary


def _cache_folder() -> Path:
    """KAPPASHARP_CACHE, or the user's folder for caches."""
    given = os.environ.get(CACHE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kappasharp" / "kernels"


def _compile(text: str, architecture: str) -> bytes:
    """NVRTC's machine code for a text that includes no file; torch's own wrapper would ask for a CUDA toolkit."""
    nvrtc = _nvrtc()
    program = ctypes.c_void_p()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kappasharp.cu", 0, None, None))
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if failed:
        raise RuntimeError(_read(nvrtc, program, "ProgramLog").rstrip(b"\0").decode())
    binary = _read(nvrtc, program, "CUBIN")
    _check(nvrtc, nvrtc.nvrtcDestroyProgram(ctypes.byref(program)))
    return binary


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _check(nvrtc: ctypes.CDLL, failed: int) -> None:
    if failed:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(nvrtc.nvrtcGetErrorString(failed).decode())


def _nvrtc() -> ctypes.CDLL:
    """The library that came with torch: torch's own link to it, loaded first, knows where the wheel keeps it."""
    link = Path(torch.__file__).parent / "lib" / "libcaffe2_nvrtc.so"
    if link.exists():
        ctypes.CDLL(str(link))
    return ctypes.CDLL(f"libnvrtc.so.{str(torch.version.cuda).partition('.')[0]}")
