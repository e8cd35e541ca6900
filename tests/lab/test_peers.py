"""Other people's libraries as methods: our start and our person, their questions; reproducible, nothing leaks out."""

import json
import sys
import warnings
from importlib import metadata

import pytest
import torch

from kappasharp.errors import InvalidValueError, MissingLibraryError
from kappasharp.lab import engines, outcomes, peers
from kappasharp.lab.peers import PEERS, PLAYERS, PeerQuestion
from kappasharp.lab.run import run_together
from kappasharp.problems import initial, oracle
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import PROBLEMS, find_problem
from tests.lab import tiny

# Optuna Dashboard compiles a loop with it when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
HARTMANN, VEHICLE = PROBLEMS["hartmann-6d"], PROBLEMS["vehicle-5d"]


def problem_of(name):
    """BOPE needs outcomes."""
    return VEHICLE if name == "botorch_bope" else HARTMANN


def played(name, seed=7, queries=2, person=oracle.PERSONS["paper"]):
    return peers.run(PEERS[name], problem_of(name), "pool_n6_k15", seed, queries, person)


def watched(name, seed=7, queries=2):
    """The record of a run, and the designs of its questions."""
    asked, questions = peers._asked, []

    def remember(player):
        question, word = asked(player)
        questions.append(question.points.tolist())
        return question, word

    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        patched.setattr(peers, "_asked", remember)
        return played(name, seed, queries), questions


@pytest.fixture(scope="module", params=PEERS)
def record(request):
    """A peer's name, what it did in two questions, and whether torch's own generator was left alone."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    found = watched(request.param)
    return request.param, found, torch.equal(torch.get_rng_state(), before)


def test_a_peer_starts_where_our_methods_start(record):
    name, (found, _), _ = record
    start = initial.start(problem_of(name), "pool_n6_k15", [7])
    assert found["best_utility"][0] == float(start.utility.max())
    assert len(found["best_utility"]) == 3 and found["best_utility"] == sorted(found["best_utility"])
    assert found["step_status"] == ["ok", "ok"]
    # BoTorch's pairs are new; Optuna's new design meets the winner.
    assert found["n_components"] == [1, 1 if name == "optuna_preferential" else 2]


def test_a_peer_is_reproducible_and_leaves_the_global_generator_alone(record):
    name, (found, questions), untouched = record
    assert untouched
    torch.manual_seed(2)
    again, first = watched(name, queries=1)
    # Not to the last digit: BoTorch's sums depend on where its tensors lie in memory.
    assert again["best_utility"] == pytest.approx(found["best_utility"][:2], abs=1e-6)
    assert torch.allclose(torch.tensor(first), torch.tensor(questions[:1]), rtol=0.0, atol=1e-6)
    _, other = watched(name, seed=8, queries=1)
    assert not torch.allclose(torch.tensor(other), torch.tensor(first), atol=1e-2)


def test_optuna_asks_its_gaussian_process():
    """Before the first preference it draws at random; afterwards it must not."""
    start = initial.start(HARTMANN, "pool_n6_k15", [7])
    player = peers.Optuna(start.points[0], start.comparisons[0], 7)
    assert [list(trial.params.values()) for trial in player.trials] == start.points[0].tolist()
    sampler = player.study._study.sampler
    question = player.ask()
    assert sampler._gp is not None and type(sampler).__name__ == "PreferentialGPSampler"
    assert question.known == (-1, int(start.comparisons[0, -1, 0]))
    assert torch.equal(question.points[1], start.points[0, question.known[1]])
    assert bool(((question.points >= 0.0) & (question.points <= 1.0)).all())
    assert len(player.study.preferences) == 15
    player.tell(6, question.known[1])
    assert player.champion == 6 and len(player.study.preferences) == 16


def outcomes_player(problem, seed=7):
    start = initial.start(problem, "from_zero", [seed])
    return peers.Bope(start.points[0], start.comparisons[0], seed, problem)


def test_bope_climbs_through_the_outcomes_themselves():
    """EUBO on a PairwiseGP of normalised outcomes: the value at two designs is BoTorch's own at their outcomes."""
    player = outcomes_player(VEHICLE)
    known = outcomes.sample("vehicle-5d")
    assert known.designs.shape == (256, 5) and outcomes.sample("vehicle-5d") is known
    assert torch.equal(known.outcomes, VEHICLE.unit_outcomes(known.designs))
    normalised = known.normalised(known.outcomes)
    assert torch.allclose(normalised.aminmax(dim=0).min, torch.zeros(3))
    assert torch.allclose(normalised.aminmax(dim=0).max, torch.ones(3))
    composed = player.acquisition()
    model = composed.model
    assert torch.allclose(model.datapoints, known.normalised(VEHICLE.unit_outcomes(player.points)))
    X = torch.rand(5, 2, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    direct = player.eubo(model)(known.normalised(VEHICLE.unit_outcomes(X)))
    assert torch.allclose(composed(X), direct, rtol=1e-9)
    (slope,) = torch.autograd.grad(composed(X).sum(), X)
    assert bool(slope.isfinite().all()) and bool((slope != 0.0).any())
    # Its search beats its own raw samples, and what it asked is measured before the next question.
    pair, value = player.propose(composed)
    raw = torch.rand(64, 2, 5, generator=torch.Generator().manual_seed(1))
    assert float(value) >= float(composed(raw).detach().max()) - 1e-6
    player.ask()
    player.tell(10, 11)
    assert player.seen().shape == (12, 3) and pair.shape == (2, 5)


def test_bope_models_what_is_simulated():
    """The tutorial's way where outcomes have no gradient: one path of a Gaussian process; the truth for the model."""
    pid = find_problem("pid-3d")
    player = outcomes_player(pid)
    assert player.modelled is peers.outcome_model("pid-3d")
    known = outcomes.sample("pid-3d")
    assert torch.allclose(player.seen(), known.normalised(pid.unit_outcomes(player.points)))
    X = torch.rand(200, 3, generator=torch.Generator().manual_seed(2))
    predicted, true = player.modelled.posterior(X).mean.detach(), known.normalised(pid.unit_outcomes(X))
    left = (predicted - true).var(0) / true.var(0)
    assert float(left[1]) < 0.3 and float(left[3]) < 0.05  # rise and force are smooth, settling jumps
    composed = player.acquisition()
    assert type(composed.outcome_model).__name__ == "FixedSingleSampleModel"
    assert composed(X[:2].unsqueeze(0)).isfinite().all()


def test_bope_is_another_run_than_botorchs_own():
    """The same library and versions, two loops: their keys differ, and the older one's stay."""
    keys = {name: tiny.blocks(problems=["vehicle-5d"], methods=[name])[0].keys for name in PEERS}
    assert len({key for some in keys.values() for key in some}) == 2 * len(PEERS)


def test_bope_without_outcomes_is_refused_before_a_run():
    words = r"`problems` must have outcomes for the method botorch_bope, but hartmann-6d has none"
    with pytest.raises(InvalidValueError, match=words):
        tiny.blocks(methods=["botorch_bope"])
    with pytest.raises(InvalidValueError, match="but hartmann-6d has none"):
        outcomes_player(HARTMANN)


class Scripted:
    """A peer that asks what it was told to, and remembers the answers."""

    def __init__(self, points, pairs, seed):
        self.start, self.answers = (points, pairs, seed), []
        generator = torch.Generator().manual_seed(seed)
        fresh = torch.rand(3, 6, generator=generator)
        self.script = [
            PeerQuestion(fresh[:2], (-1, -1)),
            PeerQuestion(torch.stack([points[3], points[0]]), (3, 0)),
            PeerQuestion(torch.stack([fresh[2], fresh[0]]), (-1, 6)),
        ]
        self.questions = iter(self.script)

    def ask(self):
        return next(self.questions)

    def tell(self, winner, loser):
        self.answers.append((winner, loser))


@pytest.fixture
def scripted(monkeypatch):
    """The one scripted player of a test, in BoTorch's setting."""
    players = []

    def make(*start):
        players.append(Scripted(*start))
        return players[-1]

    monkeypatch.setitem(PLAYERS, PEERS["botorch_0_18"], make)
    return players


def test_a_peer_gets_our_tables_and_our_persons_answers(scripted, monkeypatch):
    evaluated, evaluate = [], Problem.unit_utility
    monkeypatch.setattr(Problem, "unit_utility", lambda self, U: evaluated.append(U) or evaluate(self, U))
    found = played("botorch_0_18", queries=3)
    player, start = scripted[0], initial.start(HARTMANN, "pool_n6_k15", [7])
    assert torch.equal(player.start[0], start.points[0]) and torch.equal(player.start[1], start.comparisons[0])
    assert player.start[2] == 7
    chance = oracle.draws("hartmann-6d", 7, "oracle noise", 3)
    expected = []
    for mood, question, index in zip(chance, player.script, [(6, 7), (3, 0), (8, 6)], strict=True):
        second = int(oracle.answer(oracle.PERSONS["paper"], HARTMANN.unit_utility(question.points), mood))
        expected.append((index[second], index[1 - second]))
    assert player.answers == expected
    # Six first designs, then three new ones; the known are not evaluated again (the loop above and `start` add theirs).
    assert [U.shape for U in evaluated[:4]] == [(1, 6, 6), (6,), (6,), (6,)]
    assert found["n_components"] == [1, 2, 2] and found["n_points"] == [6, 8, 8, 9]
    seen = torch.cat([start.utility[0], *(HARTMANN.unit_utility(question.points) for question in player.script)])
    assert found["best_utility"][-1] == float(seen.max())


def test_a_tie_counts_for_the_first_design(scripted):
    never_sure = oracle.Person(just_noticeable=100.0)
    played("botorch_0_18", queries=3, person=never_sure)
    assert scripted[0].answers == [(6, 7), (3, 0), (8, 6)]


def test_a_peers_warning_is_its_status(scripted, monkeypatch):
    def complains(self):
        warnings.warn("the fit did not converge", RuntimeWarning, stacklevel=1)
        return next(self.questions)

    monkeypatch.setattr(Scripted, "ask", complains)
    block = tiny.blocks(methods=["botorch_0_18"], seeds=[7])[0]
    (row,) = run_together([block])[0]
    assert row["step_status"] == ["peer_warned"] * 2
    assert (row["status"], row["failed_steps"]) == ("peer_warned", 2)


def test_a_peers_row_says_which_version_ran(scripted):
    block = tiny.blocks(methods=["botorch_0_18"], seeds=[7])[0]
    (row,) = run_together([block])[0]
    values = json.loads(row["method_values"])
    assert (values["library"], values["installed"]) == ("botorch", metadata.version("botorch"))
    assert row["strength"] == [] and len(row["best_utility"]) == 3 and row["key"] == block.keys[0]


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("botorch_0_18", "botorch.models.pairwise_gp", "botorch"),
        ("botorch_bope", "botorch.models.deterministic", "botorch"),
        ("optuna_preferential", "optuna", "peers"),
        ("optuna_preferential", "optuna_dashboard.preferential", "peers"),
    ],
)
def test_a_missing_library_is_said(monkeypatch, name, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    words = rf"The method {name} needs the library '{module}'.*`python -m pip install '.*\[{extra}\]'`"
    with pytest.raises(MissingLibraryError, match=words):
        played(name)
    (outcome,) = engines.serial([(tiny.blocks(problems=[problem_of(name).name], methods=[name])[0],)])
    assert outcome.rows is None and outcome.error.startswith(f"MissingLibraryError: The method {name} needs")
