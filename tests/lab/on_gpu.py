"""What a GPU's runs must have in common with the CPU's; plain functions, which need no pytest."""

from dataclasses import replace
from typing import NamedTuple

import torch
from scipy import stats

from kappasharp.algorithm import loop, state
from kappasharp.lab import experiment, grid
from kappasharp.lab.run import Step, play, run_together

PROBLEMS = ("hartmann-6d", "levy-10d", "dtlz2-16d")
STEPS = 10


def trajectory(
    name: str, seeds: list[int], device: str, method: str = "baseline", preset: str = "modern"
) -> torch.Tensor:
    """Every question's designs (runs, STEPS, 2, d) of a block on a device."""
    steps = play([block(name, seeds, method, preset)], device)
    return torch.stack([step.question.points.cpu() for step in steps], 1)


def block(name: str, seeds: list[int], method: str, preset: str) -> grid.Block:
    chosen = {
        "problems": [name], "initializations": ["pool_n6_k15"], "methods": [method], "presets": [preset],
        "seeds": seeds, "queries": STEPS,
    }  # fmt: skip
    (found,) = grid.blocks(experiment.parse("contract", chosen))
    return found


def step_by_step(
    name: str, seeds: list[int], device: str = "cuda", method: str = "baseline", preset: str = "modern"
) -> float:
    """The largest difference of any design in the first questions: a block on the device, its runs one by one here."""
    there = trajectory(name, seeds, device, method, preset)
    here = torch.cat([trajectory(name, [seed], "cpu", method, preset) for seed in seeds])
    return float((there - here).abs().max())


class Difference(NamedTuple):
    """The largest difference of any design: there and here, and here where designs were rounded otherwise before."""

    there: float
    rounded: float


def each_step(name: str, seeds: list[int], method: str, preset: str, device: str = "cuda") -> Difference:
    """Every question asked there from the state that a run has here.

    For methods whose runs are chaotic: a difference in the last digit grows a thousandfold and more with a question,
    and moves one question in eighty by 1e-5. So it is told beside it what such a difference does here.
    """
    found = [
        Difference(
            _moves(step, _on(step.before, device)), max(_moves(step, _rounded(step.before, k)) for k in range(3))
        )
        for step in play([block(name, seeds, method, preset)])
    ]
    return Difference(*map(max, zip(*found, strict=True)))


def _moves(step: Step, state: state.State) -> float:
    return float((loop.ask(state)[0].points.cpu() - step.question.points).abs().max())


def _rounded(state: state.State, seed: int) -> state.State:
    """Every coordinate one half of a unit in the last place of 1 further down or up, or where it was."""
    draw = torch.Generator().manual_seed(seed)
    return replace(state, points=state.points + (torch.randint(3, state.points.shape, generator=draw) - 1) * 2.0**-53)


def _on(state: state.State, device: str) -> state.State:
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
