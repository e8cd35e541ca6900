"""What a GPU's runs must have in common with the CPU's; plain functions, which need no pytest."""

from dataclasses import replace
from typing import NamedTuple

import torch
from scipy import stats

from kappasharp.lab import experiment, grid
from kappasharp.lab.run import judge, run_together
from kappasharp.methods import loop
from kappasharp.problems import initial, oracle
from kappasharp.problems.registry import find_problem

PROBLEMS = ("hartmann-6d", "levy-10d", "dtlz2-16d")
STEPS = 10


def trajectory(
    name: str, seeds: list[int], device: str, method: str = "baseline", preset: str = "modern"
) -> torch.Tensor:
    """Every question's designs (runs, STEPS, 2, d) of a block on a device."""
    problem, person = find_problem(name), oracle.person("paper")
    start = initial.start(problem, "pool_n6_k15", seeds, person)
    chance = torch.stack([oracle.draws(name, seed, "oracle noise", STEPS) for seed in seeds])
    state = loop.init(start.points.to(device), start.comparisons, method=method, preset=preset, seeds=seeds)
    seen, asked = start.utility, []
    for step in range(STEPS):
        question, state, _ = loop.ask(state)
        utility, seen = judge([(problem, len(seeds))], question, seen)
        state = loop.tell(state, question, oracle.answer(person, utility, chance[:, step]))
        asked.append(question.points.cpu())
    return torch.stack(asked, 1)


def step_by_step(
    name: str, seeds: list[int], device: str = "cuda", method: str = "baseline", preset: str = "modern"
) -> float:
    """The largest difference of any design in the first questions: a block on the device, its runs one by one here."""
    there = trajectory(name, seeds, device, method, preset)
    here = torch.cat([trajectory(name, [seed], "cpu", method, preset) for seed in seeds])
    return float((there - here).abs().max())


def each_step(name: str, seeds: list[int], method: str, preset: str, device: str = "cuda") -> float:
    """The largest difference of any design when every question is asked there from the state that a run has here.

    For methods whose runs are chaotic: a difference in the last digit grows a thousandfold and more with a question.
    """
    problem, person = find_problem(name), oracle.person("paper")
    start = initial.start(problem, "pool_n6_k15", seeds, person)
    chance = torch.stack([oracle.draws(name, seed, "oracle noise", STEPS) for seed in seeds])
    state = loop.init(start.points, start.comparisons, method=method, preset=preset, seeds=seeds)
    seen, worst = start.utility, 0.0
    for step in range(STEPS):
        there = loop.ask(_moved(state, device))[0]
        question, state, _ = loop.ask(state)
        worst = max(worst, float((there.points.cpu() - question.points).abs().max()))
        utility, seen = judge([(problem, len(seeds))], question, seen)
        state = loop.tell(state, question, oracle.answer(person, utility, chance[:, step]))
    return worst


def _moved(state: loop.State, device: str) -> loop.State:
    tensors = {key: value.to(device) for key, value in vars(state).items() if isinstance(value, torch.Tensor)}
    return replace(state, **tensors)


class Paired(NamedTuple):
    """Mean final utilities here and there, and the paired test's p."""

    cpu: float
    device: float
    p: float


def in_distribution(name: str, seeds: int = 60, device: str = "cuda", queries: int = 50) -> Paired:
    """Runs of the same seeds on both, as long as the paper's: do their final best utilities differ?"""
    chosen = {
        "problems": [name], "initializations": ["pool_n6_k15"], "methods": ["baseline"], "presets": ["modern"],
        "seeds": seeds, "queries": queries,
    }  # fmt: skip
    blocks = grid.blocks(experiment.parse("contract", chosen))
    here, there = (
        torch.tensor([row["final_best"] for row in run_together(blocks, where)[0]]) for where in ("cpu", device)
    )
    same = bool(torch.equal(here, there))
    p = 1.0 if same else float(stats.ttest_rel(here.numpy(), there.numpy()).pvalue)
    return Paired(float(here.mean()), float(there.mean()), p)
