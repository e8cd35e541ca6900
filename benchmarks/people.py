"""Juries of simulated people: told apart against all answers alike. (docs/results/people.md)

python -m benchmarks.people run FILE [--problems a,b] [--cells 3-shared,…] [--seeds 60] [--workers 2] [--seconds 3600]
                                             [--device cuda] [--batch 20]
python -m benchmarks.people table FILE … [--measures mean,worst,own]
python -m benchmarks.people pack FILE … --out docs/results/people/runs.parquet
python -m benchmarks.people summary FILE …   benchmarks/people.json
python -m benchmarks.people turn             seconds of a fit of 20 voters × 30 answers, told apart and pooled

`run` adds to FILE, line by line, what is not in it yet; the others read such files and packed ones. A cell may end with
how many answers each of its people gives, as 10-clustered-20; without that the first protocol's numbers hold. Of the
juries `keen` (independent tastes) and `loud` (clustered ones) somebody gives more answers than the others.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks import paired
from benchmarks.gpu import start_mps, stop_mps
from kappasharp.algorithm import fit, loop, voters
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import model_from
from kappasharp.lab.run import commit
from kappasharp.problems import initial_designs
from kappasharp.problems.registry import PROBLEMS, find_problem
from kappasharp.problems.simulated_voters import reflected
from kappasharp.settings import find_method, find_preset

# People, and how many questions they are asked in all.
QUESTIONS = {3: 40, 10: 60, 30: 120}
CELLS = ("3-shared", "3-clustered", "3-independent", "3-careless", "10-shared", "10-clustered", "10-independent",
         "10-careless", "30-shared", "30-clustered", "30-careless")  # fmt: skip
FIRST, NOISE, FIRST_SEED, BATCH = 5, 0.1, 12000, 20
# Juries in which everybody answers as often as one person alone would.
LONGER = ("3-shared-30", "3-clustered-30", "3-independent-30", "3-careless-30", "10-shared-20", "10-clustered-20",
          "10-independent-20", "10-careless-20")  # fmt: skip
# Juries in which not all answer equally often.
UNEVEN = ("3-keen", "3-loud", "3-keen-30", "3-loud-30", "10-keen", "10-loud", "10-keen-20", "10-loud-20")
# How far a taste of one's own is moved at most.
MOST = 0.4
# `common` asks what tells most about all, `people` about whoever is asked; `late` asks as `pooled` does and tells them
# apart in the end alone.
FILE = Path(__file__).parent / "people.json"
METHODS = ("pooled", "people", "common", "late")


def jury(cell):
    """How many people a cell has, of what kind, and how many questions they are asked in all."""
    people, kind, *each = cell.split("-")
    return int(people), kind, int(people) * int(each[0]) if each else QUESTIONS[int(people)]


def turns(cell):
    """Who is asked each question: all in turn, or mostly the second, three times of five or every other time."""
    people, kind, questions = jury(cell)
    if kind not in ("keen", "loud"):
        return [turn % people for turn in range(questions)]
    others = itertools.cycle(voter for voter in range(people) if voter != 1)
    often = (1, 0, 1, 0, 1) if people == 3 else (1, 0)
    return [1 if often[turn % len(often)] else next(others) for turn in range(questions)]


def moved(cell, problem, seed):
    """How far each voter's taste (V, d) lies from the problem's own, as shares of the cube."""
    people, kind, _ = jury(cell)
    chance = torch.Generator().manual_seed(seed)
    moves = MOST * (2.0 * torch.rand(people, find_problem(problem).dimensions, generator=chance).double() - 1.0)
    if kind in ("independent", "keen"):
        return moves
    if kind in ("clustered", "loud"):
        # A third of them, one at least, have another taste.
        return moves[:1] * (torch.arange(people) % 3 == 1).unsqueeze(-1)
    return torch.zeros_like(moves)


def utilities(problem, moves, X):
    """What every voter of every run, moves (runs, V, d), feels about designs (runs, q, d): (runs, q, V)."""
    return find_problem(problem).unit_utility(reflected(X.unsqueeze(2) + moves.unsqueeze(1)))


def play(problem, cell, method, seeds, device="cpu"):
    """One row a seed: what is told in the end, by what it is to the careful members of the jury."""
    torch.set_num_threads(1)
    begin = time.monotonic()
    people, kind, _ = jury(cell)
    device = "cpu" if find_problem(problem).is_simulated else device
    moves = torch.stack([moved(cell, problem, seed) for seed in seeds]).to(device)
    chances = [torch.Generator().manual_seed(seed) for seed in seeds]
    chosen = replace(find_method("baseline"), tell_apart=method in ("people", "common"))
    state = loop.begin(len(seeds), moves.shape[-1], method=chosen, preset="modern", seeds=seeds, device=device)
    first = initial_designs.designs(find_problem(problem), seeds, FIRST, 2).to(device)
    converged = torch.ones(len(seeds), dtype=torch.bool, device=device)
    who = turns(cell)
    for turn, voter in enumerate(who):
        if turn < FIRST:
            question, state = loop.show(state, first[:, turn])
        else:
            learnt = loop.learn(state)
            converged &= learnt.fit.hyper.converged & learnt.fit.map.dual.converged
            learnt = loop.seen_by(learnt, voter) if method == "people" else learnt
            question, state, _ = loop.question_from(state, learnt)
        felt = utilities(problem, moves[:, voter : voter + 1], question.points)[..., 0]
        numbers = torch.stack([torch.randn(2, generator=one, dtype=torch.float64) for one in chances])
        lots = torch.stack([torch.randint(2, (), generator=one) for one in chances])
        answer = (felt + NOISE * numbers.to(device)).argmax(-1)
        state = loop.tell(
            state, question, lots.to(device) if kind == "careless" and voter == 1 else answer, voter=voter
        )
    if method == "late":
        apart, given = replace(state.method, tell_apart=True), torch.tensor(who, device=device)
        state = replace(state, method=apart, voters=given, preset=replace(state.preset, cold_fit=True))
    learnt = loop.learn(state)
    told = fair = loop.leader(state, learnt)
    rho = [None] * len(seeds)
    if learnt.fit.people is not None:
        has_won = loop.won(state)
        fair = voters.losses(learnt.fit).amax(-1).masked_fill(~has_won, torch.inf).argmin(-1)
        rho = learnt.fit.people.rho.tolist()
    rows = torch.arange(len(seeds), device=device)
    careful = [v for v in range(people) if kind != "careless" or v != 1]
    common, fairest = (
        utilities(problem, moves, state.points[rows, at].unsqueeze(1))[:, 0, careful] for at in (told, fair)
    )
    own = torch.stack([told_to(problem, moves, state, learnt, voter) for voter in careful], -1)
    spent = (time.monotonic() - begin) / len(seeds)
    return [
        {
            "problem": problem, "cell": cell, "method": method, "seed": seed, "mean": float(common[i].mean()),
            "worst": float(fairest[i].min()), "worst_of_best": float(common[i].min()), "own": float(own[i].mean()),
            "rho": rho[i], "ok": bool(converged[i]), "seconds": round(spent, 2), "commit": commit(), "device": device,
        }
        for i, seed in enumerate(seeds)
    ]  # fmt: skip


def told_to(problem, moves, state, learnt, voter):
    """What the design that is told to be best for one voter is worth to that voter, in every run."""
    rows, told = torch.arange(len(moves), device=moves.device), loop.leader(state, loop.seen_by(learnt, voter))
    return utilities(problem, moves[:, voter : voter + 1], state.points[rows, told].unsqueeze(1))[:, 0, 0]


def read(paths):
    return [row for path in map(Path, paths) for row in _rows(path)]


def _rows(path):
    if path.suffix == ".parquet":
        return pq.read_table(path, use_threads=False).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


def pack(options):
    """The runs of files in one small one."""
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(read(options.files)), options.out, compression="zstd", write_page_checksum=True)


def summary(options):
    """benchmarks/people.json, from runs: problems won and lost by the common best's mean utility, over all juries."""
    rows = read(options.files)
    gains = {cell: mean_gains(rows, cell) for cell in CELLS}
    counted = {cell: paired.counts(found)[1] for cell, found in gains.items() if found}
    values = {
        "wins": sum(won for won, _ in counted.values()),
        "losses": sum(lost for _, lost in counted.values()),
        "careless_wins": max(counted[cell][0] for cell in counted if cell.endswith("careless")),
        "by_jury": counted,
        "uneven": {cell: paired.counts(mean_gains(rows, cell))[1] for cell in UNEVEN if mean_gains(rows, cell)},
        "runs": len(rows),
        "runs_not_ok": sum(not row["ok"] for row in rows),
    }
    note(values)
    print(FILE.read_text())


def mean_gains(rows, cell):
    found = by_method(rows, cell)
    return paired.gains(found["people"], found["pooled"], lambda row: row["mean"])


def note(values):
    """Write these values beside those that are there."""
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps(before | values, indent=2, sort_keys=True) + "\n")


def run(options):
    path, begin = Path(options.files[0]), time.monotonic()
    path.touch()
    jobs = list(batches(options, {(row["problem"], row["cell"], row["method"], row["seed"]) for row in read([path])}))
    print(f"{len(jobs)} batches to do", flush=True)
    with contextlib.ExitStack() as ending:
        if options.device == "cuda" and start_mps():
            ending.callback(stop_mps)
        pool = ending.enter_context(ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")))
        out = ending.enter_context(path.open("a"))
        waiting = {pool.submit(play, *job, options.device): job for job in jobs}
        for count, future in enumerate(as_completed(waiting), 1):
            for row in future.result():
                out.write(json.dumps(row) + "\n")
            out.flush()
            spent = time.monotonic() - begin
            print(f"{count} of {len(jobs)}, {spent:.0f} s: {waiting[future][:3]}", flush=True)
            if options.seconds and spent > options.seconds:
                pool.shutdown(wait=True, cancel_futures=True)
                break


def batches(options, done):
    """What is asked for and not done yet: problem, cell, method and seeds that run together."""
    seeds, cells, names = range(options.first_seed, options.first_seed + options.seeds), options.cells, options.methods
    for at in range(0, len(seeds), options.batch):
        for of in itertools.product(options.problems.split(","), cells.split(","), names.split(",")):
            left = [seed for seed in seeds[at : at + options.batch] if (*of, seed) not in done]
            if left:
                yield *of, left


def by_method(rows, cell):
    """method → problem → seed → row, as `paired` reads them."""
    found = {name: {} for name in METHODS}
    for row in rows:
        if row["cell"] == cell:
            found[row["method"]].setdefault(row["problem"], {})[row["seed"]] = row
    return found


def table(options):
    """Every cell: problems won and lost by the measures asked for, after Holm over its problems."""
    rows, names = read(options.files), options.measures.split(",")
    print("| jury | problems | seeds |" + "".join(f" {name}: won, lost | gain |" for name in names) + " ρ |")
    print("| --- |" + " ---: |" * (3 + 2 * len(names)))
    for cell in (*CELLS, *LONGER, *UNEVEN):
        found = by_method(rows, cell)
        parts = {name: paired.gains(found["people"], found["pooled"], lambda row, n=name: row[n]) for name in names}
        if not parts[names[0]]:
            continue
        seeds = min(len(s) for s in paired.shared(found["people"], found["pooled"]).values())
        cells = []
        for part in parts.values():
            won, lost = paired.counts(part)[1]
            cells += [f"{won}, {lost}", f"{np.mean([one[0] for one in part.values()]):+.2f}"]
        rho = np.mean([row["rho"] for runs in found["people"].values() for row in runs.values()])
        print(f"| {cell} | {len(parts[names[0]])} | {seeds} | {' | '.join(cells)} | {rho:.2f} |")


def turn(options):
    """A warm fit of 20 voters × 30 answers, told apart and pooled, in turns."""
    torch.set_num_threads(1)
    chance = torch.Generator().manual_seed(0)
    X = torch.rand(1, 600, 6, generator=chance, dtype=torch.float64)
    felt = -4.0 * (X - 0.3).square().sum(-1)[0]
    pairs = torch.stack([torch.randperm(600, generator=chance)[:2] for _ in range(600)])
    noise = 0.2 * torch.randn(600, generator=chance, dtype=torch.float64)
    turned = felt[pairs[:, 0]] - felt[pairs[:, 1]] + noise < 0.0
    pairs[turned] = pairs[turned].flip(-1)
    model, who = model_from(find_preset("modern")), torch.arange(600) % 20
    times = {name: [] for name in METHODS}
    before = Answers(X, pairs[None, :590])
    pooled, apart = fit.fit(model, before), voters.fit(model, before, who[:590])
    answers = Answers(X, pairs[None])
    del options
    for _ in range(5):
        start = time.perf_counter()
        fit.fit(model, answers, theta=pooled.hyper.theta, z=pooled.map.dual.z, cold=False)
        middle = time.perf_counter()
        found = apart.people
        tastes = found.hyper.theta[:, found.alone.shape[1] :]
        voters.fit(model, answers, who, theta=found.alone, tastes=tastes, z=found.dual.z, cold=False)
        times["pooled"].append(middle - start)
        times["people"].append(time.perf_counter() - middle)
    medians = {name: float(np.median(seconds)) for name, seconds in times.items()}
    ratio = medians["people"] / medians["pooled"]
    note({"turn_ratio": round(ratio, 2)})
    print(f"pooled {medians['pooled']:.2f} s, told apart {medians['people']:.2f} s: {ratio:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "pack", "table", "summary", "turn"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--out")
    parser.add_argument("--measures", default="mean,worst")
    parser.add_argument("--methods", default="pooled,people")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=BATCH, help="most runs in lockstep")
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    if options.verb != "turn" and not options.files:
        parser.error(f"{options.verb} needs a file.")
    {"run": run, "pack": pack, "table": table, "summary": summary, "turn": turn}[options.verb](options)


if __name__ == "__main__":
    main()
