"""`kappasharp doctor`: what this installation consists of, and how it computes here."""

import os
import platform
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from kappasharp.cli.output import in_format, show
from kappasharp.errors import install_command

# What each extra brings, by the library that stands for it.
EXTRAS = {
    "lab": ("pyarrow", "experiments, their reports and clusters"),
    "postgres": ("psycopg", "studies in PostgreSQL"),
    "dataframe": ("pandas", "tables in Python"),
    "botorch": ("botorch", "the drop-in for PairwiseGP"),
    "ax": ("ax-platform", "Ax"),
    "optuna": ("optuna", "Optuna"),
    "peers": ("cma", "other people's methods in the lab"),
}


@click.command()
@in_format
def doctor(style: str) -> None:
    """What is installed, how the model computes on this machine and why, and what is missing."""
    found = {"versions": _versions(), "kernels": _kernels(), "extras": _extras()}
    show(style, found, _lines(found))


def _versions() -> dict[str, str]:
    import torch

    names = ("kappasharp", "numpy", "sqlalchemy")
    return {
        **{name: _version(name) or "unknown" for name in names},
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _kernels() -> dict[str, Any]:
    """How the search for hyperparameters and the ascent of EUBO are done on each device."""
    import torch

    from kappasharp.native import compiler, launch, sources

    off = launch.switched_off()
    with warnings.catch_warnings():
        # What it says is told below.
        warnings.simplefilter("ignore")
        reason = off or compiler.refusal()
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "cpu": {"way": "torch" if reason else "compiled", "why": reason, "compiler": compiler.compiler()},
        "cuda": {"devices": devices, "way": "torch" if off else "compiled", "why": off} if devices else None,
        "kept_in": str(sources.folder()),
    }


def _extras() -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    for name, (library, use) in EXTRAS.items():
        there = _version(library)
        install = None if there else install_command(name)
        found[name] = {"for": use, "library": library, "version": there, "install": install}
    return found


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{name:<12}{value}" for name, value in found["versions"].items()]
    cpu, cuda = found["kernels"]["cpu"], found["kernels"]["cuda"]
    lines += ["", "How it computes"]
    if cpu["why"] is None:
        lines.append(f"  on the CPU: compiled by {Path(cpu['compiler']).name}, kept in {found['kernels']['kept_in']}.")
    else:
        lines.append(f"  on the CPU: by torch, several times slower, because {cpu['why']}.")
        if "KAPPASHARP_KERNELS" not in cpu["why"]:
            lines.append("  Install a C++ compiler (g++ or clang++), or name one in CXX; nothing else has to be done.")
    if cuda is None:
        lines.append("  no CUDA device.")
    else:
        how = "compiled at first use" if cuda["why"] is None else f"by torch, because {cuda['why']}"
        lines.append(f"  on {', '.join(cuda['devices'])}: {how}.")
    lines += ["", "Extras"]
    for name, extra in found["extras"].items():
        there = f"{extra['library']} {extra['version']}"
        state = there if extra["version"] else f"not installed: {extra['install']}"
        lines.append(f"  {name:<10} {extra['for']:<42} {state}")
    return lines
