"""Which way the kernels' work is done: compiled, for a CUDA device or for the CPU, or by torch, and why.

A launch is a value, so the tests hand the same one to a twin that plays a device's threads.
"""

import os
import threading
from collections import Counter

import torch
from torch import Tensor

from kappasharp.native import compiler, nvrtc
from kappasharp.native.sources import Defines, Execute

SWITCH = "KAPPASHARP_KERNELS"
# Beyond this many designs LAPACK's factorizations are faster than one thread of ours.
MOST_DESIGNS = 512
# How often each kernel was taken, and how often torch in its place, by reason: {("evidence", "kernel"): 12, …}.
taken: Counter[tuple[str, str]] = Counter()


def executor(kernel: str, like: Tensor, defines: Defines, shared_bytes: int) -> Execute | None:
    """What runs a kernel on tensors like this one, None where torch does; either way it is counted in `taken`."""
    reason = _refusal(kernel, like, defines, shared_bytes)
    taken[kernel, reason or "kernel"] += 1
    if reason is not None:
        return None
    return nvrtc.execute if like.device.type == "cuda" else compiler.execute


def factoring(kernel: str, like: Tensor, defines: Defines, shared_bytes: int) -> Execute | None:
    """The same for a kernel that factors matrices (…, n, n) like these."""
    if like.device.type == "cpu" and like.shape[-1] > MOST_DESIGNS:
        passed_by(kernel, f"more than {MOST_DESIGNS} designs")
        return None
    return executor(kernel, like, defines, shared_bytes)


def begin() -> None:
    """Compile for the CPU what is not compiled yet, in a thread: while somebody looks at first questions, say."""
    if switched_off() is None:
        threading.Thread(target=compiler.refusal, name="kernels", daemon=True).start()


def passed_by(kernel: str, reason: str) -> None:
    """Count work that torch does because no kernel is made for it."""
    taken[kernel, reason] += 1


def switched_off() -> str | None:
    """The setting that turns the kernels off, if it does."""
    return f"{SWITCH}=0" if os.environ.get(SWITCH, "1") == "0" else None


def _refusal(kernel: str, like: Tensor, defines: Defines, shared_bytes: int) -> str | None:
    off = switched_off()
    if off is not None:
        return off
    if like.dtype != torch.float64:
        return "not in double precision"
    if like.device.type == "cuda":
        return nvrtc.refusal(kernel, defines, shared_bytes, like.device)
    return compiler.refusal() if like.device.type == "cpu" else f"not on a device of type {like.device.type}"
