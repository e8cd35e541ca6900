"""For Optuna: `KappaSharpSampler` for the preferential studies of Optuna's dashboard.

Optuna asks for one design at a time. The sampler gives it the one that promises most beside a design that is already
there: the newest that waits for its first comparison, or the best of those compared. Parameters are those of our own
studies: steps, whole numbers and choices are searched on their lattice.
"""

from collections.abc import Mapping
from typing import Any

import torch
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard.preferential import PreferentialStudy
from torch import Tensor

from kappasharp.acquisition import incumbent
from kappasharp.acquisition.lattice import Lattice
from kappasharp.acquisition.maximize import MAXIMIZERS, Request, propose
from kappasharp.errors import InvalidValueError
from kappasharp.methods import asking
from kappasharp.methods.method import Method, Preset
from kappasharp.methods.registry import find_method, find_preset
from kappasharp.methods.surrogate import Surrogate, fit
from kappasharp.streams import stream
from kappasharp.study import cube
from kappasharp.study.parameters import MOST_LEVELS, Categorical, Float, Int, Tuned
from kappasharp.study.space import Space

Distributions = Mapping[str, BaseDistribution]


class KappaSharpSampler(BaseSampler):
    """Designs for a preferential study, from a kappasharp model of its preferences.

    Every distribution is modelled: floats and integers, with logarithms and steps, and categories. Parameters that not
    every trial has and those with a single value come from `independent_sampler`.

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
        self._n_startup = n_startup_trials
        self._method, self._preset = find_method(method), find_preset(preset)
        self._seed = torch.Generator().seed() if seed is None else seed
        self._independent = independent_sampler or RandomSampler(seed=self._seed % 2**32)
        self._space = IntersectionSearchSpace()

    def reseed_rng(self) -> None:
        """A new seed, as Optuna asks for it where a study is copied to other processes."""
        self._seed = torch.Generator().seed()
        self._independent.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that the model is over: those of more than one value that every trial has."""
        del trial
        return {name: part for name, part in self._space.calculate(study).items() if not part.single()}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        """The design that promises most; nothing, which leaves it to the other sampler, at the start."""
        if trial.number < self._n_startup:
            return {}
        found = PreferentialStudy(study).get_preferences(deepcopy=False)
        # The storage keeps no order among answers; without one of our own the same seed would round differently.
        preferences = sorted(found, key=lambda pair: (max(pair[0].number, pair[1].number), pair[0].number))
        if not preferences or not search_space:
            return {}
        compared = {one.number: one for pair in preferences for one in pair}
        index = {number: position for position, number in enumerate(compared)}
        space = Space({name: _parameter(part) for name, part in search_space.items()})
        points = cube.points(space, [_design(one.params, search_space) for one in compared.values()])
        pairs = torch.tensor([[index[better.number], index[worse.number]] for better, worse in preferences])
        model = fit(points, pairs, method=self._method, preset=self._preset)
        waiting = _waiting(study, trial, index, search_space)
        anchor = None if waiting is None else cube.points(space, [waiting])[0]
        found = space.decode(self._propose(model, anchor, trial.number, cube.lattice(space)).tolist())
        return {name: _value(part, found[name]) for name, part in search_space.items()}

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
            request = asking.request(model.method, model.preset, latent, chance)
            return propose(latent, MAXIMIZERS[model.preset.maximizer], request).pair[0, 0]


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
