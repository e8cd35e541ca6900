"""Jobs out of blocks: how many runs go together as one batch, and which job goes first."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from kappasharp.lab import grid, memory
from kappasharp.lab.grid import Block
from kappasharp.lab.peers import Peer
from kappasharp.problems.registry import find_problem

# How much longer a run takes that simulates, and one of another library: as measured, roughly. They only set the order.
SIMULATED, PEER = 3, 100


@dataclass(frozen=True)
class Limit:
    """How large a batch may be: in runs (by default, a block as it is), and in a worker's memory in bytes."""

    runs: int | None = None
    memory: int | None = None

    def of(self, block: Block) -> int:
        """How many runs of this block's shape may go together."""
        runs = len(block.seeds) if self.runs is None else self.runs
        return runs if self.memory is None else min(runs, memory.fitting(block, self.memory))


AS_THEY_ARE = Limit()


def jobs(blocks: Iterable[Block], limit: Limit) -> list[tuple[Block, ...]]:
    """The blocks as batches within the limit, the longest first: then the last ones leave no worker idle for long."""
    if limit.runs is None:
        batches: list[tuple[Block, ...]] = [(piece,) for block in blocks for piece in cut(block, limit.of(block))]
    else:
        alike = defaultdict(list)
        for block in blocks:
            alike[limit.of(block)].append(block)
        batches = [
            batch
            for most, group in alike.items()
            for batch in grid.together([piece for block in group for piece in cut(block, most)], most)
        ]
    return sorted(batches, key=lambda batch: sum(length(block) for block in batch), reverse=True)


def cut(block: Block, most: int) -> list[Block]:
    """A block in as few pieces as have at most `most` runs, of nearly equal size. Runs keep their keys."""
    count = -(-len(block.seeds) // most)
    ends = [at * len(block.seeds) // count for at in range(count + 1)]
    parts = [slice(low, high) for low, high in pairwise(ends)]
    return [replace(block, seeds=block.seeds[part], keys=block.keys[part]) for part in parts]


def length(block: Block) -> int:
    """How long a block takes beside others, in no unit: to sort by, not to believe."""
    problem = find_problem(block.problem)
    slow = PEER if isinstance(block.method_values, Peer) else SIMULATED if problem.is_simulated else 1
    return len(block.seeds) * block.queries * problem.dimensions * slow
