"""How much memory a run takes in a batch, as a number of its sizes, and how many runs fit into what there is.

The estimate counts the largest tensors of one question, of which there are two kinds: matrices over the end points of
all answers while the hyperparameters are searched for, and a pool of candidates while the next pair is. Its constants
were fitted to measured peaks on a CPU, of 5 to 20 dimensions and 25 to 115 answers; a test holds it within a factor
of two.
"""

import re
from typing import NamedTuple

from kappasharp.acquisition.maximize import COPIES, INCUMBENTS, MAXIMIZERS, SHORTLIST, UNKNOWN
from kappasharp.errors import InvalidValueError
from kappasharp.lab.grid import Block
from kappasharp.methods.method import PAIR, Method, Preset
from kappasharp.problems.initial import INITIALIZATIONS
from kappasharp.problems.registry import find_problem

DOUBLE = 8
# A worker that has imported everything and holds no run yet: about 250 MB measured, Dask and the simulators on top.
IDLE = 350 * 1000**2
# Copies alive at once: matrices over end points, their coordinates; a pool's coordinates, pairs of a shortlist.
MATRICES, ENDS = 5, 10
CANDIDATES, PAIRS = 8, 10
UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4, "KIB": 2**10, "MIB": 2**20,
         "GIB": 2**30, "TIB": 2**40}  # fmt: skip


class Sizes(NamedTuple):
    """A run's sizes at its last question."""

    points: int
    answers: int
    dimensions: int


def sizes(block: Block) -> Sizes:
    """The sizes of a block's runs at their last question: one of q designs adds at most q points, and q − 1 answers."""
    first = INITIALIZATIONS[block.initialization]
    dimensions = find_problem(block.problem).dimensions
    method = block.method_values
    q = method.designs if isinstance(method, Method) else PAIR
    return Sizes(first.n_points + q * block.queries, first.n_comparisons + (q - 1) * block.queries, dimensions)


def per_run(size: Sizes, preset: Preset) -> int:
    """Bytes that one run adds to the peak of its batch."""
    points, answers, dimensions = size
    ends = 2 * answers
    fit = MATRICES * ends**2 + ENDS * ends * dimensions
    maximizer = MAXIMIZERS[preset.maximizer]
    pool = maximizer.raw + INCUMBENTS * (COPIES + 1) if maximizer.from_pool else 2 * maximizer.raw
    shortlist = SHORTLIST + UNKNOWN if maximizer.from_pool else 0
    search = pool * (points + answers + CANDIDATES * dimensions) + PAIRS * shortlist**2
    return DOUBLE * max(fit, search)


def fitting(block: Block, budget: int) -> int:
    """How many runs of a block's shape fit into a worker's budget of bytes."""
    each = per_run(sizes(block), block.preset_values)
    count = (budget - IDLE) // each
    if count < 1:
        raise InvalidValueError(
            f"`memory` must hold a worker with one run, {(IDLE + each) / 1000**2:.0f} MB for {block.problem} with "
            f"{block.queries} questions, but got {budget / 1000**2:.0f} MB."
        )
    return count


def read(text: str) -> int:
    """Bytes from words like 4GB, 512 MiB or 8e9."""
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([a-z]*)\s*", text, re.IGNORECASE)
    if found is None or found[2].upper() not in UNITS:
        raise InvalidValueError(f"`memory` must be a number with a unit, like 4GB or 512MB, but got {text!r}.")
    try:
        return int(float(found[1]) * UNITS[found[2].upper()])
    except ValueError as error:
        raise InvalidValueError(f"`memory` must begin with a number, but got {text!r}.") from error
