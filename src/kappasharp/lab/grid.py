"""A cell is one run of an experiment; a block is the cells that run in lockstep. Keys say what is the same run.

A key is a hash of every value that can change a run's numbers: a stored run is found again whatever its method was
called, and a changed number is another run.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass, replace
from enum import Enum
from itertools import product
from typing import Any

from kappasharp.errors import InvalidValueError
from kappasharp.lab.experiment import Experiment
from kappasharp.lab.external import contract
from kappasharp.lab.external.methods import Peer
from kappasharp.problems import initial_designs
from kappasharp.problems.initial_designs import FROM_ZERO, Initialization
from kappasharp.problems.registry import find_problem
from kappasharp.problems.simulated_voters import Person
from kappasharp.questions.kind import FIRST_QUESTIONS
from kappasharp.settings import KAPPASHARP, Gate, Method, Preset, Rule, Weights

# Counts up when a run of the same values would give other numbers: the loop, the streams, a default, what is recorded.
PROTOCOL = 1


@dataclass(frozen=True)
class Cell:
    """One run, by the names that tables show, and its key."""

    problem: str
    initialization: str
    method: str
    preset: str
    seed: int
    key: str


@dataclass(frozen=True)
class Block:
    """Runs of one problem, initialization, method and preset, for several seeds: equal shapes at every step."""

    problem: str
    initialization: str
    method: str
    preset: str
    seeds: tuple[int, ...]
    keys: tuple[str, ...]
    method_values: Method | Peer
    preset_values: Preset
    person: Person
    queries: int
    settling: int = 0
    suite: str = ""
    limit: int = contract.SECONDS

    @property
    def start(self) -> Initialization:
        """How many designs and comparisons its runs start with; none where the first questions are more than pairs."""
        if self.is_shown_first:
            return Initialization(0, 0, is_matching=True)
        return initial_designs.plan(self.initialization, self.preset_values.first_pairs)

    @property
    def is_shown_first(self) -> bool:
        """Whether a run begins with questions of its method's kind about Sobol designs."""
        method = self.method_values
        return isinstance(method, Method) and method.kind in FIRST_QUESTIONS and self.initialization == FROM_ZERO

    @property
    def first_questions(self) -> int:
        """How many questions come before the model's, where a run starts from zero."""
        pairs = self.preset_values.first_pairs
        return self.method_values.first_questions(pairs) if isinstance(self.method_values, Method) else pairs

    @property
    def asked(self) -> int:
        """How many questions come after the start, whose own count too where a run starts from zero."""
        return self.queries - initial_designs.counted(self.initialization, self.first_questions)

    @property
    def key(self) -> str:
        """The name of the block's file."""
        return digest(list(self.keys))


def digest(value: Any) -> str:
    """A short hash of plain data."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def chosen(value: Any) -> Any:
    """What differs from a dataclass's defaults: a new choice with a neutral default leaves old keys alone."""
    if not is_dataclass(value) or isinstance(value, type):
        return value.value if isinstance(value, Enum) else value
    usual = {part.name: _default(part) for part in fields(value)}
    given = {name: getattr(value, name) for name in usual}
    return {name: chosen(part) for name, part in given.items() if part != usual[name]}


def _default(part: Field[Any]) -> Any:
    return part.default if part.default_factory is MISSING else part.default_factory()


def plain(value: Any) -> Any:
    """A dataclass of choices as plain data: enumerations by their values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(part) for name, part in asdict(value).items()}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value.value if isinstance(value, Enum) else value


def blocks(experiment: Experiment) -> list[Block]:
    """Everything to run, in blocks of at most `block_size` seeds; the methods of a problem side by side."""
    found = []
    sides = product(experiment.problems, experiment.initializations, experiment.presets, experiment.methods)
    for problem, initialization, preset, method in sides:
        for at in range(0, len(experiment.seeds), experiment.block_size):
            seeds = experiment.seeds[at : at + experiment.block_size]
            found.append(_block(experiment, problem, initialization, method, preset, seeds))
    _refuse_duplicates(found)
    return found


def together(blocks: Iterable[Block], most: int) -> list[tuple[Block, ...]]:
    """Blocks that can run in lockstep as one batch of at most `most` runs: a GPU takes many as fast as few.

    Their runs have equal shapes, presets and corrections; gates may differ, and so may problems of one dimension.
    """
    jobs: dict[str, list[list[Block]]] = {}
    for block in blocks:
        batches = jobs.setdefault(_shape(block), [[]])
        if batches[-1] and sum(len(b.seeds) for b in (*batches[-1], block)) > most:
            batches.append([])
        batches[-1].append(block)
    return [tuple(batch) for batches in jobs.values() for batch in batches]


def _shape(block: Block) -> str:
    """Equal for blocks that may share a batch."""
    method = block.method_values
    if isinstance(method, Peer):
        return block.key
    # What corrects nothing may run beside the plain correction: it is that with a gate that never opens.
    correction = KAPPASHARP if method.correction.weights is Weights.NONE else method.correction
    gate = method.gate if method.gate.rule is Rule.VALIDATED else Gate()
    alike = replace(method, correction=correction, gate=gate)
    plan = block.start
    problem = find_problem(block.problem)
    # A simulation runs on the CPU: it must not keep a batch of others waiting. A batch has the outcomes of one problem.
    alone = block.problem if problem.is_simulated or method.use_outcomes else ""
    sizes = (problem.dimensions, plan.n_points, plan.n_comparisons, block.asked, block.settling)
    values = (problem.steps, problem.choices, problem.people)
    return digest([sizes, alone, values, plain(alike), plain(block.preset_values), plain(block.person)])


def cells(experiment: Experiment) -> list[Cell]:
    """Every run of the experiment."""
    return [cell for block in blocks(experiment) for cell in cells_of(block)]


def cells_of(block: Block) -> Iterator[Cell]:
    """The block's runs one by one."""
    for seed, key in zip(block.seeds, block.keys, strict=True):
        yield Cell(block.problem, block.initialization, block.method, block.preset, seed, key)


def missing(wanted: Iterable[Block], stored: set[str]) -> list[Block]:
    """What is left of every block: resume = wanted keys − stored keys. A peer is wanted once, under all presets."""
    left, known = [], set(stored)
    for block in wanted:
        pairs = [pair for pair in zip(block.seeds, block.keys, strict=True) if pair[1] not in known]
        known.update(block.keys)
        if pairs:
            seeds, keys = zip(*pairs, strict=True)
            left.append(replace(block, seeds=seeds, keys=keys))
    return left


def _block(
    experiment: Experiment, problem: str, initialization: str, method: str, preset: str, seeds: tuple[int, ...]
) -> Block:
    method_values, preset_values = experiment.methods[method], experiment.presets[preset]
    # A peer is its library, and brings its own model: our preset does not touch it.
    if isinstance(method_values, Peer):
        which = [method_values.library, method_values.versions, *filter(None, [method_values.loop])]
        models: dict[str, Any] = {"method": which, "preset": None}
    else:
        models = {"method": chosen(method_values), "preset": chosen(preset_values)}
    values = models | {
        "protocol": PROTOCOL,
        "problem": problem,
        "problem_version": find_problem(problem).version,
        "initialization": initialization,
        "person": chosen(experiment.who),
        "queries": experiment.queries,
    }
    if experiment.settling:
        values["settling"] = experiment.settling
    if experiment.suite:
        values["suite"] = experiment.suite
    if isinstance(method_values, Peer) and initialization == FROM_ZERO:
        values["first_pairs"] = preset_values.first_pairs
    keys = tuple(digest(values | {"seed": seed}) for seed in seeds)
    return Block(
        problem, initialization, method, preset, seeds, keys,
        method_values, preset_values, experiment.who, experiment.queries, experiment.settling, experiment.suite,
        experiment.limit,
    )  # fmt: skip


def _refuse_duplicates(found: list[Block]) -> None:
    seen: dict[str, Block] = {}
    for block in found:
        twin = seen.setdefault(block.keys[0], block)
        if twin is not block and not isinstance(block.method_values, Peer):
            names = [f"{b.method} under {b.preset}" for b in (twin, block)]
            raise InvalidValueError(
                f"Two cells of the experiment are the same run: {names[0]} and {names[1]} have the same values on "
                f"{block.problem}, {block.initialization}; leave one out."
            )
