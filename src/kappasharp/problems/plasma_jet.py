"""One treatment under a predictive controller, step by step: the simulation behind Plasma-16D."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kappasharp.errors import needed
from kappasharp.randomness import stream

Array = NDArray[np.float64]

# The identified plant, in deviations from (STEADY_STATE, STEADY_INPUT); half a second per step.
A = np.array([[0.9026835110216027, 0.0175440994095587], [0.13155242721345584, 0.24256853705415712]])
B = np.array([[0.5814548071231862, -0.2204211764941687], [2.6736589103598822, -1.1310499080801515]])
STEADY_STATE = np.array([33.306, 7.735758791165386])  # °C, arbitrary units
STEADY_INPUT = np.array([1.5, 3.5])  # W, standard litres per minute
STEP_SECONDS, MAX_STEPS = 0.5, 240
LOW_INPUT, HIGH_INPUT = np.array([1.5, 1.5]), np.array([5.0, 5.0])
# The patient: thermal dose in equivalent minutes at 43 °C, its base, the limit of the temperature.
DOSE_BASE, DOSE_TARGET, LIMIT = 0.55, 1.5, 44.5

HORIZON = 10
KNOT_SECONDS = (0.0, 15.0, 30.0, 60.0)


@dataclass(frozen=True)
class Treatment:
    """What happened, step by step, in absolute units; the temperatures and intensities are those measured."""

    seconds: Array
    temperature: Array
    intensity: Array
    power: Array
    flow: Array
    dose: Array
    reference: Array
    failed_solves: int

    @property
    def minutes(self) -> float:
        """How long it took."""
        return len(self.power) * STEP_SECONDS / 60.0


class Score(NamedTuple):
    """The four costs of a treatment, each at least zero."""

    dose_tracking: float
    violation: float
    minutes: float
    chatter: float


class Program(NamedTuple):
    """The controller's quadratic program in its inputs and one slack: H, and what makes f and the bounds."""

    hessian: Array
    of_state: Array
    of_reference: Array
    constraint: Array
    free_response: Array
    low: Array
    high: Array
    limit: float


@cache
def prediction() -> tuple[Array, Array]:
    """Φ (2N, 2) and Γ (2N, 2N): the states of the horizon from the state now and the inputs."""
    powers = [np.linalg.matrix_power(A, k) for k in range(HORIZON + 1)]
    free = np.concatenate(powers[1:])
    forced = np.zeros((2 * HORIZON, 2 * HORIZON))
    for row in range(HORIZON):
        for column in range(row + 1):
            forced[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] = powers[row - column] @ B
    return free, forced


@cache
def per_degree() -> tuple[Array, Array]:
    """State and input that hold the temperature one degree above the steady state, by power alone."""
    state = np.linalg.solve(np.eye(2) - A, B[:, 0])
    return state / state[0], np.array([1.0 / state[0], 0.0])


@cache
def noise() -> tuple[Array, Array]:
    """The treatment's measurement noise (sd 0.1) and disturbances (uniform in ±1): drawn once, for everyone."""
    generator = stream(0, "plasma-16d", "noise")
    measured = 0.1 * torch.randn(MAX_STEPS + 1, 2, generator=generator, dtype=torch.float64)
    disturbed = 2.0 * torch.rand(MAX_STEPS, 2, generator=generator, dtype=torch.float64) - 1.0
    return measured.numpy(), disturbed.numpy()


def program(parameters: Sequence[float]) -> Program:
    """The controller of these sixteen numbers."""
    free, forced = prediction()
    weights = 10.0 ** np.asarray(parameters[:8])
    stage, inputs, changes, terminal = weights.reshape(4, 2)
    Q = np.concatenate([np.tile(stage, HORIZON - 1), terminal])
    R, S = np.tile(inputs, HORIZON), np.tile(changes, HORIZON)
    D = np.eye(2 * HORIZON) - np.eye(2 * HORIZON, k=-2)
    hessian = np.zeros((2 * HORIZON + 1,) * 2)
    hessian[:-1, :-1] = forced.T @ (Q[:, None] * forced) + np.diag(R) + D.T @ (S[:, None] * D)
    hessian[-1, -1] = 10.0 ** parameters[14]
    state, power = per_degree()
    target_state, target_input = np.kron(np.eye(HORIZON), state[:, None]), np.kron(np.eye(HORIZON), power[:, None])
    back_off, power_back_off = parameters[12], parameters[13]
    highest = HIGH_INPUT - STEADY_INPUT - np.array([power_back_off, 0.0])
    limit = LIMIT - back_off - STEADY_STATE[0]
    return Program(
        hessian=hessian,
        of_state=np.hstack([forced.T @ (Q[:, None] * free), -(D.T * S)[:, :2]]),
        of_reference=-forced.T @ (Q[:, None] * target_state) - R[:, None] * target_input,
        constraint=np.hstack([forced[::2], -np.ones((HORIZON, 1))]),
        free_response=free[::2],
        low=np.concatenate([np.tile(LOW_INPUT - STEADY_INPUT, HORIZON), [0.0], np.full(HORIZON, -1e30)]),
        high=np.concatenate([np.tile(highest, HORIZON), [1e30], np.full(HORIZON, limit)]),
        limit=limit,
    )


class Controller:
    """The program with its solver's workspace: asked once a step, warm-started by the step before."""

    def __init__(self, parameters: Sequence[float]) -> None:
        self.program = program(parameters)
        self.failed_solves = 0
        self._f, self._high = np.zeros(2 * HORIZON + 1), self.program.high.copy()
        self._solver = needed("daqp", "The problem plasma-16d", "lab").Model()
        self._solver.setup(self.program.hessian, self._f, self.program.constraint, self._high, self.program.low)

    def next_input(self, state: Array, before: Array, reference: Array) -> Array:
        """The first input of the plan; where the solver gives none, the one before, and a failure is counted."""
        program = self.program
        self._f[:-1] = program.of_state @ np.concatenate([state, before]) + program.of_reference @ reference
        self._high[2 * HORIZON + 1 :] = program.limit - program.free_response @ state
        self._solver.update(f=self._f, bupper=self._high)
        plan, _, solved, _ = self._solver.solve()
        if solved <= 0:
            self.failed_solves += 1
            return before
        return np.array(plan[:2])


def treat(parameters: Sequence[float]) -> Treatment:
    """One treatment under the controller of these sixteen numbers."""
    measured, disturbed = noise()
    controller, gain = Controller(parameters), parameters[15]
    times = STEP_SECONDS * np.arange(MAX_STEPS + HORIZON + 1, dtype=np.float64)
    path = np.interp(times, KNOT_SECONDS, parameters[8:12]) - STEADY_STATE[0]
    x, u, dose = np.zeros(2), np.zeros(2), 0.0
    seen, applied, doses, wanted = [x + measured[0]], [], [0.0], []
    for k in range(MAX_STEPS):
        reference = path[k + 1 : k + 1 + HORIZON] + gain * (1.0 - dose / DOSE_TARGET)
        u = controller.next_input(seen[-1], u, reference)
        x = A @ x + B @ u + disturbed[k]
        y = x + measured[k + 1]
        dose += DOSE_BASE ** (43.0 - (float(y[0]) + STEADY_STATE[0])) * STEP_SECONDS / 60.0
        seen.append(y)
        applied.append(u)
        doses.append(dose)
        wanted.append(reference[0])
        if dose > DOSE_TARGET:
            break
    states, inputs = np.array(seen) + STEADY_STATE, np.array(applied) + STEADY_INPUT
    return Treatment(
        seconds=times[: len(seen)],
        temperature=states[:, 0],
        intensity=states[:, 1],
        power=inputs[:, 0],
        flow=inputs[:, 1],
        dose=np.array(doses),
        reference=np.array(wanted) + STEADY_STATE[0],
        failed_solves=controller.failed_solves,
    )


def score(treatment: Treatment) -> Score:
    """What the treatment cost: missing dose and heat above the limit, squared and summed; time; chatter."""
    # The sample in which the dose is reached ends the treatment and does not count.
    counted = slice(None, -1 if treatment.dose[-1] > DOSE_TARGET else None)
    missing = treatment.dose[counted] - DOSE_TARGET
    excess = np.maximum(treatment.temperature[counted] - LIMIT, 0.0)
    inputs = np.stack([treatment.power, treatment.flow])
    changes = np.diff(inputs, axis=1, prepend=STEADY_INPUT[:, None])
    return Score(
        dose_tracking=float(np.sum(missing**2)),
        violation=float(np.sum(excess**2)),
        minutes=treatment.minutes,
        chatter=float(np.sum(changes**2)),
    )
