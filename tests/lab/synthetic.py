"""Small results made up by hand: no run behind them."""

from kappasharp.lab import experiment, grid
from kappasharp.lab.store import Store

TRACES = ("strength", "condition_before", "condition_after", "decisiveness", "mean_decisiveness")


def draws_nothing(monkeypatch, report):
    """Reports come with stand-ins for their pictures now: to draw is most of a report, and tested by itself."""
    files = property(lambda _: dict.fromkeys(report.KINDS, b"no picture"))
    monkeypatch.setattr(report.Picture, "files", files)


def plan(**changes):
    table = {
        "problems": ["hartmann-6d", "vehicle-5d"], "initializations": ["pool_n6_k15"],
        "methods": ["baseline", "static", "connected", "adaptive"], "presets": ["paper"], "seeds": 6, "queries": 4,
    }  # fmt: skip
    return table | changes


def toml(table):
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in table.items()]
    return "\n".join(lines) + "\n"


def row(cell, queries, final, **changes):
    """A stored run whose best utility climbs in equal steps to `final`."""
    best = [final - 0.1 * (queries - step) for step in range(queries + 1)]
    flat = {name: [0.1 * (step + 1) for step in range(queries)] for name in TRACES}
    return (
        {"key": cell.key, "problem": cell.problem, "initialization": cell.initialization, "method": cell.method}
        | {"preset": cell.preset, "seed": cell.seed, "method_values": "{}", "preset_values": "{}", "person": "{}"}
        | {"status": "ok", "error": None, "device": "cpu", "machine": "test", "python": "3", "torch": "2"}
        | {"kappasharp": "0", "commit": "none", "problem_version": 1, "queries": queries, "failed_steps": 0}
        | {"block_runs": 1, "initial_best": best[0], "final_best": best[-1], "seconds": 1.5, "best_utility": best}
        | {"n_points": [6 + 2 * step for step in range(queries + 1)]}
        | {"outputscale": [], "evidence": [], "acquisition": [], "active": [True] * queries}
        | {"n_components": [1] * queries, "step_status": ["ok"] * queries}
        | flat
        | changes
    )


def folder(path, value, name="made_up", **changes):
    """A results folder whose runs end at value(cell); None leaves the run out, text makes it a failed one."""
    table = plan(**changes)
    made = experiment.parse(name, table)
    store = Store(path).open()
    store.remember(name, toml(table))
    rows = []
    for cell in grid.cells(made):
        final = value(cell)
        if isinstance(final, str):
            rows.append(row(cell, made.queries, 0.0, status="error", error=final, final_best=None))
        elif final is not None:
            rows.append(row(cell, made.queries, final))
    store.write("block", rows)
    return made, store
