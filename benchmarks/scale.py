"""One long study, and how the cost of a turn grows.

Times are those of the core, not of the clock: a machine that does other things too must not change the verdict. The
clock's stand beside them.

The long study has 2,000 answers in 20 dimensions, once about 400 designs (a person is asked about good ones again and
again) and once about 4,000 (every answer about two new ones). Each is opened and asked through a `Study`, and fitted
through `ks.fit` and `ks.ask`, in a process of its own whose peak memory counts, Python and torch included. Beside the
seconds stands what they were bought with: the evidence that one search over all answers from the start finds more.

    python -m benchmarks.scale                      # all of it, about five minutes
    python -m benchmarks.scale study 400            # one case, as JSON: study | fit | loss, 400 | 4000 designs
    python -m benchmarks.scale growth               # a study's turn by answers and designs, the table of docs/scale.md
"""

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch

import kappasharp as ks
from kappasharp.algorithm import fit
from kappasharp.inference import fit_space, hyperparameters
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import model_from
from kappasharp.journal.events import Answered, Asked
from kappasharp.randomness import stream

DIMENSIONS, ANSWERS, POINTS = 20, 2000, (400, 4000)
NOISE = 0.3
# The cost of a turn: a block of runs in TURN_DIMENSIONS, every answer about two new designs.
RUNS, TURN_DIMENSIONS, LENGTHS = 8, 6, (26, 50, 100, 200, 350, 500)
# A study by its answers; so many of all-new designs as long as they fit.
STUDIES = (50, 100, 200, 500, 1000, 2000, 5000)
REPEATS = {26: 9, 50: 7, 100: 5, 200: 3, 350: 1, 500: 1}


def utility(X):
    """A bowl, steeper in the first dimensions: length scales differ, none is irrelevant."""
    return -3.0 * (torch.linspace(2.0, 0.2, X.shape[-1]).to(X) * (X - 0.4).square()).sum(-1)


def answered(count, answers, dimensions, seed=0):
    """Uniform designs and noisy answers: all designs new, or any two of a few."""
    generator = stream(seed, "bench scale", f"{count} {answers} {dimensions}")
    X = torch.rand(count, dimensions, generator=generator, dtype=torch.float64)
    if count == 2 * answers:
        pairs = torch.arange(count).reshape(answers, 2)
    else:
        pairs = torch.stack([torch.randperm(count, generator=generator)[:2] for _ in range(answers)])
    felt = utility(X)[pairs] + NOISE * torch.randn(answers, 2, generator=generator, dtype=torch.float64)
    return X, torch.where((felt[:, :1] > felt[:, 1:]), pairs, pairs.flip(-1))


def timed(function, *arguments):
    """The result, and seconds of one core; beside them those on the clock, which a busy machine stretches."""
    clock, start = time.perf_counter(), time.process_time()
    result = function(*arguments)
    return result, {"core": time.process_time() - start, "clock": time.perf_counter() - clock}


def peak_mb():
    """The process's own peak. (getrusage would do, but Linux hands a parent's peak down to its children.)"""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- the long study ---------------------------------------------------------------------------------------------------


def write_study(url, count, answers, dimensions):
    """Store the long study, as if a person had answered pair after pair."""
    space = {f"x{i}": (0.0, 1.0) for i in range(dimensions)}
    study = ks.create_study(space, storage=url, study_name="long", first_pairs=2)
    X, pairs = answered(count, answers, dimensions)
    designs = [study.space.decode(row) for row in X.tolist()]
    with study.storage.transaction(study.stored) as transaction:
        for i, (winner, loser) in enumerate(pairs.tolist()):
            transaction.append("me", Asked(designs[winner], designs[loser], "start", 2 * i))
            transaction.append("me", Answered(2 * i + 1, "a"))
    study.storage.close()


def one_study(count, answers=ANSWERS, dimensions=DIMENSIONS):
    """Open the study and ask; then answer and ask again, a turn; then the best design."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'long.db'}"
        write_study(url, count, answers, dimensions)
        study, opened = timed(lambda: ks.load_study("long", storage=url))
        pair, asked = timed(study.ask)

        def turn():
            study.tell(pair, "a")
            return study.ask()

        _, turned = timed(turn)
        _, best = timed(lambda: study.best)
        study.storage.close()
    return {"open": opened, "ask": asked, "turn": turned, "best": best, "mb": peak_mb()}


def one_fit(count):
    """`ks.fit` and a proposal; then `ks.ask` from the same answers, which fits and proposes, and a turn after it."""
    X, pairs = answered(count, ANSWERS, DIMENSIONS)
    model, fitted = timed(ks.fit, X, pairs)
    _, proposed = timed(model.propose)
    status = model.status
    del model
    (question, state, _), asked = timed(ks.ask, ks.init(X, pairs))
    state = ks.tell(state, question, 0)
    (_, _, info), turned = timed(ks.ask, state)
    return {
        "fit": fitted, "propose": proposed, "ask": asked, "turn": turned, "mb": peak_mb(),
        "status": [*status, *info.status],
    }  # fmt: skip


def one_loss(count):
    """Nats by which one search in double precision over all answers, from the prior's mode, ends above the fit's."""
    X, pairs = (part.unsqueeze(0) for part in answered(count, ANSWERS, DIMENSIONS))
    model = model_from(ks.PRESETS["modern"])
    start = model.priors.start(DIMENSIONS).unsqueeze(0)
    with torch.inference_mode():
        ours = fit.fit(model, Answers(X, pairs))
        data = fit_space.choose(model, Answers(X, pairs)).gather()
        whole, seconds = timed(
            hyperparameters.search_at_once, model, data, [start], torch.zeros(1, ANSWERS, dtype=torch.float64)
        )
    whole = whole.hyper
    loss = float(whole.value - ours.hyper.value)
    return {"loss": loss, "loss_per_answer": loss / ANSWERS, "seconds": seconds, "rounds": int(whole.rounds)}


CASES = {"study": one_study, "fit": one_fit, "loss": one_loss}


def said(part):
    if isinstance(part, dict):
        return f"{part['core']:.2f} s ({part['clock']:.2f} on the clock)"
    return f"{part:.3g}" if isinstance(part, float) else part


def apart(case, count, *more):
    """A case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", case, str(count), *map(str, more)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]).stdout
    found = json.loads(text.splitlines()[-1])
    print(
        f"  {case} of {count} designs: {', '.join(f'{name} {said(part)}' for name, part in found.items())}", flush=True
    )
    return found


def long():
    """Both shapes through both doors. Fit and ask count together: that is how long somebody waits."""
    seconds, megabytes, parts, loss = {}, {}, {}, {}
    for count in POINTS:
        study, fit, lost = (apart(case, count) for case in CASES)
        seconds |= {
            f"study {count}": study["open"]["core"] + study["ask"]["core"],
            f"study turn {count}": study["turn"]["core"],
            f"fit+propose {count}": fit["fit"]["core"] + fit["propose"]["core"],
            f"ask {count}": fit["ask"]["core"],
        }
        megabytes |= {f"study {count}": study["mb"], f"fit {count}": fit["mb"]}
        parts[str(count)] = {"study": study, "fit": fit, "loss": lost}
        loss[str(count)] = lost["loss_per_answer"]
    return {
        "long_study_s": {name: round(value, 2) for name, value in seconds.items()},
        "long_study_mb": {name: round(value) for name, value in megabytes.items()},
        "long_study_evidence_loss": loss,
        "long_study_parts": parts,
    }


# --- how the cost grows -----------------------------------------------------------------------------------------------


def turn_seconds(answers):
    """The shortest of a few asks of a block of RUNS with this many answers each, a run."""
    starts = [answered(2 * answers, answers, TURN_DIMENSIONS, seed) for seed in range(RUNS)]
    state = ks.init(*(torch.stack(part) for part in zip(*starts, strict=True)), seeds=range(RUNS))
    return min(timed(ks.ask, state)[1]["core"] for _ in range(REPEATS[answers])) / RUNS


def growth():
    """Seconds of one ask a run by number of answers, and the slope of their logarithms: overall and step by step."""
    seconds = {n: turn_seconds(n) for n in LENGTHS}
    x, y = ([math.log(v) for v in part] for part in (seconds, seconds.values()))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
    steps = {f"{n}-{k}": (y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i, (n, k) in enumerate(pairwise(LENGTHS))}
    for n, value in seconds.items():
        print(f"  {n:4} answers: {value * 1e3:8.1f} ms a run", flush=True)
    print(f"  exponent {slope:.2f}; step by step " + ", ".join(f"{k}: {v:.2f}" for k, v in steps.items()), flush=True)
    return {
        "cost_exponent": slope,
        "cost_exponent_by_step": steps,
        "cost_seconds_per_run": {str(n): value for n, value in seconds.items()},
    }


def study_growth():
    """Rows of a table: a study opened, asked for the first time, and a turn; with the slopes of their logarithms."""
    for words, designs, lengths in (("each new", None, STUDIES[:-1]), ("200", 200, STUDIES)):
        before = None
        for answers in lengths:
            found = apart("study", designs or 2 * answers, answers, TURN_DIMENSIONS)
            now = [found[part]["core"] for part in ("open", "ask", "turn")] + [found["mb"]]
            cells = [f"{1e3 * one:,.0f}" for one in now[:3]] + [f"{now[3]:,.0f}"]
            if before is not None:
                wider = math.log(answers / before[0])
                slopes = [math.log(b / a) / wider for a, b in zip(before[1], now, strict=True)]
                cells = [f"{cell} ({slope:.1f})" for cell, slope in zip(cells, slopes, strict=True)]
            print(f"| {answers:,} | {words} | {' | '.join(cells)} |", flush=True)
            before = answers, now


def scale():
    """All of it, as `make bench` wants it."""
    return long() | growth()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["growth"]:
        study_growth()
    elif len(sys.argv) > 1:
        print(json.dumps(CASES[sys.argv[1]](*map(int, sys.argv[2:]))))
    else:
        print(json.dumps(scale(), indent=2))
