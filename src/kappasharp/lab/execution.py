"""An experiment, a folder and an engine together: what is missing is run, what is finished is kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kappasharp.lab import grid
from kappasharp.lab.engines import Engine, Job
from kappasharp.lab.experiment import Experiment, read
from kappasharp.lab.grid import Block
from kappasharp.lab.jobs import AS_THEY_ARE, Limit, jobs
from kappasharp.lab.run import error_rows
from kappasharp.lab.store import Store


class Progress(NamedTuple):
    """One block is finished: how many runs it held, and whether they failed."""

    block: Block
    runs: int
    error: str | None


class Plan(NamedTuple):
    """What there is to do: everything wanted, and what of it is not yet stored."""

    experiment: Experiment
    store: Store
    wanted: list[Block]
    left: list[Block]

    @property
    def n_runs(self) -> int:
        """Runs wanted, each counted once."""
        return len({key for block in self.wanted for key in block.keys})

    @property
    def n_left(self) -> int:
        """Runs still to do."""
        return sum(len(block.seeds) for block in self.left)


def plan(path: Path, out: Path) -> Plan:
    """Read the experiment, open the folder, and see what is missing."""
    experiment = read(path)
    wanted = grid.blocks(experiment)
    store = Store(out).open()
    store.remember(experiment.name, path.read_text("utf-8"))
    return Plan(experiment, store, wanted, grid.missing(wanted, store.done()))


def conduct(todo: Plan, engine: Engine, limit: Limit = AS_THEY_ARE) -> Iterator[Progress]:
    """Run what is left, storing every block as soon as it is finished; another runner's blocks are left to it."""
    with Claims(todo.store) as claims:
        for job, rows, error in engine(claims.over(jobs(todo.left, limit))):
            for at, block in enumerate(job):
                todo.store.write(block.key, error_rows(block, str(error)) if rows is None else rows[at])
                claims.release(block)
                yield Progress(block, len(block.seeds), error)


class Claims:
    """The blocks that this runner holds, taken as the engine has room."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.held: set[str] = set()

    def __enter__(self) -> "Claims":
        self.store.forget_dead_claims()
        return self

    def __exit__(self, *_: object) -> None:
        for name in tuple(self.held):
            self.store.release(name)

    def over(self, jobs: list[Job]) -> Iterator[Job]:
        """The jobs, without the blocks that somebody else holds or has finished by now."""
        for job in jobs:
            mine = tuple(block for block in job if self._take(block))
            if mine:
                yield mine

    def _take(self, block: Block) -> bool:
        if not self.store.claim(block.key):
            return False
        self.held.add(block.key)
        if self.store.has(block.key):
            self.release(block)
            return False
        return True

    def release(self, block: Block) -> None:
        """The block is stored: its claim has done its work."""
        self.store.release(block.key)
        self.held.discard(block.key)
