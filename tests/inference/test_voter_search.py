"""Many answers of several people: nobody goes unheard, the end is one of all answers, in any order the same."""

from dataclasses import replace

import pytest
import torch

from kappasharp.algorithm import fit
from kappasharp.inference import comparisons, posterior, voter_evidence
from kappasharp.inference import voters as inference_voters
from kappasharp.inference.comparisons import Answers
from kappasharp.kernels.priors import PeoplePriors
from kappasharp.questions.comparisons import Said
from kappasharp.settings import find_preset

BASE = fit.model_of(find_preset("modern"), 3)


def felt(X, who, voters):
    """One wish that all share for the first coordinate, and one of each voter's own for another."""
    own = 1 + torch.arange(voters) * (X.shape[-1] - 1) // voters
    wish = 0.15 + 0.7 * torch.rand(voters, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    far = (X.gather(-1, own[who].unsqueeze(-1)).squeeze(-1) - wish[who]).square()
    return -12.0 * far - 4.0 * (X[:, 0] - 0.4).square()


def in_turn(voters, each, d=3, seed=0):
    """A batch of one: answers of voters in turn, each about two designs of its own."""
    chance = torch.Generator().manual_seed(seed)
    m = voters * each
    who = torch.arange(m) % voters
    X = torch.rand(2 * m, d, generator=chance, dtype=torch.float64)
    first, second = torch.arange(2 * m).reshape(m, 2).unbind(1)
    noise = 0.5 * torch.randn(m, generator=chance, dtype=torch.float64)
    better = felt(X[first], who, voters) + noise > felt(X[second], who, voters)
    pairs = torch.where(better.unsqueeze(1), torch.stack([first, second], 1), torch.stack([second, first], 1))
    return Answers(X.unsqueeze(0), pairs.unsqueeze(0)), who.unsqueeze(0)


def model_of(voters):
    return BASE._replace(priors=PeoplePriors(BASE.priors, voters))


def loss(found, voter, data):
    """The log loss of one voter's answers that were not learnt from."""
    answers, who = data
    ends = answers.X[0][answers.pairs[0, who[0] == voter]]
    seen = posterior.contrast(inference_voters.of_voter(found, voter), ends[None, :, 0], ends[None, :, 1])
    spread = (seen.variance + 2.0 / found.consistency[0, voter].square()).sqrt()
    return -float(torch.special.ndtr(seen.mean / spread).log().mean())


def all_at_once(model, answers, who, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(inference_voters, "ALL_AT_ONCE", 10_000)
        return inference_voters.fit(model, answers, who)


@pytest.mark.parametrize(("voters", "each"), [(2, 60), (4, 30)])
def test_everybody_who_answers_in_turn_is_heard(voters, each, monkeypatch):
    answers, who = in_turn(voters, each)
    whole = all_at_once(model_of(voters), answers, who, monkeypatch)
    monkeypatch.setattr(inference_voters, "ALL_AT_ONCE", 60)
    found = inference_voters.fit(model_of(voters), answers, who)
    assert found.hyper.converged.all() and 56 <= int(found.hyper.searched_on) <= 60
    assert float(found.value) == pytest.approx(float(whole.value), abs=0.1)
    torch.testing.assert_close(found.rho, whole.rho, rtol=0, atol=0.02)
    held_out = in_turn(voters, 100, seed=1)
    for voter in range(voters):
        assert loss(found, voter, held_out) == pytest.approx(loss(whole, voter, held_out), abs=0.01)


def test_the_second_of_two_with_twelve_hundred_answers_is_foretold_as_well_as_the_first():
    found = inference_voters.fit(model_of(2), *in_turn(2, 600))
    assert found.hyper.converged.all() and int(found.hyper.searched_on) == 600
    held_out = in_turn(2, 300, seed=1)
    assert max(loss(found, voter, held_out) for voter in (0, 1)) < 0.25


@pytest.mark.parametrize(("voters", "each"), [(120, 3), (235, 2)])
def test_of_many_voters_what_they_share_is_as_all_answers_have_it(voters, each, monkeypatch):
    answers, who = in_turn(voters, each, d=2)
    whole = all_at_once(model_of(voters), answers, who, monkeypatch)
    monkeypatch.setattr(inference_voters, "ALL_AT_ONCE", 120)
    found = inference_voters.fit(model_of(voters), answers, who)
    assert found.hyper.converged.all() and int(found.hyper.searched_on) <= 120
    torch.testing.assert_close(found.rho, whole.rho, rtol=0, atol=0.02)
    assert float(found.value) == pytest.approx(float(whole.value), abs=0.1)


def test_any_order_of_answers_and_of_voters_ends_at_the_same_place(monkeypatch):
    monkeypatch.setattr(inference_voters, "ALL_AT_ONCE", 40)
    answers, who = in_turn(5, 20)
    first = inference_voters.fit(model_of(5), answers, who)
    chance = torch.Generator().manual_seed(2)
    order, names = torch.randperm(100, generator=chance), torch.randperm(5, generator=chance)
    second = inference_voters.fit(model_of(5), Answers(answers.X, answers.pairs[:, order]), names[who[:, order]])
    torch.testing.assert_close(second.alone, first.alone, rtol=0, atol=1e-9)
    torch.testing.assert_close(second.consistency[:, names], first.consistency, rtol=0, atol=1e-9)
    held_out = in_turn(5, 20, seed=1)
    for voter in range(5):
        other = (held_out[0], names[held_out[1]])
        assert loss(second, int(names[voter]), other) == pytest.approx(loss(first, voter, held_out), abs=1e-7)


@pytest.mark.parametrize("double", [True, False])
def test_the_certificate_is_one_of_all_answers(double, monkeypatch):
    monkeypatch.setattr(inference_voters, "ALL_AT_ONCE", 30)
    if not double:
        monkeypatch.setattr(inference_voters, "ACCURATE", 0)
    model, (answers, who) = model_of(3), in_turn(3, 40)
    found = inference_voters.fit(model, answers, who)
    data = voter_evidence.gather(answers, who, 3).evaluate(model, found.hyper.theta, found.dual.z)
    gradient = data.gradient + model.priors.slope(found.hyper.theta)
    close = {"rtol": 0, "atol": 1e-6 if double else 1e-2}
    torch.testing.assert_close(found.hyper.gradient, gradient, **close)
    assert found.hyper.converged.all() and float(gradient.abs().max()) < (0.3 if double else 1.5)


def test_what_nobody_said_shared_noise_ties_and_a_batch_go_through_as_alone(monkeypatch):
    monkeypatch.setattr(inference_voters, "ALL_AT_ONCE", 20)
    parts = [in_turn(3, 20, seed=seed) for seed in (3, 4)]
    said = comparisons.detail([Said(((0, 1), (0, 2)), (False, False))] * 30)
    assert said is not None
    ties = torch.zeros(1, 60, dtype=torch.bool)
    ties[:, ::7] = True
    model = model_of(3)._replace(likelihood=replace(BASE.likelihood, threshold=0.3))
    each = []
    for answers, who in parts:
        who[:, -4:] = voter_evidence.NOBODY
        each.append(inference_voters.fit(model, answers._replace(ties=ties, detail=said), who))
    X, pairs, who = (torch.cat(many) for many in zip(*((a.X, a.pairs, w) for a, w in parts), strict=True))
    detail = type(said)(*(torch.cat([part, part]) for part in said))
    both = inference_voters.fit(model, Answers(X, pairs, ties.expand(2, -1), detail), who)
    for run, alone in enumerate(each):
        assert alone.hyper.converged.all() and alone.dual.converged.all()
        torch.testing.assert_close(both.hyper.theta[run], alone.hyper.theta[0], rtol=0, atol=1e-9)
