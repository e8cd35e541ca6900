"""The hyperparameters of very many answers of several people: found on whole voters' first, then on all answers.

The stages are as in hyperparameters.py, each with about twice the answers of the one before, the last with all. But a
stage has the answers of the first voters in a line (whole_voters.py), and of the hyperparameters those voters' alone.
What was learnt of the curvature goes from stage to stage; of a voter who comes in, what was learnt of the others. The
early stages run in single precision, whose noise in the evidence lies below what ends them; so does the last one
where answers are very many. The certificate is one of all answers, always.
"""

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from kappasharp.inference import comparisons, hyperparameters, voter_evidence, voter_subset
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.inference.hyperparameters import GAIN_LEFT, Hyperfit
from kappasharp.inference.voter_evidence import Voices
from kappasharp.inference.voter_subset import VoterLine
from kappasharp.kernels.priors import PeoplePriors
from kappasharp.numerics.quasi_newton import Descent
from kappasharp.tensors import Parameters, PerComparison, take

# Up to so many answers the search ends in double precision. On one x86-64 core a round takes 0.3 s there on 1,200
# answers; on 2,400 three, and 1.2 in single precision; on 4,320 four in single precision.
ACCURATE = 2000

T = TypeVar("T")


class _Run(NamedTuple):
    """One run's answers in line; z are differences to start from."""

    model: Model
    priors: PeoplePriors
    answers: Answers
    line: VoterLine
    z: PerComparison


class _Stage(NamedTuple):
    """What one stage is about; `told` is how many answers each of its voters gave there."""

    model: Model
    data: Voices
    z: PerComparison
    told: Tensor


def search(
    model: Model,
    answers: Answers,
    voter: Tensor,
    starts: list[Parameters],
    z: PerComparison,
    *,
    first: int,
    gain: float,
) -> Hyperfit:
    """The hyperparameters of every run; the first stage has at most `first` answers, the last promises `gain` or less.

    In single precision it promises no less than its noise.
    """
    priors = model.priors
    assert isinstance(priors, PeoplePriors)
    found = []
    for number in range(len(voter)):
        row = torch.tensor([number], device=voter.device)
        own = take(answers, row)
        line = voter_subset.line_up(own, voter[number], priors.people)
        run = _Run(model, priors, comparisons.some(own, line.rows), line, z[row][:, line.rows])
        # A voter's log c stands where the voter does.
        shared = starts[0].shape[-1] - priors.people
        columns = torch.cat([torch.arange(shared, device=voter.device), shared + line.voters])
        hyper = _of_one(run, torch.cat(starts)[number :: len(voter)][:, columns], first, gain)
        back = columns.argsort()
        found.append(hyper._replace(theta=hyper.theta[:, back], gradient=hyper.gradient[:, back]))
    return Hyperfit(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _of_one(run: _Run, theta: Parameters, first: int, gain: float) -> Hyperfit:
    """The hyperparameters of one run, from several starts (starts, p)."""
    shared, single, double = theta.shape[-1] - run.priors.people, torch.float32, torch.float64
    sizes = _sizes(len(run.line.rows), first)
    stage = _stage(run, sizes[0], single)
    found, theta = _first(stage, theta, shared)
    rest = [(size, single, GAIN_LEFT) for size in sizes[1:]]
    if sizes[-1] <= ACCURATE and theta.dtype == double:
        rest.append((sizes[-1], double, gain))
    for size, dtype, left in rest:
        before, stage = stage, _stage(run, size, dtype)
        theta[:, : found.x.shape[-1]] = found.x.to(theta)
        H = _grown(found.H, before, stage, shared).to(stage.z)
        x = theta[:, : H.shape[-1]].to(stage.z)
        found, _ = hyperparameters.descend(stage.model, stage.data, x, stage.z, gain=left, H=H)
    began = torch.full_like(found.rounds, int(run.line.share(sizes[0]).numel()))
    parts = (found.x.to(theta), -found.value.to(theta), -found.gradient.to(theta))
    return Hyperfit(*parts, found.converged, found.rounds, began)


def _sizes(count: int, first: int) -> list[int]:
    """How many answers each stage has: `first` at most, twice as many, and so on to all."""
    found = [count]
    while found[0] > first:
        found.insert(0, -(-found[0] // 2))
    return found


def _stage(run: _Run, size: int, dtype: torch.dtype) -> _Stage:
    """The stage of so many answers, in a precision; that of all has all voters."""
    rows = run.line.share(size)
    who = run.line.rank[rows]
    people = run.priors.people if len(rows) == len(run.line.rows) else int(who.max()) + 1
    answers = _in_precision(comparisons.some(run.answers, rows), dtype)
    return _Stage(
        run.model._replace(priors=run.priors._replace(people=people)),
        voter_evidence.gather(answers, who.unsqueeze(0), people),
        run.z[:, rows].to(dtype),
        torch.bincount(who[who >= 0], minlength=people),
    )


def _in_precision(value: T, dtype: torch.dtype) -> T:
    """The same with its real numbers in a precision."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value  # type: ignore[return-value]
    if isinstance(value, tuple):
        return type(value)(*(_in_precision(part, dtype) for part in value))
    return value


def _first(stage: _Stage, theta: Parameters, shared: int) -> tuple[Descent, Tensor]:
    """The first stage's best end over all starts, and the start that led to it."""
    many = torch.zeros(len(theta), dtype=torch.long, device=theta.device)
    x = theta[:, : shared + len(stage.told)].to(stage.z)
    found, _ = hyperparameters.descend(stage.model, take(stage.data, many), x, stage.z[many], gain=GAIN_LEFT, H=None)
    best = found.value.nan_to_num(nan=torch.inf).argmin().unsqueeze(0)
    return take(found, best), theta[best].clone()


def _grown(H: Tensor, before: _Stage, after: _Stage, shared: int) -> Tensor:
    """What was learnt of the curvature, for a stage with more answers and more voters.

    The evidence grows with the answers: in a voter's consistency with that voter's own, in all else with all.
    """
    ratio = before.z.shape[-1] / after.z.shape[-1]
    old = len(before.told)
    own = (before.told / after.told[:old].clamp(min=1)).clamp(max=1.0).sqrt().to(H)
    scale = torch.cat([own.new_full((shared,), ratio**0.5), own])
    H = H * scale.unsqueeze(-1) * scale
    usual = H[0].diagonal()[shared:].median()
    out = torch.eye(shared + len(after.told), dtype=H.dtype, device=H.device).unsqueeze(0) * usual
    out[:, : shared + old, : shared + old] = H
    return out
