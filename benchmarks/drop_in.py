"""KappaSharpGP in PairwiseGP's place: fit, posterior and conditioning, each beside its quality, in one process."""

import time
import warnings

import torch
from botorch.models.pairwise_gp import PairwiseGP

from benchmarks import peers
from kappasharp.integrations.botorch import KappaSharpGP, KappaSharpMarginalLogLikelihood
from kappasharp.problems.registry import find_problem

FIT_SIZE, POSTERIOR_SIZE, CONDITION_SIZE = 106, 400, 200
PAIRS, FANTASIES = 256, 16


def fastest(function, repeats):
    """The shortest of several times, after a warm-up: what the work takes when nothing else runs."""
    function()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - begin)
    return result, min(seconds)


def answers(n, seed=0):
    """n random designs of Hartmann-6D: six of them compared all with all, the others in pairs, as in the states."""
    problem = find_problem("hartmann-6d")
    points, pairs = peers.first_answers(problem, seed)
    while len(points) < n:
        points = torch.cat([points, torch.rand(2, problem.dimensions)])
        pairs = torch.cat([pairs, torch.tensor([peers.answer(problem, points)])])
    return points, pairs


def log_posterior(points, pairs, state):
    """Evidence plus priors at these hyperparameters, by the one function that both are judged by."""
    model = KappaSharpGP(points, pairs)
    model.load_state_dict(state)
    value = KappaSharpMarginalLogLikelihood(model.likelihood, model)(None, model.train_targets)
    return float(value.detach())


def gap(first, second, at):
    """The largest difference of two posteriors in mean and covariance."""
    a, b = first.posterior(at), second.posterior(at)
    return max(
        float((a.mean - b.mean).detach().abs().max()),
        float((a.covariance_matrix - b.covariance_matrix).detach().abs().max()),
    )


def fits(states):
    ours = theirs = worse = count = 0
    for key, points, pairs in states:
        model, seconds = fastest(lambda points=points, pairs=pairs: KappaSharpGP(points, pairs).fit(), 2)
        other, their_seconds = fastest(lambda points=points, pairs=pairs: peers.fit(peers.botorch(points, pairs)), 2)
        difference = log_posterior(points, pairs, model.state_dict()) - log_posterior(points, pairs, other.state_dict())
        ours, theirs, count = ours + seconds, theirs + their_seconds, count + 1
        worse += difference < -1e-3
        print(
            f"  {key:15} fit {seconds * 1e3:6.1f} / {their_seconds * 1e3:6.0f} ms   log posterior {difference:+8.4f}",
            flush=True,
        )
    return {"drop_in_fit_ratio": theirs / ours, "drop_in_fit_not_worse": 1 - worse / count}


def posteriors():
    points, pairs = answers(POSTERIOR_SIZE)
    candidates = torch.rand(PAIRS, 2, points.shape[-1])
    ours, theirs = KappaSharpGP(points, pairs), PairwiseGP(points, pairs)
    _, seconds = fastest(lambda: ours.posterior(candidates).covariance_matrix, 3)
    _, their_seconds = fastest(lambda: theirs.posterior(candidates).covariance_matrix, 3)
    difference = gap(ours, theirs, candidates)
    print(
        f"  posterior of {PAIRS} pairs, n={POSTERIOR_SIZE}: {seconds * 1e3:.1f} / {their_seconds * 1e3:.0f} ms, "
        f"difference {difference:.1e}",
        flush=True,
    )
    return {"drop_in_posterior_ratio": their_seconds / seconds}, difference


def conditionings():
    points, pairs = answers(CONDITION_SIZE)
    new = torch.rand(2, points.shape[-1])
    winner = torch.tensor([[0, 1]])
    many = torch.stack([winner, winner.flip(-1)] * (FANTASIES // 2))
    ours, theirs = KappaSharpGP(points, pairs), PairwiseGP(points, pairs)
    candidates = torch.rand(PAIRS, 2, points.shape[-1])
    ours.posterior(candidates), theirs.posterior(candidates)
    ratios = {}
    for name, answer in (("condition", winner), ("condition_batch", many)):
        found, seconds = fastest(lambda answer=answer: ours.condition_on_observations(new, answer), 10)
        other, their_seconds = fastest(lambda answer=answer: theirs.condition_on_observations(new, answer), 10)
        ratios[f"drop_in_{name}_ratio"] = their_seconds / seconds
        difference = gap(found, other, candidates[0] if answer is many else candidates)
        print(
            f"  {name} at n={CONDITION_SIZE}: {seconds * 1e3:.2f} / {their_seconds * 1e3:.0f} ms, "
            f"difference {difference:.1e}",
            flush=True,
        )
    return ratios, difference


def measure(states):
    """All of it; `states` are (name, points, pairs) of FIT_SIZE points."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fits(states)
        by_posterior, first = posteriors()
        by_condition, second = conditionings()
    return result | by_posterior | by_condition | {"drop_in_disagreement": max(first, second)}
