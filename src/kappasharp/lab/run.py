"""Blocks: a simulated person answers the questions of many runs in lockstep. Pure: cells in, rows out.

Needs nothing but torch, so that it runs on a bare machine; a simulated problem brings its own library.
"""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import discrete, line
from kappasharp.acquisition.discrete import Group, Lattice
from kappasharp.algorithm.loop import Info, ask, begin, init, leader, learn, show, tell
from kappasharp.algorithm.question import NEW
from kappasharp.algorithm.state import Question, State
from kappasharp.correction import activation
from kappasharp.lab import outcomes
from kappasharp.lab.external import methods
from kappasharp.lab.external.contract import MethodError, OwnProcess
from kappasharp.lab.external.methods import Peer
from kappasharp.lab.grid import Block, plain
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import find_problem
from kappasharp.questions.kind import PAIR, Kind
from kappasharp.settings import Method, Query, Rule, Weights

Row = dict[str, Any]
# What is kept of every step.
TRACES = (
    "strength",
    "condition_before",
    "condition_after",
    "decisiveness",
    "mean_decisiveness",
    "active",
    "n_components",
)
FURTHER = ("outputscale", "evidence", "acquisition")
# Of every answer: the chance that the model gave it beforehand.
CHANCE = "chance"
# Of the start, and then after every answer: the best utility seen, that of the design told to be best, and how many
# designs there are. From zero the start is told pair by pair; while there is no model, nothing is told.
COURSE = ("best_utility", "told_utility", "n_points")
OK, ERROR = "ok", "error"
# The device of a run that never began: its worker was lost, or its block could not be run.
NOWHERE = "none"
# Kinds of question whose answer has no chance of its own.
UNSURE = (Kind.SLIDER, Kind.RATING)


def run_together(blocks: Sequence[Block], device: str = "cpu") -> list[list[Row]]:
    """Every run of the blocks, in lockstep, as one row of plain data each; see `grid.together` for which blocks may."""
    torch.set_num_threads(1)
    begin = time.perf_counter()
    # Most of a simulated run is its simulation, on a core: the device is left to the other workers.
    device = "cpu" if find_problem(blocks[0].problem).is_simulated else device
    method = blocks[0].method_values
    if isinstance(method, Peer):
        records = [_outside(block, method) for block in blocks]
    elif method.query is Query.BRIDGING:
        # Each run makes designs at a pace of its own, and runs in lockstep must grow alike.
        records = [
            [_lockstep([replace(block, seeds=(seed,), keys=(key,))], device)[0][0] for seed, key in _runs(block)]
            for block in blocks
        ]
    else:
        records = _lockstep(blocks, device)
    runs = sum(len(block.seeds) for block in blocks)
    cost = {"seconds": (time.perf_counter() - begin) / runs, "block_runs": runs}
    return [_rows(block, part, cost, device) for block, part in zip(blocks, records, strict=True)]


def _runs(block: Block) -> Iterable[tuple[int, str]]:
    return zip(block.seeds, block.keys, strict=True)


def _outside(block: Block, peer: Peer) -> list[Row]:
    """Records of runs one after another, in a process of the method's own; one that fails leaves the others alone."""
    problem, first = find_problem(block.problem), block.preset_values.first_pairs
    rest: Row = {"queries": block.queries, "person": block.person, "first_pairs": first}
    records = []
    with OwnProcess(peer.words, block.limit) as player:
        for seed in block.seeds:
            begin = time.perf_counter()
            try:
                found = methods.run(peer, player, problem, block.initialization, seed=seed, **rest)
                records.append(_record(**found))
            except MethodError as error:
                records.append(_failed(str(error)) | {"seconds": time.perf_counter() - begin, "block_runs": 1})
    return records


def _failed(error: str) -> Row:
    """The record of a run that did not come to its end: what happened, and no numbers."""
    nothing: Row = {name: [] for name in (*COURSE, "step_status", CHANCE, *TRACES, *FURTHER)}
    return nothing | {"status": ERROR, "error": error, "failed_steps": 0, "initial_best": None, "final_best": None}


def _rows(block: Block, records: list[Row], cost: Row, device: str) -> list[Row]:
    shared = _shared(block, device) | cost
    cells = zip(block.seeds, block.keys, records, strict=True)
    return [shared | {"seed": seed, "key": key} | record for seed, key, record in cells]


def error_rows(block: Block, error: str) -> list[Row]:
    """The rows of a block that could not be run: what happened, and no numbers. They do not count as done."""
    cost = {"seconds": 0.0, "block_runs": len(block.seeds)}
    return _rows(block, [_failed(error)] * len(block.seeds), cost, NOWHERE)


class Step(NamedTuple):
    """One question of all runs, answered: the states before and after, and the utilities (runs, n) of all designs.

    `info` is None where the question was not the model's.
    """

    before: State
    question: Question
    info: Info | None
    answers: Tensor
    after: State
    seen: Tensor


def play(blocks: Sequence[Block], device: str = "cpu") -> Iterator[Step]:
    """The blocks' runs in lockstep, question by question, with the simulated person's answers."""
    people = People(blocks)
    first = [] if not blocks[0].is_shown_first else _first_designs(blocks, device)
    state, seen = _nothing(blocks, device) if first else _started(blocks, device)
    queries = blocks[0].queries
    for number in range(queries - blocks[0].asked - len(first), queries):
        if number == queries - blocks[0].settling:
            state = replace(state, method=replace(state.method, query=Query.SETTLING, designs=PAIR))
        before = state
        info = None
        if number < len(first):
            question, state = show(before, first[number])
        else:
            question, state, info = ask(before)
        answers, new = people.answer(state.method, question, seen, number)
        state = tell(state, question, answers, people.seconds(question, seen, number), people.voter(number))
        seen = torch.cat([seen, new], 1)
        # Places of a line beside the chosen one are the model's alone: nobody saw them.
        seen = torch.nn.functional.pad(seen, (0, state.points.shape[1] - seen.shape[1]), value=-torch.inf)
        yield Step(before, question, info, answers, state, seen)


def _started(blocks: Sequence[Block], device: str) -> tuple[State, Tensor]:
    """The state after the start's answers, and the utilities of its designs."""
    starts = [
        initial_designs.start(
            find_problem(block.problem),
            block.initialization,
            block.seeds,
            block.person,
            block.preset_values.first_pairs,
        )
        for block in blocks
    ]
    start = initial_designs.Start(*(torch.cat(part) for part in zip(*starts, strict=True)))
    return _begin(blocks, start, device), start.utility


def _nothing(blocks: Sequence[Block], device: str) -> tuple[State, Tensor]:
    """The state before the first question, where no answers are free."""
    seeds = [seed for block in blocks for seed in block.seeds]
    problem, method = find_problem(blocks[0].problem), blocks[0].method_values
    assert isinstance(method, Method)
    state = begin(
        len(seeds), problem.dimensions, method=method, preset=blocks[0].preset_values, seeds=seeds, device=device
    )
    state = _seeing(replace(state, lattice=_lattice(problem, state.points)), problem)
    return state, torch.empty(len(seeds), 0, dtype=torch.float64)


def _first_designs(blocks: Sequence[Block], device: str) -> list[Tensor]:
    """The designs (runs, q, d) of every first question; a slider's line goes through them."""
    method, count = blocks[0].method_values, blocks[0].first_questions
    assert isinstance(method, Method)
    parts = [
        initial_designs.designs(find_problem(block.problem), block.seeds, count, method.designs) for block in blocks
    ]
    points = torch.cat(parts)
    if method.kind is Kind.SLIDER:
        points = line.through_any(points)
        on = _lattice(find_problem(blocks[0].problem), points)
        points = points if on is None else discrete.nearest(on, points)
    return list(points.to(device).unbind(1))


class People:
    """The simulated person at the questions of all runs."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.who = blocks[0].person
        self.parts = [(find_problem(block.problem), len(block.seeds)) for block in blocks]
        self.cells = [(block.problem, seed) for block in blocks for seed in block.seeds]
        self.chance = torch.cat([_chance(block) for block in blocks])
        self.lattice = _lattice(self.parts[0][0], self.chance)

    def voter(self, number: int) -> int | None:
        """Who of several people is asked; runs in lockstep have as many of them."""
        return self.parts[0][0].voter(number)

    def answer(self, method: Method, question: Question, seen: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """The answers, and the utilities (runs, k) of the designs that were new."""
        chance = self.chance[:, number]
        if method.asks is Kind.SLIDER:
            return self._slide(question.points.cpu().double(), chance, number)
        utility, new = self._judged(question, seen, number)
        if method.asks is Kind.ORDER:
            further = simulated_voters.further_for(self.cells, number, method.designs - simulated_voters.NORMALS)
            return simulated_voters.order(self.who, utility, chance, further), new
        if method.asks is Kind.RATING:
            return simulated_voters.rate(self.who, utility, chance), new
        return simulated_voters.answer_about(self.who, self.cells, utility, chance, number), new

    def seconds(self, question: Question, seen: Tensor, number: int) -> Tensor | None:
        """How long the answers took, of a person whose times are known."""
        if not self.who.tempo or question.points.shape[1] != PAIR:
            return None
        return simulated_voters.seconds(self.who, self.cells, self._judged(question, seen, number)[0], number)

    def _judged(self, question: Question, seen: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """What whoever is asked feels about a question's designs, and the utilities of the new ones."""
        utility, new = judge(self.parts, question, seen)
        return (utility if self.voter(number) is None else felt(self.parts, question.points, number)), new

    def _slide(self, ends: Tensor, chance: Tensor, number: int) -> tuple[Tensor, Tensor]:
        places = torch.linspace(0.0, 1.0, simulated_voters.STEPS, dtype=torch.float64).expand(len(ends), -1)
        further = simulated_voters.further_for(
            self.cells, number, simulated_voters.STEPS - simulated_voters.NORMALS + 1
        )
        along = felt(self.parts, line.at(ends, places, self.lattice), number)
        place = simulated_voters.slide(self.who, along, chance, further)
        return place, utilities(self.parts, line.at(ends, place.unsqueeze(-1), self.lattice))


def _lockstep(blocks: Sequence[Block], device: str) -> list[list[Row]]:
    first = blocks[0].start
    # From zero every pair of the start is a question.
    from_zero = blocks[0].asked < blocks[0].queries and not blocks[0].is_shown_first
    n_points = list(range(2, first.n_points + 1, 2)) if from_zero else [first.n_points]
    n_points = [] if blocks[0].is_shown_first else n_points
    infos, chances, leaders = [], [], []
    for step in play(blocks, device):
        seen, state = step.seen, step.after
        n_points.append(seen.shape[1])
        if step.info is not None:
            infos.append(step.info)
            leaders.append(step.info.leader.cpu())
            chances.append(_chance_of(step))
        del step  # the memory of a state, before the next question needs its own
    leaders.append(leader(state, learn(state)).cpu())
    # Designs stand in the order in which they were made.
    best = seen.cummax(1).values[:, torch.tensor(n_points) - 1]
    told = seen.gather(1, torch.stack(leaders, 1))
    nothing = [None] * (len(n_points) - told.shape[1])
    course = [
        {"best_utility": row, "told_utility": nothing + words, CHANCE: chance}
        for row, words, chance in zip(best.tolist(), told.tolist(), torch.stack(chances, 1).tolist(), strict=True)
    ]
    records = iter(_records(course, n_points, infos))
    return [list(islice(records, len(block.seeds))) for block in blocks]


def _chance_of(step: Step) -> Tensor:
    """The chance that the model gave to each run's answer; none where it was a tie, or one of more than two designs."""
    if step.info is None or step.question.points.shape[1] > PAIR or step.before.method.kind in UNSURE:
        return torch.full((len(step.answers),), torch.nan, dtype=torch.float64)
    expected = step.info.expected.cpu().double()
    given = torch.where(step.answers == simulated_voters.SECOND, 1.0 - expected, expected)
    return torch.where(step.answers == simulated_voters.TIE, torch.nan, given)


def _begin(blocks: Sequence[Block], start: initial_designs.Start, device: str) -> State:
    """The state of all runs; where the methods differ in their gates, each run has its own."""
    methods = [block.method_values for block in blocks if isinstance(block.method_values, Method)]
    # What corrects nothing can run beside what does: its gate never opens.
    method = next((row for row in methods if row.correction.weights is not Weights.NONE), methods[0])
    seeds = [seed for block in blocks for seed in block.seeds]
    ties = start.ties if bool(start.ties.any()) else None
    state = init(
        start.points.to(device),
        start.comparisons,
        method=method,
        preset=blocks[0].preset_values,
        seeds=seeds,
        ties=ties,
    )
    if len(blocks) > 1 and method.gate.rule is not Rule.VALIDATED:
        gates = [row.gate for row, block in zip(methods, blocks, strict=True) for _ in block.seeds]
        state = replace(state, gates=activation.side_by_side(gates, state.points))
    problem = find_problem(blocks[0].problem)
    state = replace(state, method=method, lattice=_lattice(problem, state.points))
    if problem.members is not None:
        state = replace(state, voters=torch.arange(start.comparisons.shape[1], device=device) % problem.people)
    return _seeing(state, problem)


def _seeing(state: State, problem: Problem) -> State:
    """The state of runs of one problem that see its outcomes, where the method learns on them."""
    return replace(state, lift=outcomes.lift(problem.name)) if state.method.use_outcomes else state


def _lattice(problem: Problem, like: Tensor) -> Lattice | None:
    """The coordinates of a problem that may take some values only."""
    groups = [
        Group((j,), torch.linspace(0.0, 1.0, count, dtype=torch.float64, device=like.device).unsqueeze(-1))
        for j, count in enumerate(problem.steps)
        if count
    ]
    choices = [Group(at, torch.eye(len(at), dtype=torch.float64, device=like.device)) for at in problem.choices]
    return Lattice((*groups, *choices)) if groups or choices else None


def _chance(block: Block) -> Tensor:
    return torch.stack(
        [simulated_voters.draws(block.problem, seed, simulated_voters.ANSWERS, block.queries) for seed in block.seeds]
    )


def utilities(parts: list[tuple[Problem, int]], points: Tensor) -> Tensor:
    """Hidden utilities of designs (runs, k, d); `parts` are the problems, with the number of runs of each."""
    return _of_each(parts, points, lambda problem, part: problem.unit_utility(part))


def felt(parts: list[tuple[Problem, int]], points: Tensor, turn: int) -> Tensor:
    """What whoever is asked at a turn feels about designs (runs, k, d): their utilities, where one person answers."""
    return _of_each(parts, points, lambda problem, part: problem.unit_felt(part, turn))


def _of_each(parts: list[tuple[Problem, int]], points: Tensor, value: Callable[[Problem, Tensor], Tensor]) -> Tensor:
    split = points.cpu().double().split([size for _, size in parts])
    return torch.cat([value(problem, part) for (problem, _), part in zip(parts, split, strict=True)])


def judge(parts: list[tuple[Problem, int]], question: Question, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Utilities (runs, q) of a question's designs, and of its new ones; known designs are not run again."""
    known = question.known.cpu()
    fresh = known[0] == NEW  # the same for every run of a block
    new = utilities(parts, question.points[:, fresh])
    utility = torch.empty(known.shape, dtype=torch.float64)
    utility[:, fresh] = new
    if not bool(fresh.all()):
        utility[:, ~fresh] = seen.gather(1, known[:, ~fresh])
    return utility, new


def _records(course: list[Row], n_points: list[int], infos: list[Info]) -> list[Row]:
    """One record per run from its course and the steps' values."""
    traces = {name: torch.stack([getattr(info, name).cpu() for info in infos], 1) for name in (*TRACES, *FURTHER)}
    words = zip(*(info.status for info in infos), strict=True)
    return [
        _record(
            n_points=n_points, step_status=list(word), **row, **{k: trace[run].tolist() for k, trace in traces.items()}
        )
        for run, (row, word) in enumerate(zip(course, words, strict=True))
    ]


def _record(best_utility: list[float], n_points: list[int], step_status: list[str], **traces: Any) -> Row:
    """What is kept of one run; a trace that a peer does not have is empty."""
    failed = [word for word in step_status if word != OK]
    cost = {name: traces[name] for name in ("seconds", "block_runs") if name in traces}
    return (
        {name: traces.get(name, []) for name in ("told_utility", CHANCE, *TRACES, *FURTHER)}
        | cost
        | {
            "best_utility": best_utility,
            "n_points": n_points,
            "initial_best": best_utility[0],
            "final_best": best_utility[-1],
            "step_status": step_status,
            "status": max(sorted(set(failed)), key=failed.count) if failed else OK,
            "failed_steps": len(failed),
            "error": None,
        }
    )


def _shared(block: Block, device: str) -> Row:
    """What every row of the block has in common: what it is a run of, and what it was run by."""
    method = block.method_values
    installed = {"installed": version(method.library)} if isinstance(method, Peer) else {}
    return {
        "problem": block.problem,
        "problem_version": find_problem(block.problem).version,
        "initialization": block.initialization,
        "method": block.method,
        "preset": block.preset,
        "suite": block.suite or None,
        "queries": block.queries,
        "settling": block.settling,
        "method_values": json.dumps(plain(method) | installed, sort_keys=True),
        "preset_values": json.dumps(plain(block.preset_values), sort_keys=True),
        "person": json.dumps(plain(block.person), sort_keys=True),
        **machine(device),
    }


# What made a number: versions, machine, commit.

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
