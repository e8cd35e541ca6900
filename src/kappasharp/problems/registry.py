"""The eleven problems of the paper by name, and the variants beside them."""

from kappasharp.errors import named
from kappasharp.problems import carcab, dtlz2, plasma, robot_push, synthetic, vehicle
from kappasharp.problems.problem import Problem

PROBLEMS: dict[str, Problem] = {
    row.name: row
    for row in (
        dtlz2.DTLZ2_8D,
        dtlz2.DTLZ2_16D,
        dtlz2.DTLZ2_20D,
        plasma.PLASMA_16D,
        synthetic.ACKLEY_8D,
        synthetic.HARTMANN_6D,
        synthetic.LEVY_10D,
        synthetic.LEVY_20D,
        vehicle.VEHICLE_5D,
        carcab.CARCAB_7D,
        robot_push.ROBOTPUSH_14D,
    )
}

# Not in the paper's grid: other utilities of the same sources.
VARIANTS: dict[str, Problem] = {
    row.name: row
    for row in (
        dtlz2.DTLZ2_8D_PIECEWISE,
        dtlz2.DTLZ2_16D_PIECEWISE,
        dtlz2.DTLZ2_20D_PIECEWISE,
        vehicle.VEHICLE_5D_FITTED,
        robot_push.ROBOTPUSH_14D_NOISY,
    )
}


def problem(name: str) -> Problem:
    """The problem of that name."""
    return named("problem", name, PROBLEMS | VARIANTS)
