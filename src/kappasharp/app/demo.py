"""The demonstration: a simulated person tunes a PID controller by comparing step responses, two at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.methods.fitted import Surrogate, fit
from kappasharp.methods.loop import State, ask, init, tell
from kappasharp.streams import stream, uniform

# The controller's gains and their ranges, on a logarithmic scale.
GAINS = {"proportional": (0.5, 12.0), "integral": (0.1, 4.0), "derivative": (0.1, 6.0)}
SECONDS, STEPS = 12.0, 600
FIRST_POINTS = 6
SETTLING_TIME = 3.0
# The person cannot tell responses apart whose scores differ by much less than this.
PERSON_NOISE = 0.05


class Progress(NamedTuple):
    """One answered question: how many so far, whether its solves converged, the best score among the designs seen."""

    answered: int
    certified: bool
    best_score: float


class Outcome(NamedTuple):
    """The design the model believes in, how it responds, and how sure the model is of it."""

    gains: dict[str, float]
    response: Tensor
    score: float
    beats_random: float
    first_score: float
    certified: bool


def gains_of(points: Tensor) -> Tensor:
    """Unit-cube points as gains."""
    low, high = points.new_tensor(list(GAINS.values())).log().unbind(-1)
    return (low + (high - low) * points).exp()


def step_response(points: Tensor) -> tuple[Tensor, Tensor]:
    """Position and actuator force (…, STEPS) after a unit step: a mass on a spring behind an actuator with lag."""
    kp, ki, kd = gains_of(points).unbind(-1)
    dt = SECONDS / STEPS
    position, speed, force, integral = (torch.zeros_like(kp) for _ in range(4))
    track = []
    for _ in range(STEPS):
        error = 1.0 - position
        integral = (integral + error * dt).clamp(-5.0, 5.0)
        command = (kp * error + ki * integral - kd * speed).clamp(-8.0, 8.0)
        force = force + dt / 0.15 * (command - force)
        speed = speed + dt * (force - 0.6 * speed - 1.0 * position)
        position = position + dt * speed
        track.append(torch.stack([position, force]))
    position, force = torch.stack(track, -1)
    return position, force


def score(points: Tensor) -> Tensor:
    """What the simulated person feels and never says: quick, little overshoot, settled at the target, no violence."""
    response, force = step_response(points)
    time = torch.linspace(0.0, SECONDS, STEPS, dtype=points.dtype)
    error = (1.0 - response).abs().clamp(max=3.0)
    overshoot = (response.amax(-1) - 1.0).clamp(0.0, 3.0)
    late = (error * (time > SETTLING_TIME)).mean(-1)
    violence = force.diff(dim=-1).abs().sum(-1)
    return -(error.mean(-1) * 3.0 + overshoot * 2.0 + late * 6.0 + violence * 0.04)


def _answer(points: Tensor, seed: int, count: int) -> int:
    """0 or 1: which of two designs the person prefers today."""
    noise = torch.randn(2, generator=stream(seed, "demo person", str(count)), dtype=torch.float64)
    return int((score(points) + PERSON_NOISE * noise).argmax())


def start(seed: int, method: str, preset: str) -> State:
    """A few random controllers, each compared with the next."""
    points = uniform((FIRST_POINTS, len(GAINS)), stream(seed, "demo points"), torch.empty(0, dtype=torch.float64))
    pairs = []
    for first in range(FIRST_POINTS - 1):
        winner = _answer(points[first : first + 2], seed, -1 - first)
        pairs.append([first + winner, first + 1 - winner])
    return init(points, pairs, method=method, preset=preset, seeds=seed)


def tune(state: State, questions: int) -> Iterator[tuple[State, Progress]]:
    """Ask and answer, one question at a time."""
    seed = state.seeds[0]
    for count in range(1, questions + 1):
        question, state, info = ask(state)
        state = tell(state, question, _answer(question.points[0], seed, count))
        certified = info.status == ("ok",)
        yield state, Progress(count, certified, float(score(state.points[0]).max()))


def conclude(state: State) -> Outcome:
    """The best design seen, by the model of all answers, and the chance that it beats a random design."""
    points = state.points[0]
    model: Surrogate = fit(points, state.comparisons[0], method=state.method, preset=state.preset)
    best = points[model.utility.argmax()]
    others = uniform((512, points.shape[-1]), stream(state.seeds[0], "demo certainty"), points)
    sure = model.contrast(best.expand_as(others), others)
    ahead = torch.special.ndtr(sure.mean / sure.variance.clamp(min=1e-12).sqrt())
    return Outcome(
        gains=dict(zip(GAINS, gains_of(best).tolist(), strict=True)),
        response=step_response(best)[0],
        score=float(score(best)),
        beats_random=float(ahead.mean()),
        first_score=float(score(points[:FIRST_POINTS]).max()),
        certified=model.status == ("ok",),
    )
