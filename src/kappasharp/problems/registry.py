"""The eleven problems of the paper by name, the variants beside them, and the development set."""

from functools import cache

from kappasharp.errors import named
from kappasharp.problems import (
    engineering,
    generated,
    juries,
    multi_objective,
    pid,
    plasma,
    robot_push,
    samples,
    synthetic,
    warped,
)
from kappasharp.problems.problem import Problem


def _by_name(*rows: Problem) -> dict[str, Problem]:
    return {row.name: row for row in rows}


PROBLEMS: dict[str, Problem] = _by_name(
    multi_objective.DTLZ2_8D,
    multi_objective.DTLZ2_16D,
    multi_objective.DTLZ2_20D,
    plasma.PLASMA_16D,
    synthetic.ACKLEY_8D,
    synthetic.HARTMANN_6D,
    synthetic.LEVY_10D,
    synthetic.LEVY_20D,
    engineering.VEHICLE_5D,
    engineering.CARCAB_7D,
    robot_push.ROBOTPUSH_14D,
)

# Problems of the paper's whose outcomes are formulas.
OUTCOMES = (
    multi_objective.DTLZ2_8D,
    multi_objective.DTLZ2_16D,
    multi_objective.DTLZ2_20D,
    engineering.VEHICLE_5D,
    engineering.CARCAB_7D,
)

# Not in the paper's grid: other utilities of the same sources, other problems with outcomes, and copies.
VARIANTS: dict[str, Problem] = _by_name(
    multi_objective.DTLZ2_8D_PIECEWISE,
    multi_objective.DTLZ2_16D_PIECEWISE,
    multi_objective.DTLZ2_20D_PIECEWISE,
    engineering.VEHICLE_5D_FITTED,
    robot_push.ROBOTPUSH_14D_NOISY,
    multi_objective.DTLZ2_5D,
    multi_objective.OSY_6D,
    pid.PID_3D,
    *map(warped.warped, OUTCOMES),
    *map(warped.meaningless, OUTCOMES),
)

# Where new methods are chosen, so that the paper's problems are left to confirm the choice.
DEVELOPMENT: dict[str, Problem] = _by_name(
    synthetic.HARTMANN_3D,
    synthetic.ROSENBROCK_4D,
    synthetic.SHEKEL_4D,
    engineering.WELDED_BEAM_4D,
    synthetic.MICHALEWICZ_5D,
    synthetic.RASTRIGIN_6D,
    samples.GP_6D_SMOOTH,
    engineering.SPEED_REDUCER_7D,
    synthetic.COSINE_8D,
    synthetic.POWELL_8D,
    synthetic.GRIEWANK_10D,
    synthetic.STYBLINSKI_TANG_10D,
    samples.GP_10D_ROUGH,
    synthetic.DIXON_PRICE_12D,
    synthetic.BRANIN_12D_EMBEDDED,
    synthetic.HARTMANN_15D_ROTATED,
    samples.BUMPS_16D,
    multi_objective.ZDT2_20D,
)


def find_problem(name: str) -> Problem:
    """The problem of that name; `drawn-1-07` is the eighth of the generated set 1, `jury-3-…` three people's."""
    if name.startswith(generated.PREFIX + "-"):
        return generated.find(name)
    if name.startswith(juries.PREFIX + "-"):
        return _jury(name)
    return named("problem", name, PROBLEMS | VARIANTS | DEVELOPMENT)


@cache
def _jury(name: str) -> Problem:
    people, kind, problem = juries.parse(name)
    return juries.of(find_problem(problem), people, kind)


def is_made(name: str) -> bool:
    """Whether a problem of that name would be made on demand: it stands in no table."""
    return name.startswith((generated.PREFIX + "-", juries.PREFIX + "-"))
