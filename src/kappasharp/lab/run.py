"""One block: a simulated person answers the questions of many runs in lockstep. Pure: cells in, rows out.

Needs nothing but torch, so that it runs on a bare machine.
"""

import json
import time
from typing import Any

import torch
from torch import Tensor

from kappasharp.lab import peers, provenance
from kappasharp.lab.grid import Block, plain
from kappasharp.methods.loop import NEW, Info, Question, ask, init, tell
from kappasharp.methods.method import Method
from kappasharp.problems import initial, oracle
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import problem as problem_named

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
OK, ERROR = "ok", "error"


def run_block(block: Block, device: str = "cpu") -> list[Row]:
    """Every run of the block, as one row of plain data each."""
    torch.set_num_threads(1)
    begin = time.perf_counter()
    problem = problem_named(block.problem)
    method = block.method_values
    if isinstance(method, Method):
        records = _lockstep(block, method, problem, device)
    else:
        records = peers.run(method, problem, block)
    seconds = (time.perf_counter() - begin) / len(block.seeds)
    shared = _shared(block, problem, device) | {"seconds": seconds, "block_runs": len(block.seeds)}
    return [
        shared | {"seed": seed, "key": key} | record
        for seed, key, record in zip(block.seeds, block.keys, records, strict=True)
    ]


def error_rows(block: Block, error: BaseException | None) -> list[Row]:
    """The rows of a block that could not be run: what happened, and no numbers. They do not count as done."""
    shared = _shared(block, problem_named(block.problem), "none")
    nothing: Row = {name: [] for name in ("best_utility", "step_status", *TRACES, *FURTHER)}
    words = f"{type(error).__name__}: {error}"
    scalars = {"status": ERROR, "error": words, "failed_steps": 0, "initial_best": None, "final_best": None}
    return [
        shared | nothing | scalars | {"seconds": 0.0, "block_runs": len(block.seeds), "seed": seed, "key": key}
        for seed, key in zip(block.seeds, block.keys, strict=True)
    ]


def _lockstep(block: Block, method: Method, problem: Problem, device: str) -> list[Row]:
    start = initial.start(problem, block.initialization, block.seeds, block.person)
    ties = start.ties if bool(start.ties.any()) else None
    state = init(
        start.points.to(device), start.comparisons, method=method, preset=block.preset_values,
        seeds=block.seeds, ties=ties,
    )  # fmt: skip
    chance = torch.stack([oracle.draws(problem.name, seed, "oracle noise", block.queries) for seed in block.seeds])
    seen = start.utility
    infos: list[Info] = []
    best = [seen.amax(1)]
    for step in range(block.queries):
        question, state, info = ask(state)
        utility, seen = judge(problem, question, seen)
        state = tell(state, question, oracle.answer(block.person, utility, chance[:, step]))
        infos.append(info)
        best.append(seen.amax(1))
    return _records(torch.stack(best, 1), infos)


def judge(problem: Problem, question: Question, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Utilities (runs, 2) of a question's designs, and of all designs seen; known designs are not run again."""
    known = question.known.cpu()
    fresh = known[0] == NEW  # the same for every run of a block
    new = problem.unit_utility(question.points[:, fresh].cpu().double())
    utility = torch.empty(known.shape, dtype=torch.float64)
    utility[:, fresh] = new
    if not bool(fresh.all()):
        utility[:, ~fresh] = seen.gather(1, known[:, ~fresh])
    return utility, torch.cat([seen, new], 1)


def _records(best: Tensor, infos: list[Info]) -> list[Row]:
    """One record per run from the steps' values."""
    traces = {name: torch.stack([getattr(info, name).cpu() for info in infos], 1) for name in (*TRACES, *FURTHER)}
    words = list(zip(*(info.status for info in infos), strict=True))
    records = []
    for run in range(len(best)):
        failed = [word for word in words[run] if word != OK]
        records.append(
            {name: trace[run].tolist() for name, trace in traces.items()}
            | {
                "best_utility": best[run].tolist(),
                "initial_best": float(best[run, 0]),
                "final_best": float(best[run, -1]),
                "step_status": list(words[run]),
                "status": max(set(failed), key=failed.count) if failed else OK,
                "failed_steps": len(failed),
                "error": None,
            }
        )
    return records


def _shared(block: Block, problem: Problem, device: str) -> Row:
    """What every row of the block has in common: what it is a run of, and what it was run by."""
    return {
        "problem": block.problem,
        "problem_version": problem.version,
        "initialization": block.initialization,
        "method": block.method,
        "preset": block.preset,
        "queries": block.queries,
        "method_values": json.dumps(plain(block.method_values), sort_keys=True),
        "preset_values": json.dumps(plain(block.preset_values), sort_keys=True),
        "person": json.dumps(plain(block.person), sort_keys=True),
        **provenance.machine(device),
    }
