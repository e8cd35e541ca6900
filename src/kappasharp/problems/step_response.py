"""Step responses of a PID controller: a mass on a spring behind an actuator with lag, many designs at once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

SECONDS, STEPS = 12.0, 600
DT = SECONDS / STEPS
# The actuator's limit and lag in seconds, the spring's damping, and how much error the controller may add up.
STRONGEST, LAG, DAMPING, MOST_TOTAL = 8.0, 0.15, 0.6, 5.0
# When a response has risen, and how near to the target it is settled.
RISEN, SETTLED = 0.9, 0.05


class Responses(NamedTuple):
    """Positions and forces (n, STEPS) after a unit step."""

    positions: Array
    forces: Array


def simulate(gains: ArrayLike) -> Responses:
    """The responses to proportional, integral and derivative gains (n, 3)."""
    table = np.asarray(gains, dtype=np.float64).reshape(-1, 3)
    if len(table) == 1:
        # The same in Python's own numbers, many times as fast: an array of one costs as much as one of a hundred.
        positions, forces = _run(table[0].tolist(), 0.0, min, max)
        return Responses(np.array([positions]), np.array([forces]))
    positions, forces = _run(table.T, np.zeros(len(table)), np.minimum, np.maximum)
    return Responses(np.stack(positions, -1), np.stack(forces, -1))


def _run(gains: Any, zero: Any, least: Any, most: Any) -> tuple[Any, Any]:
    """Positions and forces step by step; `least` and `most` are the smaller and the larger of two."""
    proportional, integral, derivative = gains
    position = speed = force = total = zero
    positions, forces = [], []
    for _ in range(STEPS):
        error = 1.0 - position
        total = least(most(total + error * DT, -MOST_TOTAL), MOST_TOTAL)
        wanted = proportional * error + integral * total - derivative * speed
        command = least(most(wanted, -STRONGEST), STRONGEST)
        force = force + DT / LAG * (command - force)
        speed = speed + DT * (force - DAMPING * speed - position)
        position = position + DT * speed
        positions.append(position)
        forces.append(force)
    return positions, forces


def overshoot(positions: Array) -> Array:
    """By how much each response (n, STEPS) passes its target, as a share of the step."""
    return np.maximum(positions.max(-1) - 1.0, 0.0)


def rise_time(positions: Array) -> Array:
    """When each response first has nine tenths of the step, between two samples; all the seconds where it never has."""
    risen = positions >= RISEN
    first = risen.argmax(-1)
    before, after = _at(positions, np.maximum(first - 1, 0)), _at(positions, first)
    crosses = risen.any(-1) & (first > 0)
    share = (RISEN - before) / np.where(crosses, after - before, 1.0)
    return np.where(crosses, (first - 1 + share) * DT, np.where(risen.any(-1), 0.0, SECONDS))


def settling_time(positions: Array) -> Array:
    """When each response enters the band around its target for good; all the seconds where it has not."""
    away = np.abs(positions - 1.0)
    outside = away > SETTLED
    last = STEPS - 1 - outside[..., ::-1].argmax(-1)
    enters = outside.any(-1) & (last < STEPS - 1)
    before, after = _at(away, last), _at(away, np.minimum(last + 1, STEPS - 1))
    share = (before - SETTLED) / np.where(enters, before - after, 1.0)
    return np.where(enters, (last + share) * DT, np.where(outside.any(-1), SECONDS, 0.0))


def largest_force(forces: Array) -> Array:
    """The strongest push or pull of each response (n, STEPS)."""
    return np.abs(forces).max(-1)


def measures(gains: ArrayLike) -> Array:
    """Overshoot, rise time, settling time and largest force (n, 4)."""
    positions, forces = simulate(gains)
    return np.stack([overshoot(positions), rise_time(positions), settling_time(positions), largest_force(forces)], -1)


def _at(values: Array, index: NDArray[np.intp]) -> Array:
    return np.take_along_axis(values, index[..., None], -1)[..., 0]
