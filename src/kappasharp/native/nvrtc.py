"""Kernels for CUDA devices: compiled at run time by NVRTC, which comes with torch, and launched by the driver."""

import ctypes
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.cuda import _utils as torch_cuda

from kappasharp.native import sources
from kappasharp.native.sources import Defines, Launch

# The most shared memory that a block may ask for on the devices that this was written for (Hopper).
SHARED_BYTES = 232_448
# What every device has, where torch does not say.
SMALLEST_SHARED_BYTES = 49_152
WARP = 32


def refusal(kernel: str, defines: Defines, shared_bytes: int, device: torch.device) -> str | None:
    """Why a kernel cannot run there; None where it can."""
    launcher = getattr(torch_cuda, "_CudaKernel", None)
    if torch.version.hip or not hasattr(launcher, "set_shared_memory_config"):
        return "this torch cannot launch a kernel"
    if shared_bytes > shared_limit(device):
        return "too large for shared memory"
    with torch.cuda.device(device):
        return _compiled(kernel, defines, torch.cuda.current_device())[1]


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
def _compiled(kernel: str, defines: Defines, device: int) -> tuple[Any, str | None]:
    """The kernel, compiled once per process and device; or None and why not."""
    major, minor = torch.cuda.get_device_capability(device)
    architecture = f"sm_{major}{minor}"
    # Binds the device's context to this thread, which the driver asks for.
    torch.cuda.synchronize(device)
    try:
        text = sources.cuda(kernel, defines)
        words = (text, architecture, str(torch.version.cuda), torch.__version__)
        binary = sources.kept(words, ".cubin", lambda path: path.write_bytes(_compile(text, architecture))).read_bytes()
        loaded: Any = torch_cuda._cuda_load_module(binary, [kernel])
        return loaded[kernel], None
    except (OSError, RuntimeError) as error:
        reason = f"{kernel} could not be compiled: {error}"
        warnings.warn(f"{reason}. torch does its work instead, more slowly.", stacklevel=2)
        return None, reason


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
