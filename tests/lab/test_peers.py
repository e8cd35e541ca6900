"""Other people's libraries as methods: our start and our person, their questions; reproducible, nothing leaks out."""

import json
import sys
import warnings
from importlib import metadata

import pytest
import torch

from kappasharp.errors import MissingLibraryError
from kappasharp.lab import engines, peers
from kappasharp.lab.peers import PEERS, PLAYERS, PeerQuestion
from kappasharp.lab.run import run_together
from kappasharp.problems import initial, oracle
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import PROBLEMS
from tests.lab import tiny

# Optuna Dashboard compiles a loop with it when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
HARTMANN = PROBLEMS["hartmann-6d"]


def played(name, seed=7, queries=2, person=oracle.PERSONS["paper"]):
    return peers.run(PEERS[name], HARTMANN, "pool_n6_k15", seed, queries, person)


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
    start = initial.start(HARTMANN, "pool_n6_k15", [7])
    assert found["best_utility"][0] == float(start.utility.max())
    assert len(found["best_utility"]) == 3 and found["best_utility"] == sorted(found["best_utility"])
    assert found["step_status"] == ["ok", "ok"]
    # BoTorch's pairs are new; Optuna's new design meets the winner.
    assert found["n_components"] == {"botorch_0_18": [1, 2], "optuna_preferential": [1, 1]}[name]


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
        ("optuna_preferential", "optuna", "peers"),
        ("optuna_preferential", "optuna_dashboard.preferential", "peers"),
    ],
)
def test_a_missing_library_is_said(monkeypatch, name, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    words = rf"The method {name} needs the library '{module}'.*`pip install 'kappasharp\[{extra}\]'`"
    with pytest.raises(MissingLibraryError, match=words):
        played(name)
    (outcome,) = engines.serial([(tiny.blocks(methods=[name])[0],)])
    assert outcome.rows is None and outcome.error.startswith(f"MissingLibraryError: The method {name} needs")
