"""`kappasharp demo`: a simulated person tunes a PID controller by comparing step responses, two at a time.

The study knows four outcomes of each response, and learns the taste on them.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click
import torch
from torch import Tensor

from kappasharp import rehearsal
from kappasharp.analysis import Moment
from kappasharp.app.examples import pid
from kappasharp.cli.output import best_table, in_words, say, show
from kappasharp.errors import StorageError
from kappasharp.journal.question import StudyQuestion
from kappasharp.problems import simulated_voters
from kappasharp.problems.step_response import SECONDS, STEPS, simulate
from kappasharp.questions.kind import Answer
from kappasharp.randomness import stream
from kappasharp.results.best import Best
from kappasharp.settings import DEFAULT_METHOD, DEFAULT_PRESET, Method, find_method
from kappasharp.study import collection
from kappasharp.study.study import Study
from kappasharp.views import charts, report

GAINS = pid.SPACE
SETTLING_TIME = 3.0
# The person cannot tell responses apart whose scores differ by much less than this.
PERSON_NOISE = 0.05
PERSON = simulated_voters.Person(noise=PERSON_NOISE)
NAME, DATABASE, REPORT = "pid", "study.db", "report.html"
PLOT_WIDTH, PLOT_HEIGHT = 64, 9
# Words for a fit that converged: a search through a simulation ends with its budget, and has no certificate to give.
FITTED = ("ok", "acquisition_not_converged")


class DemoStep(NamedTuple):
    """One answered question: how many so far, whether its fit converged, the best score among the designs seen."""

    answered: int
    certified: bool
    best_score: float


def gains_of(design: Mapping[str, Any]) -> Tensor:
    """A design's gains."""
    return torch.tensor([float(design[name]) for name in GAINS], dtype=torch.float64)


def step_response(gains: Tensor) -> tuple[Tensor, Tensor]:
    """Position and actuator force (…, STEPS) after a unit step."""
    position, force = (torch.from_numpy(track).to(gains) for track in simulate(gains.reshape(-1, len(GAINS)).numpy()))
    return position.reshape(*gains.shape[:-1], STEPS), force.reshape(*gains.shape[:-1], STEPS)


def score(gains: Tensor) -> Tensor:
    """What the simulated person feels and never says: quick, little overshoot, settled at the target, no violence."""
    response, force = step_response(gains)
    time = torch.linspace(0.0, SECONDS, STEPS, dtype=gains.dtype)
    error = (1.0 - response).abs().clamp(max=3.0)
    overshoot = (response.amax(-1) - 1.0).clamp(0.0, 3.0)
    late = (error * (time > SETTLING_TIME)).mean(-1)
    violence = force.diff(dim=-1).abs().sum(-1)
    return -(error.mean(-1) * 3.0 + overshoot * 2.0 + late * 6.0 + violence * 0.04)


def answer(pair: StudyQuestion, seed: int) -> Answer:
    """Which of two designs the person prefers today; or what they say to a question of another kind."""
    if not pair.form.is_pair:
        chance = simulated_voters.draws("demo", seed, str(pair.number), 1)[0]
        further = simulated_voters.further_draws("demo", seed, pair.number, simulated_voters.STEPS)
        return rehearsal.answer(pair, lambda design: float(score(gains_of(design))), PERSON, chance, further)
    noise = torch.randn(2, generator=stream(seed, "demo person", str(pair.number)), dtype=torch.float64)
    felt = score(torch.stack([gains_of(pair.a), gains_of(pair.b)])) + PERSON_NOISE * noise
    return "a" if felt[0] > felt[1] else "b"


def start(
    folder: Path,
    seed: int,
    *,
    method: str = DEFAULT_METHOD,
    preset: str = DEFAULT_PRESET,
    question: str = "pair",
) -> Study:
    """A new study in a database in that folder; what an earlier demonstration left there goes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} could not be made: {error.strerror or error}.") from error
    storage = collection.storage_of(f"sqlite:///{folder / DATABASE}")
    if NAME in {record.name for record in storage.studies()}:
        collection.delete_study(NAME, storage=storage)
    options = {"seed": seed, "method": method, "preset": preset, "question": question}
    # A correction and hints exclude each other.
    is_plain = find_method(method).correction == Method().correction
    options["outcomes"] = pid.OUTCOMES if is_plain else pid.OUTCOMES["function"]
    return collection.create_study(GAINS, storage=storage, study_name=NAME, **options)  # type: ignore[arg-type]


def tune(study: Study, questions: int) -> Iterator[DemoStep]:
    """Ask and answer, one question at a time."""
    best = -torch.inf
    for count in range(1, questions + 1):
        pair = study.ask()
        study.tell(pair, answer(pair, study.definition.seed))
        memo = study.history.asked[pair.number][1].memo
        best = max(best, *(float(score(gains_of(design))) for design in pair.designs))
        yield DemoStep(count, memo is None or memo["status"] in FITTED, best)


def responses(now: Moment) -> report.Section:
    """The best design's response beside those of the first pair."""
    first = next(iter(now.history.asked.values()))[0]
    shown = (
        ("first pair's A", "faint", first.a),
        ("first pair's B", "faint", first.b),
        ("best so far", "first", now.best_params),
    )
    every = SECONDS / STEPS
    given = []
    for label, kind, design in shown:
        track = step_response(gains_of(design))[0].tolist()
        given.append(charts.Curve(label, kind, [(i * every, y) for i, y in enumerate(track)][::4]))
    top = 1.1 * max(1.0, *(y for curve in given for _, y in curve.points))
    chart = charts.curves(
        given,
        charts.Scale(0.0, top, [(0.0, "0"), (1.0, "target")]),
        label="Step responses: the first pair, dashed, and the best design",
        across="seconds",
    )
    return report.Section("Its step response", charts.html(chart))


def run(questions: int, seed: int, method: str, preset: str, out: Path, style: str, *, question: str) -> None:
    """The whole demonstration: the study, what was found, the report."""
    with in_words():
        study = start(out, seed, method=method, preset=preset, question=question)
        what = "pairs" if study.definition.form.is_pair else f"questions ({study.definition.form})"
        say(f"A simulated person compares {questions} {what} of step responses. It never sees a number.")
        latest = DemoStep(0, True, 0.0)
        certified = True
        with click.progressbar(
            tune(study, questions),
            length=questions,
            label="comparing",
            item_show_func=lambda item: None if item is None else f"best score so far {item.best_score:.3f}",
            file=sys.stderr,
        ) as bar:
            for latest in bar:
                certified = certified and latest.certified
        now = study.moment()
        best = now.best
        certified = certified and best.status == "ok"
        first = next(iter(now.history.asked.values()))[0]
        scores = [float(score(gains_of(one))) for one in (best.params, first.a, first.b)]
        lines = _lines(best, scores, certified=certified)
        written = report.write_html(now, out / REPORT, [responses(now)])
    data = {"study": NAME, "storage": study.storage.url, "report": str(written), "questions": questions}
    found = {"score": scores[0], "first_score": max(scores[1:]), "certified": certified, "best": asdict(best)}
    show(style, data | found, [*lines, "", f"The study is in {out / DATABASE}, its report in {written}."])


def _lines(best: Best, scores: list[float], *, certified: bool) -> list[str]:
    """What was found, for people."""
    fits = "Every fit carried" if certified else "NOT every fit carried"
    return [
        "",
        "Best controller found",
        *(f"  {line}".rstrip() for line in best_table(best)),
        "",
        f"The person's hidden score: {scores[0]:.3f} (the first pair's better one: {max(scores[1:]):.3f}).",
        f"{fits} its certificate of convergence; questions were searched for through the simulation.",
        "",
        "Its step response (target 1):",
        *plot(step_response(gains_of(best.params))[0].tolist()),
    ]


def plot(values: list[float]) -> list[str]:
    """A curve as lines of text, from 0 to a little above its highest point."""
    top = max(1.2, *values)
    columns = [values[int(i * (len(values) - 1) / (PLOT_WIDTH - 1))] for i in range(PLOT_WIDTH)]
    level = [round(min(max(value, 0.0), top) / top * (PLOT_HEIGHT - 1)) for value in columns]
    target = round(1.0 / top * (PLOT_HEIGHT - 1))
    lines = []
    for height in range(PLOT_HEIGHT - 1, -1, -1):
        blank = "·" if height == target else " "
        row = "".join("█" if at == height else blank for at in level)
        lines.append(f"{height / (PLOT_HEIGHT - 1) * top:5.2f} ┤{row}")
    return [*lines, "      └" + "─" * PLOT_WIDTH]
