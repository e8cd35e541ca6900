"""Experiments that take a second, and work that goes wrong on purpose. A module, so that every worker can import it."""

import json
import os
import signal
import time
from pathlib import Path

from kappasharp.lab import grid, run
from kappasharp.lab.experiment import Experiment, parse

TABLE = {
    "problems": ["hartmann-6d"],
    "initializations": ["pool_n6_k15"],
    "methods": ["baseline", "static"],
    "presets": ["modern"],
    "seeds": 2,
    "queries": 2,
}
TOML = """
problems = ["hartmann-6d", "vehicle-5d"]
initializations = ["pool_n6_k15"]
methods = ["baseline", "static"]
presets = ["modern"]
seeds = 2
queries = 3
"""


def experiment(**changes) -> Experiment:
    return parse("tiny", TABLE | changes)


def blocks(**changes) -> list[grid.Block]:
    return grid.blocks(experiment(**changes))


def fingerprint(row: run.Row) -> str:
    """A row to the last digit, without what differs from time to time; as text, where NaN is NaN."""
    return json.dumps({name: row[name] for name in sorted(row) if name not in ("seconds", "block_runs", "commit")})


def rows_of(block: grid.Block, final: float = 1.0) -> list[run.Row]:
    """Rows as a run makes them, with numbers of our own."""
    traces = {
        "best_utility": [0.5, final],
        "strength": [0.0],
        "active": [False],
        "n_components": [1],
        "n_points": [6, 8],
    }
    scalars = {"status": "ok", "error": None, "initial_best": 0.5, "final_best": final, "step_status": ["ok"]}
    return [row | traces | scalars for row in run.error_rows(block, "")]


def fails_for(problem: str, job: tuple[grid.Block, ...], device: str) -> list[list[run.Row]]:
    """Work that one problem's jobs cannot do, with an error that no pickle can carry."""
    if job[0].problem == problem:

        class LocalError(Exception):
            pass

        raise LocalError("the simulator is on fire")
    return run.run_together(job, device)


def dies_once(folder: Path, job: tuple[grid.Block, ...], device: str) -> list[list[run.Row]]:
    """Work whose first worker is killed between the runs and their return."""
    rows = run.run_together(job, device)
    if not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


def kills(folder: Path, problem: str, job: tuple[grid.Block, ...], device: str) -> list[list[run.Row]]:
    """Work that kills its worker whenever it is one problem's, and leaves a trace of it."""
    if job[0].problem == problem:
        (folder / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return run.run_together(job, device)


def outlives(folder: Path, problem: str, job: tuple[grid.Block, ...], device: str) -> list[list[run.Row]]:
    """Work of two problems at once: the other one's first worker is killed while this one's goes on."""
    other, is_first = job[0].problem != problem, not list(folder.glob(f"{job[0].problem} *"))
    (folder / f"{job[0].problem} {os.getpid()}").touch()
    patience = time.monotonic() + 60
    while is_first and len(list(folder.iterdir())) < 2 and time.monotonic() < patience:
        time.sleep(0.05)
    if other and is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    if not other:
        time.sleep(1.0)  # whoever would end it with the other has the time to
    return run.run_together(job, device)


def meets_and_loses_one(folder: Path, count: int, job: tuple[grid.Block, ...], device: str) -> list[list[run.Row]]:
    """Work that goes on only when this many workers are at it; one of them is then killed, with its runs done."""
    (folder / f"worker-{os.getpid()}").touch()
    patience = time.monotonic() + 120
    while len(present := sorted(folder.glob("worker-*"))) < count and time.monotonic() < patience:
        time.sleep(0.05)
    rows = run.run_together(job, device)
    if present[0].name == f"worker-{os.getpid()}":
        os.kill(os.getpid(), signal.SIGKILL)
    return rows
