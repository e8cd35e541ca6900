"""Other people's libraries as methods: our start and our person, their questions; reproducible, failures are rows."""

import json
import sys
from importlib import metadata

import pytest
import torch

from kappasharp.errors import InvalidValueError
from kappasharp.lab import libraries, outcomes
from kappasharp.lab.external import methods
from kappasharp.lab.external.contract import MethodError, OwnProcess, Proposed
from kappasharp.lab.external.methods import PEERS
from kappasharp.lab.external.server import Speaker
from kappasharp.lab.run import run_together
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import PROBLEMS, find_problem
from tests.lab import tiny

# Optuna Dashboard compiles a loop with it when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
HARTMANN, VEHICLE = PROBLEMS["hartmann-6d"], PROBLEMS["vehicle-5d"]
PAPER = simulated_voters.PERSONS["paper"]


class Inside(OwnProcess):
    """The contract word for word, without a process of its own: to import a library takes longer than to ask it."""

    def __init__(self, peer):
        super().__init__(())
        self.speaker, self.questions = Speaker(peer.factory), []

    def _say(self, message, seconds=None):
        reply = json.loads(json.dumps(self.speaker.reply(json.loads(json.dumps(message))), default=list))
        if "error" in reply:
            raise MethodError(reply["error"])
        self.questions += [reply["pair"]] if "pair" in reply else []
        return reply


def problem_of(name):
    """BOPE needs outcomes."""
    return VEHICLE if name == "botorch_bope" else HARTMANN


def played(name, player, seed=7, queries=2, person=PAPER):
    return methods.run(PEERS[name], player, problem_of(name), "pool_n6_k15", seed=seed, queries=queries, person=person)


@pytest.fixture(scope="module", params=PEERS)
def record(request):
    """A peer's name, what it did in two questions, and these."""
    player = Inside(PEERS[request.param])
    return request.param, played(request.param, player), player.questions


def test_a_peer_starts_where_our_methods_start_and_tells_a_design(record):
    name, found, _ = record
    start = initial_designs.start(problem_of(name), "pool_n6_k15", [7])
    assert found["best_utility"][0] == float(start.utility.max())
    assert len(found["best_utility"]) == 3 and found["best_utility"] == sorted(found["best_utility"])
    assert found["step_status"] == ["ok", "ok"] and found["block_runs"] == 1
    # BoTorch's pairs are new and so are CMA's first; the others' new design meets the winner.
    assert found["n_components"] == [1, 2 if name.startswith(("botorch", "ax", "cma")) else 1]
    assert len(found["told_utility"]) == 3
    if not name.startswith("cma"):  # whose favourite nobody has seen
        assert found["told_utility"][-1] <= found["best_utility"][-1]


def test_a_peer_is_reproducible(record):
    name, found, questions = record
    player = Inside(PEERS[name])
    again = played(name, player, queries=1)
    # Not to the last digit: BoTorch's sums depend on where its tensors lie in memory.
    assert again["best_utility"] == pytest.approx(found["best_utility"][:2], abs=1e-6)
    assert torch.allclose(torch.tensor(player.questions), torch.tensor(questions[:1]), rtol=0.0, atol=1e-4)
    other = Inside(PEERS[name])
    played(name, other, seed=8, queries=1)
    assert not torch.allclose(torch.tensor(other.questions), torch.tensor(player.questions), atol=1e-2)


def told(player, start):
    """The first answers of a start, as the lab tells them."""
    for winner, loser in start.comparisons[0].tolist():
        player.tell([start.points[0, winner].tolist(), start.points[0, loser].tolist()], 0)
    return player


def test_optuna_asks_its_gaussian_process():
    """Before the first preference it draws at random; afterwards it must not."""
    start = initial_designs.start(HARTMANN, "pool_n6_k15", [7])
    player = told(libraries.Optuna(6, 7), start)
    assert sorted(list(trial.params.values()) for trial in player.trials) == sorted(start.points[0].tolist())
    sampler = player.study._study.sampler
    new, champion = player.ask()
    assert sampler._gp is not None and type(sampler).__name__ == "PreferentialGPSampler"
    assert champion == start.points[0, int(start.comparisons[0, -1, 0])].tolist()
    assert all(0.0 <= value <= 1.0 for value in new) and len(player.study.preferences) == 15
    player.tell([new, champion], 0)
    assert player.best() == new and len(player.study.preferences) == 16


def test_cma_is_told_the_ranks_of_its_designs_and_gets_better():
    """Whatever the order of the answers, a generation is sorted right; and on a bowl its favourite comes nearer."""
    player, centre = libraries.Cma(3, 1), [0.2, 0.7, 0.4]

    def off(design):
        return sum((a - b) ** 2 for a, b in zip(design, centre, strict=True))

    generations = []
    player.tell([[0.9] * 3, [0.8] * 3], 1)
    assert player.best() == [0.8] * 3
    for _ in range(120):
        new, known = player.ask()
        designs = player.designs
        player.tell([new, known], int(off(known) < off(new)))
        if not player.order:
            generations.append((designs, player.strategy.fit.fit))
    assert len(generations) > 20 and player.strategy.countiter == len(generations)
    for designs, ranks in generations:
        assert sorted(ranks) == [0.0, 1.0, 2.0, 3.0]
        assert sorted(map(off, designs))[0] == min(map(off, designs))
    assert off(player.best()) < 0.05 * off([0.8] * 3)


def outcomes_player(problem, seed=7):
    start = initial_designs.start(problem, "from_zero", [seed])
    return told(libraries.Bope(problem.dimensions, seed, problem.name), start)


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
    player.tell(player.ask().tolist(), 0)
    assert player.seen().shape == (12, 3) and pair.shape == (2, 5)


def test_bope_models_what_is_simulated():
    """The tutorial's way where outcomes have no gradient: one path of a Gaussian process; the truth for the model."""
    pid = find_problem("pid-3d")
    player = outcomes_player(pid)
    assert player.modelled is libraries.outcome_model("pid-3d")
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
    """A method that asks what it was told to, and remembers what it was told."""

    def __init__(self, points, warning=""):
        fresh = torch.rand(3, 6, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
        self.script = [fresh[:2], points[[3, 0]], torch.stack([fresh[2], fresh[0]])]
        self.questions, self.answers, self.warning = iter(self.script), [], warning
        self.voters = []

    def begin(self, dimensions, seed, problem=""):
        self.begun = dimensions, problem

    def ask(self, voter=None):
        self.voters.append(voter)
        return Proposed(next(self.questions), self.warning)

    def tell(self, pair, answer, voter=None):
        self.answers.append((pair.tolist(), answer))
        self.voters.append(voter)

    def best(self):
        return None if len(self.answers) < 17 else self.script[0][0]


def test_a_method_gets_our_tables_and_our_persons_answers(monkeypatch):
    start = initial_designs.start(HARTMANN, "pool_n6_k15", [7])
    evaluated, evaluate = [], Problem.unit_utility
    monkeypatch.setattr(Problem, "unit_utility", lambda self, U: evaluated.append(U) or evaluate(self, U))
    player = Scripted(start.points[0])
    found = played("random_king", player, queries=3)
    assert player.begun == (6, "") and set(player.voters) == {None}
    chance = simulated_voters.draws("hartmann-6d", 7, "oracle noise", 3)
    for mood, question, (pair, answer) in zip(chance, player.script, player.answers[15:], strict=True):
        assert pair == question.tolist()
        assert answer == int(simulated_voters.answer(PAPER, evaluate(HARTMANN, question), mood))
    for (winner, loser), (pair, answer) in zip(start.comparisons[0].tolist(), player.answers, strict=False):
        assert pair[answer] == start.points[0, winner].tolist() and pair[1 - answer] == start.points[0, loser].tolist()
    # Six first designs, then three new ones; the known are not evaluated again. What is told is, for the record alone.
    assert [U.shape for U in evaluated] == [(1, 6, 6), (6,), (6,), (6,), (6,), (6,)]
    assert found["n_components"] == [1, 2, 2] and found["n_points"] == [6, 8, 8, 9]
    seen = torch.cat([start.utility[0], *(evaluate(HARTMANN, question) for question in player.script)])
    assert found["best_utility"][-1] == float(seen.max())
    assert found["told_utility"] == [None, None, *[float(evaluate(HARTMANN, player.script[0][0]))] * 2]


def test_of_a_jury_every_answer_is_the_members_own_and_a_method_is_told_whose():
    jury = find_problem("jury-3-independent-hartmann-6d")
    start = initial_designs.start(jury, "from_zero", [7], "exact")
    player = Scripted(start.points[0])
    exact = simulated_voters.person("exact")
    found = methods.run(PEERS["random_king"], player, jury, "from_zero", seed=7, queries=8, person=exact)
    assert player.voters == [0, 1, 2, 0, 1, 2, 2, 0, 0, 1, 1]  # five told first, then asked and told
    for turn, (pair, answer) in enumerate(player.answers):
        felt = jury.unit_felt(torch.tensor(pair, dtype=torch.float64), turn)
        assert answer == int(felt[1] > felt[0])
    seen = torch.cat([start.utility[0], *(jury.unit_utility(question) for question in player.script)])
    assert found["best_utility"][-1] == pytest.approx(float(seen.max()), rel=1e-12)


def test_a_tie_is_told_as_one_and_a_warning_is_a_status():
    start = initial_designs.start(HARTMANN, "pool_n6_k15", [7])
    player = Scripted(start.points[0], warning="the fit did not converge")
    found = played("random_king", player, queries=3, person=simulated_voters.Person(just_noticeable=100.0))
    assert {answer for _, answer in player.answers} == {simulated_voters.TIE}
    assert found["step_status"] == ["peer_warned"] * 3


def test_a_method_is_told_the_design_that_was_shown():
    """A parameter of whole numbers takes the nearest; the method learns which that was."""
    problem = find_problem("drawn-1-06")
    player = Inside(PEERS["random_king"])
    said = []
    player.tell = lambda pair, answer, voter: said.append(pair) or OwnProcess.tell(player, pair, answer, voter)
    methods.run(PEERS["random_king"], player, problem, "from_zero", seed=0, queries=8, person=PAPER)
    shown = torch.stack(said)
    assert torch.equal(shown, problem.nearest(shown)) and len(shown) == 8
    assert not torch.equal(torch.tensor(player.questions), problem.nearest(torch.tensor(player.questions)))


def test_a_row_says_which_version_ran():
    (block,) = tiny.blocks(methods=["cma_by_rank"], seeds=[7])
    (row,) = run_together([block])[0]
    values = json.loads(row["method_values"])
    assert (values["library"], values["installed"]) == ("cma", metadata.version("cma"))
    assert row["strength"] == [] and len(row["best_utility"]) == 3 and row["key"] == block.keys[0]
    assert row["seconds"] > 0.0 and (row["status"], row["error"]) == ("ok", None)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("botorch_0_18", "botorch.models.pairwise_gp", "botorch"),
        ("botorch_bope", "botorch.models.deterministic", "botorch"),
        ("ax_preference", "ax.core", "ax"),
        ("optuna_preferential", "optuna", "peers"),
        ("optuna_preferential", "optuna_dashboard.preferential", "peers"),
        ("cma_by_rank", "cma", "peers"),
    ],
)
def test_a_missing_library_is_said(monkeypatch, name, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    words = rf"The method {name} needs the library '{module}'.*`python -m pip install '.*\[{extra}\]'`"
    with pytest.raises(MethodError, match=words):
        played(name, Inside(PEERS[name]))
