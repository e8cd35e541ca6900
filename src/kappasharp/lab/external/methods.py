"""Methods from outside: the library's own by name, anybody's by `module:factory`, entry point or command; and one run.

All get the same first designs and answers and the same simulated people as our methods; the rest is their own.
"""

import hashlib
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kappasharp.errors import InvalidValueError, UnknownNameError, named
from kappasharp.inference import comparisons
from kappasharp.lab.external import contract
from kappasharp.lab.external.contract import Player
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.problem import Problem
from kappasharp.problems.simulated_voters import Person
from kappasharp.randomness import stream

WARNED, OK = "peer_warned", "ok"
GROUP = "kappasharp.methods"


@dataclass(frozen=True)
class Peer:
    """A method from outside: what it is, the versions that are meant, which of its loops; and what runs it.

    Results know it by library, versions and loop. Of anybody's own they are its name, and a digest of its source.
    """

    library: str
    versions: str
    summary: str
    loop: str = ""
    factory: str = ""
    command: tuple[str, ...] = ()

    @property
    def sees_outcomes(self) -> bool:
        """Whether it learns on the outcomes of designs."""
        return self.loop == "bope"

    @property
    def words(self) -> tuple[str, ...]:
        """The command that speaks the contract."""
        return self.command or contract.command(self.factory)


def _entrant(name: str, library: str, versions: str, summary: str, loop: str = "") -> Peer:
    return Peer(library, versions, summary, loop, f"kappasharp.lab.libraries:{name}")


BOTORCH = ("botorch", ">=0.18.1,<0.19")
PEERS: dict[str, Peer] = {
    "botorch_0_18": _entrant("Botorch", *BOTORCH, "PairwiseGP, fit_gpytorch_mll, EUBO by optimize_acqf 4/32"),
    "botorch_thompson": _entrant("Thompson", *BOTORCH, "PairwiseGP; two joint draws over 2,048 designs", "thompson"),
    "botorch_bope": _entrant(
        "Bope", *BOTORCH, "PairwiseGP on outcomes, EUBO through them by optimize_acqf 8/64", "bope"
    ),
    "ax_preference": _entrant(
        "Ax", "ax-platform", ">=1.3.1,<1.4", "a preference experiment; Ax chooses model and qEUBO"
    ),
    "optuna_preferential": _entrant(
        "Optuna", "optuna-dashboard", ">=0.20", "PreferentialGPSampler; a new design against the winner", "told pairs"
    ),
    "cma_by_rank": _entrant("Cma", "cma", ">=4,<5", "CMA-ES told ranks, four designs sorted by questions"),
    "random_king": _entrant("RandomKing", "kappasharp", "1", "the winner stays and meets a random design", "random"),
    "sobol_king": _entrant("SobolKing", "kappasharp", "1", "the winner stays and meets the next Sobol design", "sobol"),
}


def find(name: str, known: Mapping[str, Any]) -> Any:
    """A method by name: one of `known`, an entry point of the group `kappasharp.methods`, or `module:factory`."""
    if ":" in name:
        return own(name)
    offered = {} if name in known else {one.name: one for one in entry_points(group=GROUP)}
    if name in offered:
        return own(offered[name].value)
    try:
        return named("method", name, dict.fromkeys(offered) | dict(known))
    except UnknownNameError as error:
        raise UnknownNameError(
            f"{error} One of your own is `module:factory`, and a program stands in `[commands]` or `--method-command`."
        ) from None


def own(factory: str) -> Peer:
    """Anybody's method of Python; a change of its source makes it another one."""
    module, _, name = factory.partition(":")
    if module.endswith(".py"):
        raise InvalidValueError(f"A module is named without its ending: {module.removesuffix('.py')}:{name}.")
    top = module.partition(".")[0]
    found = PathFinder.find_spec(top, [os.getcwd(), *sys.path]) if top and name else None  # noqa: PTH109
    if found is None:
        raise InvalidValueError(
            f"A method from outside is called `module:factory`, and its module must be one that this folder or this "
            f"Python has, but got {factory!r}."
        )
    files = [Path(found.origin)] if found.origin else []
    for folder in found.submodule_search_locations or ():
        files += sorted(Path(folder).rglob("*.py"))
    return Peer(factory, _digest(files), f"the method {factory}", factory=factory)


def spoken(command: str) -> Peer:
    """A command that speaks the contract; a change of a file that it names makes it another one."""
    words = tuple(shlex.split(command))
    if not words:
        raise InvalidValueError("`command` must name a program, but is empty.")
    files = [path for word in words if (path := Path(word)).is_file()]
    return Peer(command, _digest(files), f"the command {command}", command=words)


def _digest(files: Iterable[Path]) -> str:
    made = hashlib.sha256()
    for path in dict.fromkeys(files):
        made.update(path.read_bytes())
    return made.hexdigest()[:16]


def run(
    peer: Peer,
    player: Player,
    problem: Problem,
    initialization: str,
    *,
    seed: int,
    queries: int,
    person: Person,
    first_pairs: int = 5,
) -> dict[str, Any]:
    """The record of one run; from zero it starts with this many pairs, which count among the questions."""
    start = initial_designs.start(problem, initialization, [seed], person, first_pairs)
    counted = initial_designs.counted(initialization, first_pairs)
    chance = simulated_voters.draws(problem.name, seed, simulated_voters.ANSWERS, queries)[counted:]
    number = stream(seed, problem.name, peer.library).initial_seed()
    # Who learns on outcomes knows how they are computed, and nothing of what is liked about them.
    player.begin(problem.dimensions, number, problem.name if peer.sees_outcomes else "")
    # Imports are the process's, and come once.
    begin = time.perf_counter()
    record = _play(player, problem, start, person, chance, counted)
    if counted:
        record["best_utility"] = start.utility[0].cummax(0).values[1::2].tolist()[:-1] + record["best_utility"]
        record["told_utility"] = [None] * (counted - 1) + record["told_utility"]
        record["n_points"] = [*range(2, 2 * counted, 2), *record["n_points"]]
    return record | {"seconds": time.perf_counter() - begin, "block_runs": 1}


def _play(
    player: Player, problem: Problem, start: initial_designs.Start, person: Person, chance: Tensor, counted: int
) -> dict[str, Any]:
    points, seen, pairs = start.points[0], start.utility[0], start.comparisons[0]
    for turn, ((winner, loser), tie) in enumerate(zip(pairs.tolist(), start.ties[0].tolist(), strict=True)):
        # As they were shown: the design of the lower number first.
        first, second = sorted((winner, loser))
        player.tell(
            points[[first, second]], simulated_voters.TIE if tie else int(winner == second), problem.voter(turn)
        )
    best, told, n_points, words, components = [float(seen.max())], [_told(player, problem)], [len(seen)], [], []
    for turn, mood in enumerate(chance, start=counted):
        components.append(int(comparisons.count_components(pairs.unsqueeze(0), len(seen))))
        question = player.ask(problem.voter(turn))
        pair = problem.nearest(question.points)
        index = []
        for point in pair:
            known = ((points - point).abs() <= contract.ROUNDING).all(-1).nonzero()
            index.append(int(known[0]) if len(known) else len(seen))
            if not len(known):
                points, seen = torch.cat([points, point.unsqueeze(0)]), torch.cat([seen, _worth(problem, point)])
        felt = seen[index] if problem.members is None else problem.unit_felt(pair, turn)
        answer = int(simulated_voters.answer(person, felt, mood))
        player.tell(pair, answer, problem.voter(turn))
        pairs = torch.cat([pairs, torch.tensor([index[::-1] if answer == simulated_voters.SECOND else index])])
        best.append(float(seen.max()))
        told.append(_told(player, problem))
        n_points.append(len(seen))
        words.append(WARNED if question.warning else OK)
    return {
        "best_utility": best, "told_utility": told, "n_points": n_points, "step_status": words,
        "n_components": components,
    }  # fmt: skip


def _worth(problem: Problem, point: Tensor) -> Tensor:
    return problem.unit_utility(point).reshape(1)


def _told(player: Player, problem: Problem) -> float | None:
    """The utility of the design that is told to be best, if one is; nobody made it for that."""
    design = player.best()
    return None if design is None else float(_worth(problem, problem.nearest(design)))
