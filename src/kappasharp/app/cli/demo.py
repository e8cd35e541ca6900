"""The demonstration: a simulated person tunes a PID controller by comparing step responses, two at a time."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.app import charts, report
from kappasharp.app.examples import pid
from kappasharp.errors import StorageError
from kappasharp.streams import stream
from kappasharp.study import studies
from kappasharp.study.events import Answer
from kappasharp.study.history import Pair
from kappasharp.study.study import Study

GAINS = pid.SPACE
SECONDS, STEPS = pid.SECONDS, pid.STEPS
SETTLING_TIME = 3.0
# The person cannot tell responses apart whose scores differ by much less than this.
PERSON_NOISE = 0.05
NAME, DATABASE, REPORT = "pid", "study.db", "report.html"


class Progress(NamedTuple):
    """One answered question: how many so far, whether its solves converged, the best score among the designs seen."""

    answered: int
    certified: bool
    best_score: float


def gains_of(design: Mapping[str, Any]) -> Tensor:
    """A design's gains."""
    return torch.tensor([float(design[name]) for name in GAINS], dtype=torch.float64)


def step_response(gains: Tensor) -> tuple[Tensor, Tensor]:
    """Position and actuator force (…, STEPS) after a unit step."""
    tracks = [pid.simulate(*row) for row in gains.reshape(-1, len(GAINS)).tolist()]
    position, force = torch.tensor(tracks, dtype=gains.dtype).unbind(1)
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


def answer(pair: Pair, seed: int) -> Answer:
    """Which of two designs the person prefers today."""
    noise = torch.randn(2, generator=stream(seed, "demo person", str(pair.number)), dtype=torch.float64)
    felt = score(torch.stack([gains_of(pair.a), gains_of(pair.b)])) + PERSON_NOISE * noise
    return "a" if felt[0] > felt[1] else "b"


def start(folder: Path, seed: int, **options: Any) -> Study:
    """A new study in a database in that folder; what an earlier demonstration left there goes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} could not be made: {error.strerror or error}.") from error
    storage = studies.storage_of(f"sqlite:///{folder / DATABASE}")
    if NAME in {record.name for record in storage.studies()}:
        studies.delete_study(NAME, storage=storage)
    return studies.create_study(GAINS, storage=storage, study_name=NAME, seed=seed, **options)


def tune(study: Study, questions: int) -> Iterator[Progress]:
    """Ask and answer, one question at a time."""
    best = -torch.inf
    for count in range(1, questions + 1):
        pair = study.ask()
        study.tell(pair, answer(pair, study.definition.seed))
        memo = study.history.asked[pair.number][1].memo
        best = max(best, *(float(score(gains_of(design))) for design in (pair.a, pair.b)))
        yield Progress(count, memo is None or memo["status"] == "ok", best)


def responses(study: Study) -> report.Section:
    """The best design's response beside that of the first pair."""
    first, best = next(iter(study.history.asked.values()))[0], study.best_params
    shown = (("first pair's A", "faint", first.a), ("first pair's B", "faint", first.b), ("best so far", "first", best))
    tracks = [(label, kind, step_response(gains_of(design))[0].tolist()) for label, kind, design in shown]
    box = charts.Box(
        640.0, 260.0, 0.0, SECONDS, 0.0, 1.1 * max(1.0, *(max(track) for *_, track in tracks)), right=120.0
    )
    parts = charts.axes(
        box,
        across="seconds",
        ticks=[(t, f"{t:g}") for t in (0.0, 3.0, 6.0, 9.0, 12.0)],
        levels=[(0.0, "0"), (1.0, "target")],
    )
    every = SECONDS / STEPS
    for label, kind, track in tracks:
        parts.append(charts.path(box, [(i * every, y) for i, y in enumerate(track)][::4], kind))
        if kind == "first":
            parts.append(
                charts.words(box.x(SECONDS) + 8, box.y(track[-1]) - 6, label, anchor="start", kind=f"label {kind}")
            )
    picture = charts.svg(box, "Step responses: the first pair, dashed, and the best design", parts)
    note = "<p class='small'>Dashed: the two controllers of the first question.</p>"
    return report.Section("Its step response", f"<figure>{picture}</figure>{note}")
