"""Several people in the loop: whose answers are whose, what a question is chosen by, and that one person is one."""

from dataclasses import replace

import pytest
import torch

from kappasharp.algorithm import loop
from kappasharp.algorithm.surrogate import surrogate_of
from kappasharp.errors import InvalidValueError
from kappasharp.inference import posterior
from kappasharp.settings import find_method

APART = replace(find_method("baseline"), tell_apart=True)


def played(method, voters, questions=14, likes=(0.2, 0.8), runs=1):
    """A study of people who answer in turn; each likes what is near a place of their own."""
    state = loop.begin(runs, 2, method=method, preset="modern", seeds=list(range(runs)))
    chance = torch.Generator().manual_seed(0)
    for t in range(questions):
        voter = t % voters
        if t < 2 * voters:
            question, state = loop.show(
                state, torch.rand(1, 2, 2, generator=chance, dtype=torch.float64).expand(runs, -1, -1)
            )
        else:
            learnt = loop.learn(state)
            question, state, _ = loop.question_from(state, loop.seen_by(learnt, voter))
        away = (question.points - likes[voter % len(likes)]).square().sum(-1)
        state = loop.tell(state, question, away.argmin(-1), voter=voter)
    return state


def test_one_person_is_one_whether_told_apart_or_not():
    first, second = (loop.learn(played(method, 1, 8)) for method in (find_method("baseline"), APART))
    assert second.fit.people is None
    assert torch.equal(first.fit.posterior.beta, second.fit.posterior.beta)
    assert loop.seen_by(second, 0) is second


def test_everybody_has_a_best_of_their_own():
    state = played(APART, 2, 28)
    learnt = loop.learn(state)
    assert learnt.fit.people is not None and bool(learnt.fit.people.dual.converged.all())
    assert state.tastes is not None and state.tastes.shape == (1, 3)
    bests = [state.points[0, int(loop.leader(state, loop.seen_by(learnt, v)))] for v in (0, 1)]
    assert (bests[0] - 0.2).norm() < 0.25 and (bests[1] - 0.8).norm() < 0.25
    for view in (None, 0, 1, 5):
        fit = loop.seen_by(learnt, view).fit
        # The MAP at the designs is what the posterior predicts there, up to the nugget.
        torch.testing.assert_close(fit.map.f, posterior.own_mean(fit.posterior), rtol=1e-3, atol=1e-3)


def test_an_answer_is_foretold_as_consistent_as_its_voter_is():
    state = played(APART, 2, 12, runs=2)
    learnt = loop.learn(state)
    assert learnt.fit.people is not None
    c = torch.tensor([[0.4, 1.0], [0.4, 2.5]], dtype=torch.float64)
    learnt = learnt._replace(fit=learnt.fit._replace(people=learnt.fit.people._replace(consistency=c)))
    X, Y = torch.rand(2, 2, 5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    # Of somebody yet to answer, and of what all share, nothing is known but that 1 is usual.
    for view, own in ((0, c[:, :1]), (1, c[:, 1:]), (7, torch.ones(2, 1)), (None, torch.ones(2, 1))):
        seen = loop.seen_by(learnt, view)
        found = surrogate_of(state, seen).contrast(X, Y)
        expected = torch.special.ndtr(found.mean / (found.variance + 2.0 / own**2).sqrt())
        torch.testing.assert_close(found.preferred, expected, rtol=0, atol=1e-12)
        asked, _, info = loop.question_from(state, seen)
        pair = surrogate_of(state, seen).contrast(asked.points[:, :1], asked.points[:, 1:])
        torch.testing.assert_close(info.expected, pair.preferred[:, 0], rtol=0, atol=1e-12)


def test_runs_of_a_batch_are_runs_alone():
    both, alone = (loop.learn(played(APART, 2, 8, runs=runs)) for runs in (2, 1))
    torch.testing.assert_close(both.fit.posterior.theta[0], alone.fit.posterior.theta[0], rtol=1e-5, atol=1e-5)


def test_times_are_each_voters_own_and_people_stay_apart():
    state = played(replace(APART, use_seconds=True), 2, 24)
    strength = loop.learn(replace(state, seconds=None)).fit.map.dual.z.abs()
    state = replace(state, seconds=1.0 + 4.0 / (1.0 + strength))
    learnt = loop.learn(state)
    assert learnt.fit.people is not None and learnt.fit.people.C.detail is not None
    assert bool((learnt.fit.people.C.detail.time > 0.0).any())


def test_a_method_with_a_correction_takes_people_as_one():
    with pytest.raises(InvalidValueError, match="tell_apart"):
        loop.begin(1, 2, method=replace(find_method("adaptive"), tell_apart=True))
