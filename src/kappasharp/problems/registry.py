"""The eleven problems of the paper by name, the variants beside them, and the development set."""

from functools import cache

from kappasharp.errors import named
from kappasharp.problems import (
    gp_samples,
    multi_outcome,
    pid,
    plasma,
    random_problems,
    robot_push,
    simulated_voters,
    synthetic,
    warped,
)
from kappasharp.problems.problem import Problem


def _by_name(*rows: Problem) -> dict[str, Problem]:
    return {row.name: row for row in rows}


PROBLEMS: dict[str, Problem] = _by_name(
    multi_outcome.DTLZ2_8D,
    multi_outcome.DTLZ2_16D,
    multi_outcome.DTLZ2_20D,
    plasma.PLASMA_16D,
    synthetic.ACKLEY_8D,
    synthetic.HARTMANN_6D,
    synthetic.LEVY_10D,
    synthetic.LEVY_20D,
    multi_outcome.VEHICLE_5D,
    multi_outcome.CARCAB_7D,
    robot_push.ROBOTPUSH_14D,
)

# Problems of the paper's whose outcomes are formulas.
OUTCOMES = (
    multi_outcome.DTLZ2_8D,
    multi_outcome.DTLZ2_16D,
    multi_outcome.DTLZ2_20D,
    multi_outcome.VEHICLE_5D,
    multi_outcome.CARCAB_7D,
)

# Not in the paper's grid: other utilities of the same sources, other problems with outcomes, and copies.
VARIANTS: dict[str, Problem] = _by_name(
    multi_outcome.DTLZ2_8D_PIECEWISE,
    multi_outcome.DTLZ2_16D_PIECEWISE,
    multi_outcome.DTLZ2_20D_PIECEWISE,
    multi_outcome.VEHICLE_5D_FITTED,
    robot_push.ROBOTPUSH_14D_NOISY,
    multi_outcome.DTLZ2_5D,
    multi_outcome.OSY_6D,
    pid.PID_3D,
    *map(warped.warped, OUTCOMES),
    *map(warped.meaningless, OUTCOMES),
)

# Where new methods are chosen, so that the paper's problems are left to confirm the choice.
DEVELOPMENT: dict[str, Problem] = _by_name(
    synthetic.HARTMANN_3D,
    synthetic.ROSENBROCK_4D,
    synthetic.SHEKEL_4D,
    multi_outcome.WELDED_BEAM_4D,
    synthetic.MICHALEWICZ_5D,
    synthetic.RASTRIGIN_6D,
    gp_samples.GP_6D_SMOOTH,
    multi_outcome.SPEED_REDUCER_7D,
    synthetic.COSINE_8D,
    synthetic.POWELL_8D,
    synthetic.GRIEWANK_10D,
    synthetic.STYBLINSKI_TANG_10D,
    gp_samples.GP_10D_ROUGH,
    synthetic.DIXON_PRICE_12D,
    synthetic.BRANIN_12D_EMBEDDED,
    synthetic.HARTMANN_15D_ROTATED,
    gp_samples.BUMPS_16D,
    multi_outcome.ZDT2_20D,
)


def find_problem(name: str) -> Problem:
    """The problem of that name; `drawn-1-07` is the eighth of the generated set 1, `jury-3-…` three people's."""
    if name.startswith(random_problems.PREFIX + "-"):
        return random_problems.find(name)
    if name.startswith(simulated_voters.PREFIX + "-"):
        return _jury(name)
    return named("problem", name, PROBLEMS | VARIANTS | DEVELOPMENT)


@cache
def _jury(name: str) -> Problem:
    people, kind, problem = simulated_voters.parse(name)
    return simulated_voters.of(find_problem(problem), people, kind)


def is_made(name: str) -> bool:
    """Whether a problem of that name would be made on demand: it stands in no table."""
    return name.startswith((random_problems.PREFIX + "-", simulated_voters.PREFIX + "-"))
