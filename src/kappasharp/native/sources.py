"""The kernels' source files, put together for a target; what was compiled of them is kept, once per machine."""

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from kappasharp.files import alone, replacing

CACHE = "KAPPASHARP_CACHE"
# The linear algebra and what lies beside it have the same names for both targets.
CUDA = ("descent.cuh", "cuda/factor.cuh")
PARTS = {
    "evidence": ("normal.cuh", "likelihood.cuh", "cuda/contrasts.cuh", "priors.cuh", "newton.cuh", "evidence.cu"),
    "eubo": ("normal.cuh", "cuda/near.cuh", "eubo.cu"),
    "straight": ("normal.cuh", "cuda/near.cuh", "straight.cu"),
    "calibration": ("calibration.cu",),
    "precision": ("precision.cu",),
    "laplace": ("normal.cuh", "likelihood.cuh", "newton.cuh", "laplace.cu"),
}
CPU = (
    "cpu/target.hpp", "normal.cuh", "likelihood.cuh", "descent.cuh", "cpu/factor.hpp", "cpu/contrasts.hpp",
    "cpu/near.hpp", "priors.cuh", "newton.cuh", "evidence.cu", "eubo.cu", "straight.cu", "calibration.cu", "laplace.cu",
    "precision.cu", "cpu/shrunken.hpp", "cpu/entries.hpp",
)  # fmt: skip

Defines = tuple[tuple[str, int], ...]


class Launch(NamedTuple):
    """One kernel with its sizes and arguments.

    `defines` are the constants that a CUDA device's is compiled for, `shared_bytes` the memory that a block has there,
    `own_bytes` what one thread of the CPU needs.
    """

    kernel: str
    defines: Defines
    blocks: int
    threads: int
    shared_bytes: int
    own_bytes: int
    arguments: tuple[Tensor | int | float, ...]


Execute = Callable[[Launch], None]


def cuda(kernel: str, defines: Defines, head: str | None = None) -> str:
    """The text of one kernel for a CUDA device, or after another head that has the same names."""
    constants = "".join(f"#define {name} {value}\n" for name, value in defines)
    return constants + (_text("cuda/target.cuh") if head is None else head) + "".join(map(_text, CUDA + PARTS[kernel]))


@cache
def cpu() -> str:
    """The text of all kernels for the CPU, whose constants are arguments."""
    return "".join(map(_text, CPU))


@cache
def _text(name: str) -> str:
    return resources.files("kappasharp.native").joinpath(*name.split("/")).read_text("utf-8")


def kept(words: tuple[str, ...], suffix: str, make: Callable[[Path], object]) -> Path:
    """The file that belongs to these words, made by `make` where it is not kept yet."""
    name = hashlib.sha256("\x1f".join(words).encode()).hexdigest()[:32] + suffix
    path = folder() / name
    try:
        if path.exists():
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Of several that need it at once one makes it.
        with alone(path.with_suffix(".lock")):
            if not path.exists():
                with replacing(path) as temporary:
                    make(temporary)
    except OSError as error:
        warnings.warn(f"The compiled kernel cannot be kept in {path.parent}: {error}.", stacklevel=2)
        path = Path(_for_this_process()) / name
        make(path)
    return path


@cache
def _for_this_process() -> str:
    return tempfile.mkdtemp(prefix="kappasharp-kernels-")


def folder() -> Path:
    """Where compiled kernels are kept: KAPPASHARP_CACHE, or the user's folder for caches."""
    given = os.environ.get(CACHE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kappasharp" / "kernels"
