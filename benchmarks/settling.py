"""How well the best design seen can be found by five duels: rules, and what bounds them.

`python -m benchmarks.settling [PROBLEM...] [--seeds 24]` plays the default for forty questions, then five duels by each
rule, and prints the regret of the design told over that of the best one seen, as in docs/results/from-zero.md.

today        the design told against its likeliest better, as a study settles
any          the same, but designs that lost or met before are not put last
knockout     the six likeliest to be best by the model, the winner stays
clairvoyant  the design told and the five that are truly best, in no order, the winner stays: nobody can know these
exact        as today, and the person's answers to the duels have no noise
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from kappasharp.acquisition import eubo, incumbent
from kappasharp.algorithm import loop
from kappasharp.inference import posterior
from kappasharp.lab import experiment, grid
from kappasharp.lab.run import play
from kappasharp.problems.registry import find_problem

DUELS, NOISE, DRAWS = 5, 0.1, 2000
QUESTIONS = 40
EXPERIMENT = Path(__file__).parents[1] / "experiments" / "from_zero" / "default_eleven.toml"
RULES = ("today", "any", "knockout", "clairvoyant", "exact")


def chance(seed):
    return torch.Generator().manual_seed(seed)


def end_states(names, seeds):
    """Problem, state and utilities of all designs after forty questions."""
    for block in grid.blocks(experiment.read(EXPERIMENT)):
        if not names or block.problem in names:
            shorter = replace(block, seeds=block.seeds[:seeds], keys=block.keys[:seeds], queries=QUESTIONS, settling=0)
            *_, last = play([shorter])
            yield block.problem, last.after, last.seen


def likeliest_best(fitted, leader):
    """The five designs, beside the leader, that are most often the best in draws of the posterior."""
    mean, cov = posterior.joint(fitted, fitted.X)
    cov = cov + 1e-8 * cov.diagonal(dim1=-2, dim2=-1).mean() * torch.eye(cov.shape[-1], dtype=cov.dtype)
    normals = torch.randn((len(mean), mean.shape[1], DRAWS), generator=chance(5), dtype=torch.float64)
    draws = mean.unsqueeze(-1) + torch.linalg.cholesky(cov) @ normals
    share = torch.nn.functional.one_hot(draws.argmax(1), mean.shape[1]).double().mean(1)
    return share.scatter(1, leader[:, None], -1.0).topk(DUELS).indices


def truly_best(utility, leader):
    best = utility.scatter(1, leader[:, None], -torch.inf).topk(DUELS).indices
    order = torch.stack([torch.randperm(DUELS, generator=chance(99 + run)) for run in range(len(best))])
    return best.gather(1, order)


def any_challenger(fitted, leader):
    told = fitted.X[torch.arange(len(leader)), leader].unsqueeze(1).expand_as(fitted.X)
    found = posterior.contrast(fitted, fitted.X, told)
    gain = eubo.closed_form(found.mean, found.variance.clamp(min=1e-300).sqrt())
    return gain.scatter(1, leader[:, None], -torch.inf).argmax(-1)


def settled(rule, state, utility):
    """The design told after five duels by a rule: by the model, and the duels' last winner."""
    noise = NOISE * torch.randn((DUELS, len(utility), 2), generator=chance(11), dtype=torch.float64)
    learnt = loop.learn(state)
    leader = loop.leader(state, learnt)
    champion = leader
    listed = rule in ("knockout", "clairvoyant")
    if listed:
        fitted = learnt.corrected.posterior
        rivals = likeliest_best(fitted, leader) if rule == "knockout" else truly_best(utility, leader)
    for number in range(DUELS):
        fitted = learnt.corrected.posterior
        if listed:
            pair = torch.stack([champion, rivals[:, number]], -1)
        elif rule == "any":
            pair = torch.stack([leader, any_challenger(fitted, leader)], -1)
        else:
            pair = torch.stack([leader, incumbent.challengers(fitted, leader, state.comparisons)[:, 0]], -1)
        felt = utility.gather(1, pair) + (0.0 if rule == "exact" else noise[number])
        pair = torch.where((felt[:, :1] >= felt[:, 1:]), pair, pair.flip(-1))
        champion = pair[:, 0]
        state = replace(
            state,
            comparisons=torch.cat([state.comparisons, pair.unsqueeze(1)], 1),
            step=state.step + 1,
            theta=learnt.fit.hyper.theta,
            z=learnt.fit.map.dual.z,
            asked=False,
        )
        learnt = loop.learn(state)
        leader = loop.leader(state, learnt)
    return leader, champion


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--seeds", type=int, default=24)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| problem | before |" + "".join(f" {rule} |" for rule in RULES) + " best to second |")
    for problem, state, utility in end_states(options.problems, options.seeds):
        regret = find_problem(problem).maximum.value - utility
        seen = float(regret.amin(1).mean())

        def ratio(chosen, regret=regret, seen=seen):
            return f"{float(regret.gather(1, chosen[:, None]).mean()) / seen:.2f}"

        cells = [ratio(loop.leader(state, loop.learn(state)))]
        cells += [" / ".join(map(ratio, settled(rule, state, utility))) for rule in RULES]
        first, second = utility.topk(2, 1).values.unbind(1)
        print(f"| {problem} | {' | '.join(cells)} | {float((first - second).mean()):.3f} |", flush=True)


if __name__ == "__main__":
    main()
