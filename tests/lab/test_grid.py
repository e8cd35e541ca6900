"""Keys: what makes two runs the same run, pinned for ever. Blocks: what is missing, and what may run in one batch.

    python -m tests.lab.test_grid        writes golden_keys.json anew

A key that changes orphans every stored run: PROTOCOL was counted up, or a default was changed, which must not happen
without it. The golden keys are regenerated together with PROTOCOL and for no other reason.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappasharp.lab import grid
from kappasharp.lab.experiment import parse
from kappasharp.lab.grid import digest, missing, together
from kappasharp.problems import simulated_voters
from kappasharp.problems.initial_designs import INITIALIZATIONS
from kappasharp.problems.registry import PROBLEMS
from kappasharp.problems.simulated_voters import Person
from kappasharp.settings import Weights
from tests.lab import tiny

GOLDEN = Path(__file__).with_name("golden_keys.json")
METHODS = [
    "baseline", "static", "fixed20", "adaptive", "connected", "jitter", "diagonal", "metric_only", "cov_only",
    "full_augmentation",
]  # fmt: skip
PRESETS = ["paper", "modern_0_2", "dimension_scaled"]


def keys(**changes):
    return [cell.key for cell in grid.cells(tiny.experiment(**changes))]


def golden_keys():
    experiment = tiny.experiment(methods=METHODS, presets=PRESETS, seeds=[0], queries=50)
    return {f"{cell.method}, {cell.preset}": cell.key for cell in grid.cells(experiment)}


def test_golden_keys():
    """Pinned for ever."""
    kept = json.loads(GOLDEN.read_text("utf-8"))
    assert len(kept) == len(set(kept.values())) == 30
    assert golden_keys() == kept


def test_a_key_is_a_hash_of_plain_data():
    """The baseline under the default numbers: what differs from a default, and nothing else."""
    values = {
        "protocol": 1,
        "problem": "hartmann-6d",
        "problem_version": PROBLEMS["hartmann-6d"].version,
        "initialization": "pool_n6_k15",
        "method": {},
        "preset": {"curvature": "averaged", "priors": "outputscale_near_30"},
        "person": {},
        "queries": 2,
        "seed": 0,
    }
    assert keys(methods=["baseline"])[0] == digest(values)


ONE = {"methods": ["adaptive"], "seeds": [3]}
OTHERS = {
    "problem": {"problems": ["ackley-8d"]},
    "initialization": {"initializations": ["pure_k3"]},
    "method": {"methods": ["static"]},
    "number of the method": {"methods": [], "variants": {"v": {"method": "adaptive", "gate": {"threshold": 0.25}}}},
    "choice of the method": {
        "methods": [],
        "variants": {"v": {"method": "adaptive", "correction": {"weights": "uniform"}}},
    },
    "preset": {"presets": ["paper"]},
    "number of the preset": {"presets": [], "preset_variants": {"v": {"preset": "modern", "nugget": 1e-5}}},
    "seed": {"seeds": [4]},
    "queries": {"queries": 3},
    "person": {"person": "careless"},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_key_depends_on_every_value(what):
    assert keys(**ONE) != keys(**ONE | OTHERS[what])


def test_all_those_keys_differ():
    found = [keys(**ONE | changes)[0] for changes in OTHERS.values()]
    assert len(set(found)) == len(found)


def test_a_key_depends_on_the_problems_version(monkeypatch):
    before = keys()
    newer = replace(PROBLEMS["hartmann-6d"], version=PROBLEMS["hartmann-6d"].version + 1)
    monkeypatch.setitem(PROBLEMS, "hartmann-6d", newer)
    assert not set(keys()) & set(before)


def test_a_key_depends_on_the_protocol(monkeypatch):
    before = keys()
    monkeypatch.setattr(grid, "PROTOCOL", grid.PROTOCOL + 1)
    assert not set(keys()) & set(before)


def test_a_key_depends_on_no_label(monkeypatch):
    plain = keys(**ONE)
    assert keys(**ONE | {"methods": [], "variants": {"mine": {"method": "adaptive"}}}) == plain
    assert keys(**ONE | {"presets": [], "preset_variants": {"mine": {"preset": "modern"}}}) == plain
    assert keys(**ONE, title="another", block_size=1) == plain
    monkeypatch.setitem(simulated_voters.PERSONS, "somebody", Person())
    assert keys(**ONE, person="somebody") == plain
    assert [cell.key for cell in grid.cells(parse("another", tiny.TABLE | ONE))] == plain


def test_a_peer_has_one_key_whatever_our_preset():
    """It brings its own model; the runs are wanted once."""
    wanted = tiny.blocks(methods=["botorch_0_18"], presets=["paper", "modern"])
    assert wanted[0].keys == wanted[1].keys and wanted[0].preset != wanted[1].preset
    assert missing(wanted, set()) == wanted[:1]
    assert missing(wanted, set(wanted[0].keys)) == []


def test_blocks_hold_every_cell_once_in_blocks_of_the_wanted_size():
    experiment = tiny.experiment(problems=["hartmann-6d", "levy-10d"], presets=["paper", "modern"], seeds=5)
    for size, count in ((1, 5), (2, 3), (5, 1), (60, 1)):
        blocks = grid.blocks(replace(experiment, block_size=size))
        assert len(blocks) == 2 * 2 * 2 * count
        assert all(1 <= len(block.seeds) <= size for block in blocks)
        cells = [cell for block in blocks for cell in grid.cells_of(block)]
        assert Counter(cells) == Counter(grid.cells(experiment))
        assert len({block.key for block in blocks}) == len(blocks)
    sides = {(cell.problem, cell.method, cell.preset, cell.seed) for cell in grid.cells(experiment)}
    assert len(sides) == experiment.n_runs == 40


WANTED = tiny.blocks(problems=["hartmann-6d", "ackley-8d"], seeds=5, block_size=3)
ALL_KEYS = [key for block in WANTED for key in block.keys]


@given(st.sets(st.sampled_from(ALL_KEYS)), st.sets(st.text("0123456789abcdef", min_size=32, max_size=32), max_size=3))
def test_missing_is_wanted_minus_stored(stored, strangers):
    left = missing(WANTED, stored | strangers)
    assert Counter(key for block in left for key in block.keys) == Counter(set(ALL_KEYS) - stored)
    names = {cell.key: cell for block in WANTED for cell in grid.cells_of(block)}
    assert all(names[cell.key] == cell for block in left for cell in grid.cells_of(block))
    assert all(block in left for block in WANTED if not set(block.keys) & stored)


def test_nothing_is_missing_when_all_is_stored():
    assert missing(WANTED, set(ALL_KEYS)) == [] and missing(WANTED, set()) == WANTED


# Shapes that differ in one thing each; dtlz2-8d and ackley-8d have equal dimensions.
POOL = [
    *tiny.blocks(problems=["ackley-8d", "dtlz2-8d", "hartmann-6d"], methods=METHODS, seeds=7, block_size=3),
    *tiny.blocks(problems=["ackley-8d"], initializations=["pool_n8_k15", "pure_k3"], methods=METHODS),
    *tiny.blocks(problems=["ackley-8d"], presets=["paper"], methods=METHODS),
    *tiny.blocks(problems=["ackley-8d"], queries=5),
    *tiny.blocks(problems=["ackley-8d"], person="exact", methods=["baseline", "botorch_0_18"]),
]


def may_share(a, b):
    """The slow and obvious twin: equal in everything but problem, seeds, gate, and whether there is a correction."""
    plans = [INITIALIZATIONS[block.initialization] for block in (a, b)]
    corrections = {
        block.method_values.correction for block in (a, b) if block.method_values.correction.weights is not Weights.NONE
    }
    choices = [(m.inference, m.query, m.acquisition) for m in (a.method_values, b.method_values)]
    return (
        PROBLEMS[a.problem].dimensions == PROBLEMS[b.problem].dimensions
        and (plans[0].n_points, plans[0].n_comparisons) == (plans[1].n_points, plans[1].n_comparisons)
        and (a.queries, a.person, a.preset_values) == (b.queries, b.person, b.preset_values)
        and choices[0] == choices[1]
        and len(corrections) <= 1
    )


@given(st.lists(st.sampled_from(POOL), unique=True, max_size=40), st.integers(1, 30))
def test_together_joins_equal_shapes_only_up_to_the_size_and_loses_nothing(blocks, most):
    jobs = together(blocks, most)
    assert Counter(block for job in jobs for block in job) == Counter(blocks)
    for job in jobs:
        assert len(job) == 1 or sum(len(block.seeds) for block in job) <= most
        assert all(may_share(job[0], block) for block in job[1:])


def test_together_joins_what_it_may():
    """Baseline, static and adaptive of one problem, and two problems of one dimension, in one batch."""
    problems, methods = ["ackley-8d", "dtlz2-8d"], ["baseline", "static", "adaptive", "fixed20"]
    blocks = tiny.blocks(problems=problems, methods=methods)
    assert together(blocks, 16) == [tuple(blocks)]
    assert [len(job) for job in together(blocks, 15)] == [7, 1]
    assert [len(job) for job in together(blocks, 1)] == [1] * 8
    apart = tiny.blocks(methods=["static", "jitter", "connected", "metric_only"])
    assert together(apart, 1000) == [(block,) for block in apart]


def test_peers_run_by_themselves():
    blocks = tiny.blocks(methods=["botorch_0_18", "optuna_preferential", "baseline"])
    assert together(blocks, 1000) == [(block,) for block in blocks]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(golden_keys(), indent=1) + "\n", "utf-8")
