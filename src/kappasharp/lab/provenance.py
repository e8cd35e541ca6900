"""What made a number: versions, machine, commit."""

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

import torch

UNKNOWN = "unknown"
COMMIT_VARIABLE = "KAPPASHARP_COMMIT"


def machine(device: str) -> dict[str, str]:
    """Where a block ran."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    return {
        "device": name,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "kappasharp": version(),
        "commit": commit(),
    }


@cache
def version(library: str = "kappasharp") -> str:
    """The installed version of a library."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return UNKNOWN


@cache
def commit() -> str:
    """The commit of the source, with a mark where files differ from it; `KAPPASHARP_COMMIT` where there is no git."""
    if os.environ.get(COMMIT_VARIABLE):
        return os.environ[COMMIT_VARIABLE]
    here = Path(__file__).parent
    head = _git("rev-parse", "--short=12", "HEAD", at=here)
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", str(here.parent), at=here)
    return UNKNOWN if head is None else head + ("+changes" if changes else "")


def _git(*words: str, at: Path) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=at, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
