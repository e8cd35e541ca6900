"""For Optuna: `KappaSharpSampler` for the preferential studies of Optuna's dashboard.

Optuna asks for one design at a time. The sampler gives it the one that promises most beside a design that is already
there: the newest that waits for its first comparison, or the best of those compared. Parameters are those of our own
studies: steps, whole numbers and choices are searched on their lattice.
"""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import torch
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard.preferential import PreferentialStudy
from torch import Tensor

from kappasharp.acquisition import incumbent
from kappasharp.acquisition.discrete import Lattice
from kappasharp.acquisition.maximize import Request, propose
from kappasharp.algorithm import question
from kappasharp.algorithm.surrogate import Surrogate, fit
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.model import points as model_points
from kappasharp.randomness import stream
from kappasharp.settings import MAXIMIZERS, Method, Preset, find_method, find_preset
from kappasharp.space.parameters import MOST_LEVELS, Categorical, Float, Int, Tuned
from kappasharp.space.space import Space

Distributions = Mapping[str, BaseDistribution]
# Steps between two ranges are whole up to this.
ROUNDING = 1e-9


class KappaSharpSampler(BaseSampler):
    """Designs for a preferential study, from a kappasharp model of its preferences.

    Every distribution is modelled: floats and integers, with logarithms and steps, and categories. Where a range was
    changed, the model is over the range that holds all of them, and what it proposes is in the newest. Parameters that
    not every trial has and those with a single value come from `independent_sampler`.

    Args:
        method: as in `kappasharp.fit`; which designs are compared is Optuna's business.
        preset: as in `kappasharp.fit`; its `exploration` and `reach` shape the search as in our own loop.
        independent_sampler: by default Optuna's RandomSampler.
        n_startup_trials: how many designs come from it before the model chooses; ten, as in Optuna's own samplers.
        seed: None for a seed of its own.
    """

    def __init__(
        self,
        *,
        method: str | Method = "baseline",
        preset: str | Preset = "modern",
        independent_sampler: BaseSampler | None = None,
        n_startup_trials: int = 10,
        seed: int | None = None,
    ) -> None:
        if isinstance(n_startup_trials, bool) or not isinstance(n_startup_trials, int) or n_startup_trials < 0:
            raise InvalidValueError(f"`n_startup_trials` must be a whole number from 0, but got {n_startup_trials!r}.")
        if seed is not None and not isinstance(seed, Integral):
            raise InvalidTypeError(f"`seed` must be a whole number or None, but got {seed!r}.")
        if not isinstance(independent_sampler, BaseSampler | None):
            raise InvalidTypeError(
                f"`independent_sampler` must be a sampler of Optuna's, but got {independent_sampler!r}."
            )
        self._n_startup = n_startup_trials
        self._method, self._preset = find_method(method), find_preset(preset)
        self._seed = torch.Generator().seed() if seed is None else int(seed)
        self._independent = independent_sampler or RandomSampler(seed=self._seed % 2**32)
        self._told: set[str] = set()

    def reseed_rng(self) -> None:
        """A new seed, as Optuna asks for it where a study is copied to other processes."""
        self._seed = torch.Generator().seed()
        self._independent.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that the model is over: those of more than one value that every trial has."""
        del trial
        joint = _joint([one.distributions for one in _finished(study)])
        for name in sorted(name for name, part in joint.items() if part is None):
            self._warn(f"The ranges of {name!r} do not join, because their steps differ: it is left to chance.")
        return {name: part for name, part in sorted(joint.items()) if part is not None and not part.single()}

    def _warn(self, sentence: str) -> None:
        """Once: a sampler is asked again and again."""
        if sentence not in self._told:
            warnings.warn(sentence, stacklevel=2)
            self._told.add(sentence)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        """The design that promises most; nothing, which leaves it to the other sampler, at the start."""
        if trial.number < self._n_startup:
            return {}
        given = PreferentialStudy(study).get_preferences(deepcopy=False)
        found = [pair for pair in given if pair[0].number != pair[1].number]
        if len(found) < len(given):
            self._warn("A preference of a trial over itself says nothing, and is left out.")
        # The storage keeps no order among answers; without one of our own the same seed would round differently.
        preferences = sorted(found, key=lambda pair: (max(pair[0].number, pair[1].number), pair[0].number))
        if not preferences or not search_space:
            return {}
        compared = {one.number: one for pair in preferences for one in pair}
        index = {number: position for position, number in enumerate(compared)}
        space = Space({name: _parameter(part) for name, part in search_space.items()})
        points = model_points.points(space, [_design(one.params, search_space) for one in compared.values()])
        pairs = torch.tensor([[index[better.number], index[worse.number]] for better, worse in preferences])
        model = fit(points, pairs, method=self._method, preset=self._preset)
        waiting = _waiting(study, trial, index, search_space)
        anchor = None if waiting is None else model_points.points(space, [waiting])[0]
        design = space.decode(self._propose(model, anchor, trial.number, model_points.lattice(space)).tolist())
        newest = _finished(study)[-1].distributions
        return {name: _value(newest[name], design[name]) for name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value for a parameter outside the model."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _propose(self, model: Surrogate, waiting: Tensor | None, number: int, lattice: Lattice | None) -> Tensor:
        """The design with the largest EUBO beside the one that waits, or beside the best, as the preset searches."""
        latent = model.latent
        anchor = latent.X[:, int(incumbent.find(latent))] if waiting is None else waiting.unsqueeze(0)
        # By the trial's number, so that workers with one seed do not propose the same design.
        chance = Request([stream(self._seed, "optuna", str(number))], anchor=anchor, lattice=lattice)
        with torch.no_grad():
            request = question.request(model.method, model.preset, latent, chance)
            return propose(latent, MAXIMIZERS[model.preset.maximizer], request).pair[0, 0]


def _finished(study: Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def _joint(every: Sequence[Distributions]) -> dict[str, BaseDistribution | None]:
    """For each parameter that all have, the distribution that holds all of its own; None where there is none."""
    found: dict[str, Any] = dict(every[0]) if every else {}
    for one in every[1:]:
        found = {
            name: part if part is None or part == one[name] else _joined(part, one[name])
            for name, part in found.items()
            if name in one
        }
    return found


def _joined(old: Any, new: Any) -> BaseDistribution | None:
    """The range of both; Optuna itself allows no other kinds, logarithms or choices under one name."""
    low, high = min(old.low, new.low), max(old.high, new.high)
    if old.step != new.step or (old.step is not None and not _is_whole((new.low - old.low) / old.step)):
        return None
    return type(old)(low, high, log=old.log, step=old.step)


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < ROUNDING


def _waiting(study: Study, trial: FrozenTrial, compared: Mapping[int, int], space: Distributions) -> Any:
    """The design of the newest other trial that has all parameters and no comparison yet; None if there is none."""
    open_trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING, TrialState.COMPLETE))
    for one in reversed(open_trials):
        if one.number != trial.number and one.number not in compared and set(space) <= set(one.params):
            return _design(one.params, space)
    return None


def _parameter(part: Any) -> Tuned:
    """A distribution as a parameter of our studies; with more values than a lattice may have it is continuous."""
    if isinstance(part, CategoricalDistribution):
        # By position: Optuna's choices may be anything.
        return Categorical(tuple(range(len(part.choices))))
    if part.step is not None and (part.high - part.low) / part.step <= MOST_LEVELS:
        kind = Int if isinstance(part, IntDistribution) else Float
        return kind(part.low, part.high, log=part.log, step=part.step)
    return Float(float(part.low), float(part.high), log=part.log)


def _design(values: Mapping[str, Any], space: Distributions) -> dict[str, Any]:
    """A trial's parameters as our studies write them."""
    return {
        name: int(part.to_internal_repr(values[name])) if isinstance(part, CategoricalDistribution) else values[name]
        for name, part in space.items()
    }


def _value(part: Any, found: Any) -> Any:
    """A value of ours as Optuna's: on the distribution's grid where it has one, never outside its range."""
    if isinstance(part, CategoricalDistribution):
        return part.choices[found]
    if part.step is not None:
        found = part.low + round((found - part.low) / part.step) * part.step
    found = min(max(found, part.low), part.high)
    return int(found) if isinstance(part, IntDistribution) else float(found)
