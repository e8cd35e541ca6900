"""Several people: the factor M against one model over designs × voters, derivatives, and what the evidence finds."""

import pytest
import torch

from kappasharp.algorithm import fit
from kappasharp.inference import comparison_space, comparisons, posterior, voter_evidence, voters
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import model_from
from kappasharp.inference.posterior import Posterior
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PRIORS, JointPriors, PeoplePriors
from kappasharp.kernels.stationary import Sum
from kappasharp.questions.comparisons import Said
from kappasharp.settings import find_preset

BASE = model_from(find_preset("modern"))


def jury(voters, each, d=2, *, opposite=(), careless=(), seed=0, detail=False):
    """A batch of one: answers of voters in turn, most of whom like what is near 0.3."""
    chance = torch.Generator().manual_seed(seed)
    n = voters * each
    X = torch.rand(1, n, d, generator=chance, dtype=torch.float64)
    f = -8.0 * (X[0] - 0.3).square().sum(-1)
    pairs, who = [], []
    for i in range(voters * each):
        v = i % voters
        a, b = torch.randperm(n, generator=chance)[:2].tolist()
        felt = (f[a] - f[b]) * (-1.0 if v in opposite else 1.0) + 0.2 * torch.randn((), generator=chance)
        felt = torch.randn((), generator=chance) if v in careless else felt
        pairs.append([a, b] if felt > 0 else [b, a])
        who.append(v)
    made = None
    if detail:
        # Answers two by two are one question's, and share noise.
        said = [Said(((0, 1), (0, 2)), (False, False))] * (n // 2)
        made = comparisons.detail(said)
    return Answers(X, torch.tensor([pairs]), None, made), torch.tensor([who])


def model_of(voters, base=BASE):
    return base._replace(priors=PeoplePriors(base.priors, voters))


def some_theta(model, d, seed=1):
    start = model.priors.start(d)
    return (start + 0.3 * torch.randn(start.shape, generator=torch.Generator().manual_seed(seed)))[None].double()


@pytest.mark.parametrize("detail", [False, True])
def test_the_gradient_is_that_of_the_evidence(detail):
    answers, who = jury(3, 4, detail=detail)
    model = model_of(3)
    theta, data = some_theta(model, 2), voter_evidence.gather(answers, who, 3)
    found = data.evaluate(model, theta, theta.new_zeros(1, 12))
    assert found.converged.all()
    steps = 1e-5 * torch.eye(theta.shape[-1], dtype=torch.float64)
    ends = [[data.evaluate(model, theta + sign * step, found.z).value for sign in (1, -1)] for step in steps]
    numeric = torch.cat([(up - down) / 2e-5 for up, down in ends])
    torch.testing.assert_close(found.gradient[0], numeric, rtol=1e-6, atol=1e-7)
    prior = torch.stack(
        [(model.priors.log_density(theta + step) - model.priors.log_density(theta - step)) / 2e-5 for step in steps]
    )
    torch.testing.assert_close(model.priors.slope(theta)[0], prior[:, 0], rtol=1e-5, atol=1e-6)


def test_of_features_with_two_kernels_too():
    answers, who = jury(2, 5, d=3)
    priors = JointPriors(PRIORS["botorch_0_18"], (2, 1), (0.0, 1.0))
    base = BASE._replace(family=Sum("rbf", (2, 1)), priors=priors)
    model = model_of(2, base)
    theta, data = some_theta(model, 3), voter_evidence.gather(answers, who, 2)
    found = data.evaluate(model, theta, theta.new_zeros(1, 10))
    steps = 1e-5 * torch.eye(theta.shape[-1], dtype=torch.float64)
    ends = [[data.evaluate(model, theta + sign * step, found.z).value for sign in (1, -1)] for step in steps]
    torch.testing.assert_close(
        found.gradient[0], torch.cat([(up - down) / 2e-5 for up, down in ends]), rtol=1e-5, atol=1e-7
    )
    fitted = voters.fit(model, answers, who)
    assert fitted.hyper.converged.all() and fitted.dual.converged.all()


@pytest.mark.parametrize("curvature", ["mode", "averaged"])
def test_it_is_one_model_over_designs_and_voters(curvature):
    """The twin: a point for every design and voter, and one of nobody for what all share; c as weights."""
    base = BASE._replace(curvature=curvature)
    answers, who = jury(3, 5, d=2)
    model = model_of(3, base)
    theta = some_theta(model, 2)
    alone, rest = model.priors.split(theta)
    rho, c = rest[0, 0].sigmoid(), rest[0, 1:].exp()
    hyper = voters.fit(model, answers, who).hyper._replace(theta=theta)
    ours = voters.condition(model, answers, who, hyper, theta.new_zeros(1, 15))

    n = answers.X.shape[1]
    K = stationary.covariance(model.family, answers.X, alone, model.nugget)[0]
    same = rho + (1.0 - rho) * torch.eye(3, dtype=torch.float64)
    big = torch.kron(same, K)[None]
    pairs = answers.pairs + n * who.unsqueeze(-1)
    detail = comparisons.none_of((1,), 15, K)._replace(weight=c[who])
    twin = comparison_space.condition(base, big, comparisons.incidence(pairs, 3 * n, detail))
    torch.testing.assert_close(ours.value, twin.value)
    torch.testing.assert_close(ours.dual.z, twin.map.dual.z)

    Y = torch.rand(1, 4, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    near, prior = (stationary.between(model.family, Y, Z, alone)[0] for Z in (answers.X, Y))
    weights = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    views = [(voters.of_voter(ours, v), same[v], 1.0) for v in range(3)]
    views += [(voters.of_voter(ours, 7), rho.expand(3), 1.0)]
    views += [(voters.of_all(ours, weights), same @ weights, weights @ same @ weights)]
    equal = torch.full((3,), 1.0 / 3.0, dtype=torch.float64)
    views += [(voters.of_all(ours), same @ equal, equal @ same @ equal)]
    for view, row, own in views:
        cross = torch.kron(row[None], near)
        mean, cov = posterior.joint(view, Y)
        torch.testing.assert_close(mean[0], cross @ twin.map.beta[0], rtol=1e-8, atol=1e-9)
        known = cross @ twin.root[0]
        torch.testing.assert_close(cov[0], own * prior - known @ known.mT, rtol=1e-7, atol=1e-8)


def test_one_person_is_todays_model():
    answers, who = jury(1, 12)
    model = model_of(1)
    alone = fit.fit(BASE, answers)
    theta = torch.cat([alone.hyper.theta, torch.tensor([[0.7, 0.0]], dtype=torch.float64)], -1)
    hyper = alone.hyper._replace(theta=theta)
    ours = voters.condition(model, answers, who, hyper, alone.map.dual.z)
    view: Posterior = voters.of_voter(ours, 0)
    torch.testing.assert_close(view.beta, alone.posterior.beta, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(view.root @ view.root.mT, alone.posterior.root @ alone.posterior.root.mT)


def best(fit, view):
    return fit.X[0, int(posterior.own_mean(view).argmax())]


def test_people_who_agree_share_all_and_people_who_do_not_are_not_silenced():
    model = model_of(2)
    agreed = voters.fit(model_of(4), *jury(4, 40))
    assert agreed.hyper.converged.all() and agreed.rho > 0.9
    opposed = voters.fit(model, *jury(2, 30, opposite=(1,)))
    assert opposed.hyper.converged.all() and opposed.rho < 0.4
    near, far = (best(opposed, voters.of_voter(opposed, v)) for v in (0, 1))
    assert (near - 0.3).norm() < 0.25 and (far - 0.3).norm() > 0.6


def test_who_answers_by_lot_counts_little():
    answers, who = jury(3, 25, careless=(2,))
    found = voters.fit(model_of(3), answers, who)
    c = found.consistency[0]
    assert c[2] < 0.5 * c[:2].min()
    assert (best(found, voters.of_all(found)) - 0.3).norm() < 0.4


def test_a_batch_is_its_runs_one_by_one_and_a_warm_start_ends_there():
    model = model_of(2)
    parts = [jury(2, 8, seed=seed) for seed in (3, 4)]
    X, pairs, who = (torch.cat(many) for many in zip(*((a.X, a.pairs, w) for a, w in parts), strict=True))
    both = voters.fit(model, Answers(X, pairs), who)
    for run, (answers, own) in enumerate(parts):
        one = voters.fit(model, answers, own)
        torch.testing.assert_close(both.hyper.theta[run], one.hyper.theta[0], rtol=1e-6, atol=1e-6)
        again = voters.fit(model, answers, own, theta=one.hyper.theta, z=one.dual.z, cold=False)
        torch.testing.assert_close(again.hyper.value, one.hyper.value, rtol=0, atol=1e-3)


def test_many_answers_are_searched_on_a_share_and_conditioned_on_all(monkeypatch):
    monkeypatch.setattr(voters, "ALL_AT_ONCE", 20)
    found = voters.fit(model_of(2), *jury(2, 20))
    assert int(found.hyper.searched_on) == 20 and found.dual.z.shape[-1] == 40 and found.dual.converged.all()
