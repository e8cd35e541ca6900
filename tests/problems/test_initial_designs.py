"""The five initializations: what each table holds, and golden values that pin every one of them for ever.

    python -m tests.problems.test_initial_designs        writes golden_initial.json anew

A table that changes changes every run that started from it. The golden values are not to be regenerated, except for a
problem or an initialization that is added, or together with a new version of a problem whose utility has changed.
"""

import hashlib
import inspect
import json
from itertools import combinations
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare, kstest

from kappasharp.errors import UnknownNameError
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.initial_designs import INITIALIZATIONS
from kappasharp.problems.registry import PROBLEMS

GOLDEN = Path(__file__).with_name("golden_initial.json")
GOLDEN_SEEDS = (0, 1, 59)
# Their last digits may hang on the machine, and with them a close answer.
SIMULATED = {"plasma-16d", "robotpush-14d"}

# fmt: off
POOL_FIRST = [
    0.7141455536632308, 0.17507564642324702, 0.7228860581208523, 0.08545782700142945, 0.2668648337337296,
    0.5534418096363003,
]
POOL_SIXTH = [
    0.2645080301595061, 0.4525947829697806, 0.45085358241865214, 0.30013277530936633, 0.4827759988804007,
    0.39651375604183914,
]
POOL_PAIRS = [
    [3, 5], [1, 5], [1, 3], [2, 4], [3, 4], [0, 2], [1, 4], [1, 2], [0, 4], [0, 5], [4, 5], [0, 1], [2, 3], [0, 3],
    [2, 5],
]
POOL_UTILITIES = [
    0.7348227197490338, 0.021557818940653416, 0.31011949905337516, 0.09715749667159036, 0.03836335356421878,
    0.9789383544929837,
]
POOL_ANSWERS = [
    [5, 3], [5, 1], [3, 1], [2, 4], [4, 3], [0, 2], [1, 4], [2, 1], [0, 4], [5, 0], [5, 4], [0, 1], [3, 2], [0, 3],
    [5, 2],
]
PURE_FIRST = [
    0.2673436531016098, 0.8172244543833742, 0.4631705461931318, 0.5830894411403392, 0.8288843665200073,
    0.9737608820597238,
]
PURE_PAIRS = [[0, 1], [4, 5], [2, 3]]
# fmt: on

every_initialization = pytest.mark.parametrize("name", INITIALIZATIONS)
pools, matchings = (
    pytest.mark.parametrize("name", [name for name, plan in INITIALIZATIONS.items() if plan.is_matching is kind])
    for kind in (False, True)
)


def fingerprint(rows, digits):
    """Twelve characters of the SHA-256 of the numbers, written with so many digits."""
    text = ";".join(",".join(f"{value:.{digits}f}" for value in row) for row in rows)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def golden_row(name, initialization, seed):
    row = PROBLEMS[name]
    points, pairs = initial_designs.table(name, initialization, seed, row.dimensions)
    found = {"points": fingerprint(points.tolist(), 12), "pairs": fingerprint(pairs.tolist(), 0)}
    if name not in SIMULATED:
        answered = initial_designs.start(row, initialization, [seed]).comparisons[0]
        found["winners"] = fingerprint([answered[:, 0].tolist()], 0)
    return found


def golden_values(name):
    return {plan: {str(seed): golden_row(name, plan, seed) for seed in GOLDEN_SEEDS} for plan in INITIALIZATIONS}


@pytest.mark.parametrize("name", PROBLEMS)
def test_golden_values(name):
    """Pinned for ever."""
    kept = json.loads(GOLDEN.read_text("utf-8"))
    assert list(kept) == list(PROBLEMS)
    assert kept[name] == golden_values(name)


def test_golden_numbers():
    """Pinned for ever, and legible."""
    points, pairs = initial_designs.table("hartmann-6d", "pool_n6_k15", 0, 6)
    assert points[0].tolist() == pytest.approx(POOL_FIRST, abs=1e-15)
    assert points[5].tolist() == pytest.approx(POOL_SIXTH, abs=1e-15)
    assert pairs.tolist() == POOL_PAIRS
    points, pairs = initial_designs.table("hartmann-6d", "pure_k3", 0, 6)
    assert points[0].tolist() == pytest.approx(PURE_FIRST, abs=1e-15)
    assert pairs.tolist() == PURE_PAIRS
    start = initial_designs.start(PROBLEMS["hartmann-6d"], "pool_n6_k15", [0])
    assert start.utility[0].tolist() == pytest.approx(POOL_UTILITIES, abs=1e-12)
    assert start.comparisons[0].tolist() == POOL_ANSWERS


def test_the_papers_five():
    plans = {name: (plan.n_points, plan.n_comparisons) for name, plan in INITIALIZATIONS.items()}
    assert plans == {
        "pool_n6_k15": (6, 15),
        "pool_n8_k15": (8, 15),
        "pure_k3": (6, 3),
        "pure_k5": (10, 5),
        "pure_k15": (30, 15),
    }
    with pytest.raises(UnknownNameError, match=r"No initialization is called 'pure_k4'\. Did you mean 'pure_k"):
        initial_designs.table("levy-10d", "pure_k4", 0, 10)


@every_initialization
def test_a_table_holds_what_its_name_says(name):
    plan = INITIALIZATIONS[name]
    for seed in range(20):
        points, pairs = initial_designs.table("levy-10d", name, seed, 10)
        assert points.shape == (plan.n_points, 10) and points.dtype == torch.float64
        assert pairs.shape == (plan.n_comparisons, 2)
        assert bool(((points >= 0.0) & (points < 1.0)).all())
        assert len(points.unique(dim=0)) == plan.n_points
        assert len({frozenset(pair) for pair in pairs.tolist()}) == plan.n_comparisons
        assert all(a != b for a, b in pairs.tolist())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_pools_are_nested(problem):
    d = PROBLEMS[problem].dimensions
    for seed in (0, 7):
        six, eight = (initial_designs.table(problem, name, seed, d)[0] for name in ("pool_n6_k15", "pool_n8_k15"))
        assert torch.equal(six, eight[:6])


def test_the_smaller_pool_is_compared_completely():
    for seed in range(10):
        _, pairs = initial_designs.table("levy-10d", "pool_n6_k15", seed, 10)
        assert sorted(tuple(pair) for pair in pairs.tolist()) == list(combinations(range(6), 2))


def test_the_larger_pool_has_fifteen_of_its_twenty_eight_pairs():
    chosen = set()
    for seed in range(10):
        _, pairs = initial_designs.table("levy-10d", "pool_n8_k15", seed, 10)
        found = {tuple(pair) for pair in pairs.tolist()}
        assert len(found) == 15 and found <= set(combinations(range(8), 2))
        chosen.add(frozenset(found))
    assert len(chosen) == 10


@matchings
def test_in_a_matching_every_design_is_in_one_comparison(name):
    for seed in range(10):
        points, pairs = initial_designs.table("levy-10d", name, seed, 10)
        assert sorted(pairs.flatten().tolist()) == list(range(len(points)))


@every_initialization
def test_the_order_is_shuffled_anew_for_every_seed_and_problem(name):
    orders = {
        tuple(initial_designs.table(problem, name, seed, 10)[1].flatten().tolist())
        for problem in ("levy-10d", "ackley-8d")
        for seed in range(20)
    }
    # Three pairs have but six orders, and five a hundred and twenty.
    assert len(orders) == 6 if name == "pure_k3" else len(orders) > 25


def test_the_order_of_one_initialization_says_nothing_about_another():
    """The first six designs are shared; the order in which their pairs come up is not."""
    alike = 0
    for seed in range(60):
        _, six = initial_designs.table("levy-10d", "pool_n6_k15", seed, 10)
        _, eight = initial_designs.table("levy-10d", "pool_n8_k15", seed, 10)
        shared = [pair for pair in eight.tolist() if max(pair) < 6]
        alike += [pair for pair in six.tolist() if pair in shared] == shared
    assert alike == 0


def test_seeds_problems_and_matchings_have_designs_of_their_own():
    tables = [
        initial_designs.table(problem, name, seed, 10)[0][:6]
        for problem in ("levy-10d", "ackley-8d")
        for name in ("pool_n6_k15", "pure_k3", "pure_k5", "pure_k15")
        for seed in (0, 1)
    ]
    for a, b in combinations(tables, 2):
        assert not bool((a == b).any())


def test_designs_are_uniform_and_independent():
    for name in INITIALIZATIONS:
        points = torch.stack([initial_designs.table("levy-10d", name, seed, 10)[0] for seed in range(60)])
        for column in (0, 9):
            assert kstest(points[..., column].flatten().numpy(), "uniform").pvalue > 1e-3
        assert kstest(points.flatten().numpy(), "uniform").pvalue > 1e-3
        correlation = torch.corrcoef(points.reshape(-1, 10).T) - torch.eye(10)
        assert float(correlation.abs().max()) < 4.5 / (60 * INITIALIZATIONS[name].n_points) ** 0.5


@pytest.mark.parametrize(("name", "n"), [("pool_n6_k15", 6), ("pool_n8_k15", 8)])
def test_every_pair_is_as_likely_as_another(name, n):
    """To be the first, and in the larger pool to be asked at all."""
    every = list(combinations(range(n), 2))
    tables = [initial_designs.table("levy-10d", name, seed, 10)[1].tolist() for seed in range(1000)]
    first = [sum(tuple(pairs[0]) == pair for pairs in tables) for pair in every]
    assert chisquare(first).pvalue > 1e-3
    if n == 8:
        asked = [sum(list(pair) in pairs for pairs in tables) for pair in every]
        spread = (1000 * 15 / 28 * 13 / 28) ** 0.5
        assert max(abs(count - 1000 * 15 / 28) for count in asked) < 4.5 * spread


@every_initialization
def test_the_winner_of_an_exact_person_comes_first(name):
    for problem in ("hartmann-6d", "levy-10d", "dtlz2-8d"):
        row = PROBLEMS[problem]
        start = initial_designs.start(row, name, range(5), person="exact")
        winner, loser = (start.utility.gather(1, start.comparisons[..., side]) for side in (0, 1))
        assert bool((winner > loser).all()) and not bool(start.ties.any())
        tables = [initial_designs.table(problem, name, seed, row.dimensions) for seed in range(5)]
        for run, (points, pairs) in enumerate(tables):
            assert torch.equal(start.points[run], points)
            assert torch.equal(start.utility[run], row.unit_utility(points))
            assert torch.equal(start.comparisons[run].sort(-1).values, pairs.sort(-1).values)
        first_wins = start.comparisons[..., 0] == torch.stack([pairs[:, 0] for _, pairs in tables])
        assert bool(first_wins.any()) and not bool(first_wins.all())


def test_the_papers_person_errs_now_and_then_and_always_alike():
    row = PROBLEMS["dtlz2-8d"]
    noisy, exact = (initial_designs.start(row, "pool_n6_k15", range(60), person=who) for who in ("paper", "exact"))
    errors = float((noisy.comparisons != exact.comparisons).any(-1).double().mean())
    # What the probit expects of these pairs.
    sides = exact.utility.gather(1, exact.comparisons.flatten(1)).reshape(exact.comparisons.shape)
    expected = torch.special.ndtr(-(sides[..., 0] - sides[..., 1]) / (0.1 * 2.0**0.5))
    assert errors == pytest.approx(
        float(expected.mean()), abs=4.0 * float((expected * (1 - expected)).sum()) ** 0.5 / 900
    )
    assert errors > 0.02
    assert torch.equal(initial_designs.start(row, "pool_n6_k15", range(60)).comparisons, noisy.comparisons)


def test_a_tie_keeps_its_pair_and_is_marked():
    row, sleepy = PROBLEMS["hartmann-6d"], simulated_voters.Person(noise=0.0, just_noticeable=0.3)
    start = initial_designs.start(row, "pool_n8_k15", range(10), person=sleepy)
    sides = start.utility.gather(1, start.comparisons.flatten(1)).reshape(start.comparisons.shape)
    difference = sides[..., 0] - sides[..., 1]
    assert torch.equal(start.ties, difference.abs() <= 0.3)
    assert bool((difference[~start.ties] > 0.3).all())
    assert 0 < int(start.ties.sum()) < start.ties.numel()


@every_initialization
def test_a_batch_of_runs_is_the_runs_one_by_one(name):
    row = PROBLEMS["levy-20d"]
    together = initial_designs.start(row, name, [5, 0, 59])
    for run, seed in enumerate([5, 0, 59]):
        for part, alone in zip(together, initial_designs.start(row, name, [seed]), strict=True):
            assert torch.equal(part[run], alone[0])


def test_a_table_knows_nothing_of_methods():
    """The same start for every method, because none can be told: common random numbers by construction."""
    assert list(inspect.signature(initial_designs.table).parameters) == [
        "problem",
        "initialization",
        "seed",
        "dimensions",
        "first_pairs",
    ]
    names = ["problem", "initialization", "seeds", "person", "first_pairs"]
    assert list(inspect.signature(initial_designs.start).parameters) == names


@every_initialization
def test_no_other_chance_moves_a_table(name):
    """Not the global generator, not the default precision, not what was drawn before."""
    row = PROBLEMS["ackley-8d"]
    before = initial_designs.start(row, name, [3])
    state = torch.random.get_rng_state()
    torch.manual_seed(123)
    torch.set_default_dtype(torch.float32)
    initial_designs.start(row, name, [4])
    after = initial_designs.start(row, name, [3])
    assert int(torch.randint(1000, ())) == int(torch.randint(1000, (), generator=torch.Generator().manual_seed(123)))
    torch.random.set_rng_state(state)
    for a, b in zip(before, after, strict=True):
        assert torch.equal(a, b)


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name: golden_values(name) for name in PROBLEMS}, indent=1) + "\n", "utf-8")
