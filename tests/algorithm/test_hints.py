"""What is believed of outcomes before any answer: soft, and in the posterior alone."""

from dataclasses import replace

import torch

from kappasharp.algorithm import fit, loop
from kappasharp.inference import features, posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.settings import find_preset
from tests.reference.lifts import Curved

D = 3


def answered(sign, count=6, seed=0):
    """Answers by the second outcome: more of it is better where the sign is 1."""
    X = torch.rand(1, 2 * count, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    pairs = torch.arange(2 * count).reshape(1, count, 2)
    value = sign * Curved()(X)[..., 1]
    second = value.gather(1, pairs[..., 1]) > value.gather(1, pairs[..., 0])
    return Answers(X, torch.where(second.unsqueeze(-1), pairs.flip(-1), pairs))


def fitted(answers, leans):
    lift = Curved(leans)
    return fit.fit(fit.model_of(find_preset("modern"), D, lift), answers, lift=lift)


def gained(found):
    """The mean of a high second outcome above that of a low one, all else equal, where designs are."""
    place = torch.full((1, 2, D + 2), 0.5, dtype=torch.float64)
    place[:, :, D] = 0.1
    place[:, :, -1] = torch.tensor([0.9, 0.1])
    plain = found.posterior._replace(X=found.posterior.features, lift=None, lifted=None)
    high, low = posterior.mean(plain, place)[0].tolist()
    return high - low


def test_what_is_believed_is_believed_until_answers_say_otherwise():
    few = answered(1, count=1)
    assert gained(fitted(few, (0, 1))) > gained(fitted(few, (0, 0))) > gained(fitted(few, (0, -1)))
    assert gained(fitted(few, (0, -1))) < 0.0
    # Many answers outweigh three beliefs that are wrong: new designs are told apart nearly as well as without them.
    new = torch.rand(1, 400, D, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    right = {}
    for leans in ((0, 0), (0, -1)):
        mean = posterior.mean(fitted(answered(1, count=30), leans).posterior, new)[0]
        better = Curved()(new)[0, :200, 1] > Curved()(new)[0, 200:, 1]
        right[leans] = ((mean[:200] > mean[200:]) == better).double().mean()
    assert right[0, -1] > 0.8 and right[0, -1] > right[0, 0] - 0.1


def test_the_fit_shows_designs_and_answers_alone():
    answers = answered(1)
    plain, leant = fitted(answers, (0, 0)), fitted(answers, (0, 1))
    for name in ("X", "K"):
        assert getattr(plain, name).shape == getattr(leant, name).shape
    assert torch.equal(leant.C.pairs, answers.pairs) and leant.C.n_points == answers.X.shape[1]
    assert leant.map.dual.z.shape == plain.map.dual.z.shape and leant.map.f.shape == plain.map.f.shape
    assert posterior.own_mean(leant.posterior).shape == answers.X.shape[:2]
    assert torch.allclose(posterior.own_mean(leant.posterior), posterior.mean(leant.posterior, answers.X))
    # f̂ has the nugget in it.
    assert torch.allclose(leant.map.f, posterior.own_mean(leant.posterior), rtol=1e-3, atol=1e-3)


def test_beliefs_are_weighted_answers_behind_the_real_ones():
    """The dense way: the same comparisons as points and answers of their own, with half the weight."""
    answers, lift = answered(1), Curved((-1, 0))
    whole = fit.lifted(answers, lift)
    n, m = answers.X.shape[1], answers.pairs.shape[1]
    count = len(fit.OTHERS)
    assert whole.X.shape == (1, n + 2 * count, D + 2) and whole.pairs.shape == (1, m + count, 2)
    assert torch.equal(whole.X[:, :n], features.lifted(lift, answers.X))
    assert torch.equal(whole.detail.weight, torch.cat([torch.ones(1, m), torch.full((1, count), 0.5)], 1).double())
    better, worse = (whole.X[0, whole.pairs[0, m:, side]] for side in (0, 1))
    assert bool((better[:, D] < worse[:, D]).all())
    others = [j for j in range(D + 2) if j != D]
    assert torch.equal(better[:, others], worse[:, others])


def test_a_run_with_beliefs_goes_on():
    lift = Curved((-1, 0))
    answers = answered(1, count=5)
    state = loop.init(answers.X, answers.pairs, preset="modern", method="outcomes", seeds=[0])
    state = replace(state, lift=lift)
    for _ in range(3):
        question, state, info = loop.ask(state)
        assert bool(info.fit_converged.all() and info.map_converged.all())
        state = loop.tell(state, question, 0)
    assert state.comparisons.shape[1] == 8 and int(loop.leader(state, loop.learn(state))) < state.points.shape[1]


def test_doubted_outcomes_count_less_until_answers_say_otherwise():
    """The mean of the ratio falls with the doubt and not below an end; forty answers by an outcome overrule it."""
    preset, few, many = find_preset("modern"), answered(1, 6), answered(1, 60)

    def share(answers, doubt):
        lift = Curved(doubt=doubt)
        theta = fit.fit(fit.model_of(preset, D, lift), answers, lift=lift).hyper.theta
        return float(theta[..., -2:].softmax(-1)[0, -1])

    means = [fit.model_of(preset, D, Curved(doubt=doubt)).priors.ratio[0] for doubt in (0.0, 0.05, 0.1, 0.2)]
    assert means[0] == fit.OUTCOMES_TO_PARAMETERS[0] and means == sorted(means, reverse=True)
    assert means[-1] == fit.LEAST_RATIO
    assert share(few, 0.0) > 0.8 and share(few, 0.1) < 0.5
    assert share(many, 0.05) > 0.5
