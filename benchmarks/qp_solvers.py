"""Which solver for Plasma-16D's quadratic programs: time per step and accuracy on the programs of real treatments.

    python -m benchmarks.qp_solvers        (needs: pip install osqp piqp)

ProxSuite 0.8.0 was tried too; its Linux aarch64 build crashed on these programs.
"""

import time
from collections.abc import Callable

import daqp
import numpy as np
import osqp
import piqp
import scipy.sparse as sp

from kappasharp.problems import plasma, plasma_jet

TREATMENTS = 40
N = 2 * plasma_jet.HORIZON + 1  # inputs and the slack


def with_daqp(p: plasma_jet.Program) -> Callable:
    solver = daqp.Model()
    solver.setup(p.hessian, np.zeros(N), p.constraint, p.high, p.low)

    def solve(f, high):
        solver.update(f=f, bupper=high)
        return solver.solve()[0]

    return solve


def with_osqp(p: plasma_jet.Program) -> Callable:
    rows = sp.vstack([sp.eye(N), sp.csc_matrix(p.constraint)], format="csc")
    solver = osqp.OSQP()
    upper = sp.triu(p.hessian, format="csc")
    solver.setup(upper, np.zeros(N), rows, p.low, p.high, verbose=False, eps_abs=1e-7, eps_rel=1e-7, max_iter=20000)

    def solve(f, high):
        solver.update(q=f, u=high)
        return solver.solve().x

    return solve


def with_piqp(p: plasma_jet.Program) -> Callable:
    solver = piqp.DenseSolver()
    solver.settings.verbose = False
    low, high = p.low, p.high
    solver.setup(p.hessian, np.zeros(N), None, None, p.constraint, low[N:], high[N:], low[:N], high[:N])

    def solve(f, high):
        solver.update(c=f, h_u=high[N:])
        solver.solve()
        return np.array(solver.result.x)

    return solve


def recorded(parameters) -> list[tuple[np.ndarray, np.ndarray]]:
    """The linear terms and bounds that this controller's treatment goes through."""
    steps = []

    class Recorder(plasma_jet.Controller):
        def next_input(self, state, before, reference):
            u = super().next_input(state, before, reference)
            steps.append((self._f.copy(), self._high.copy()))
            return u

    original, plasma_jet.Controller = plasma_jet.Controller, Recorder
    try:
        plasma_jet.treat(parameters)
    finally:
        plasma_jet.Controller = original
    return steps


def main() -> None:
    low, high = np.array([row[1:] for row in plasma.PARAMETERS]).T
    rng = np.random.default_rng(0)
    runs = [(x, recorded(x)) for x in low + (high - low) * rng.random((TREATMENTS, len(low)))]
    truth = {}
    print("solver      µs/step   largest deviation of the first input from DAQP's")
    for name, make in (("DAQP", with_daqp), ("OSQP", with_osqp), ("PIQP", with_piqp)):
        seconds, worst, count = 0.0, 0.0, 0
        for i, (x, steps) in enumerate(runs):
            solve = make(plasma_jet.program(x))
            begin = time.perf_counter()
            plans = np.array([solve(f, bound)[:2] for f, bound in steps])
            seconds += time.perf_counter() - begin
            count += len(steps)
            worst = max(worst, float(np.abs(plans - truth.setdefault(i, plans)).max()))
        print(f"{name:<10} {1e6 * seconds / count:8.1f}   {worst:.1e}", flush=True)


if __name__ == "__main__":
    main()
