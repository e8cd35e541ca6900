"""Other people's software behind the contract: each makes an object of (dimensions, seed) with ask, tell and best.

`Botorch` is BoTorch as its tutorials use it; `Thompson` asks two draws of its posterior instead. `Bope` is the loop of
its tutorial on preferences among outcomes: it knows every design's outcomes, and models the taste on them. `Ax` leaves
model and question to Ax. `Optuna` is
Optuna Dashboard's sampler with two designs on the screen: the winner stays, and a new design takes the loser's place.
`Cma` is pycma told ranks alone. `RandomKing` and `SobolKing` are what every method must beat: the winner stays, and
meets the next design of a sequence.
"""

from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.errors import needed
from kappasharp.lab import outcomes
from kappasharp.problems.registry import find_problem
from kappasharp.randomness import stream

Design = list[float]
SECOND, TIE = 1, 2
# Designs so near are the same: one that was told comes back as it was.
SAME = 1e-9
# What two draws of a posterior are maximised over.
CANDIDATES = 2048


class Botorch:
    """PairwiseGP fitted by its Laplace evidence, EUBO maximised from 4 restarts and 32 raw samples.

    It knows no ties: one counts for the first design. What it tells has the highest posterior mean of the designs seen.
    """

    method = "botorch_0_18"
    search: ClassVar[dict[str, Any]] = {"num_restarts": 4, "raw_samples": 32}

    def __init__(self, dimensions: int, seed: int) -> None:
        self.gp = self._library("botorch.models.pairwise_gp")
        self.fit_model = self._library("botorch.fit").fit_gpytorch_mll
        self.eubo = self._library("botorch.acquisition.preference").AnalyticExpectedUtilityOfBestOption
        self.maximize = self._library("botorch.optim").optimize_acqf
        self.points, self.pairs, self.seed = torch.empty(0, dimensions).double(), torch.empty(0, 2).long(), seed
        self.fitted: Any = None

    def _library(self, module: str) -> Any:
        return needed(module, f"The method {self.method}", "botorch")

    def seen(self) -> Tensor:
        """What is known (n, …) of the designs asked about: their parameters."""
        return self.points

    def fit(self) -> Any:
        """The model of all answers so far."""
        if self.fitted is None:
            self.fitted = self.gp.PairwiseGP(self.seen(), self.pairs)
            self.fit_model(self.gp.PairwiseLaplaceMarginalLogLikelihood(self.fitted.likelihood, self.fitted))
        return self.fitted

    def propose(self, acquisition: Any) -> tuple[Tensor, Tensor]:
        """The pair (2, d) with the largest value found of an acquisition function, and that value."""
        box = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, self.points.shape[-1])
        pair, value = self.maximize(acquisition, bounds=box, q=2, **self.search)
        return pair.detach(), value

    def acquisition(self) -> Any:
        """What a question is chosen by."""
        return self.eubo(self.fit())

    def ask(self) -> Tensor:
        """The pair with the largest EUBO found."""
        return self.propose(self.acquisition())[0]

    def tell(self, pair: list[Design], answer: int) -> None:
        """One more comparison."""
        first, second = (self.number(torch.tensor(design, dtype=torch.float64)) for design in pair)
        ordered = (second, first) if answer == SECOND else (first, second)
        self.pairs, self.fitted = torch.cat([self.pairs, torch.tensor([ordered])]), None

    def number(self, design: Tensor) -> int:
        """The number of a design among those seen; a new one is the last."""
        known = ((self.points - design).abs() <= SAME).all(-1).nonzero()
        if len(known):
            return int(known[0])
        self.points = torch.cat([self.points, design.unsqueeze(0)])
        return len(self.points) - 1

    def best(self) -> Tensor:
        """The design seen with the highest posterior mean."""
        model = self.fit()
        with torch.no_grad():
            return self.points[int(model.posterior(self.seen()).mean.argmax())]


class Thompson(Botorch):
    """The same model; a question is the best of 2,048 Sobol designs under two joint draws of its posterior."""

    method = "botorch_thompson"

    def ask(self) -> Tensor:
        """Two designs, each the best under a draw of its own."""
        model, draw = self.fit(), self._library("botorch.utils.sampling").draw_sobol_samples
        box = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, self.points.shape[-1])
        designs = torch.cat([draw(box, CANDIDATES, 1).squeeze(1), self.points])
        with torch.no_grad():
            draws = model.posterior(designs).rsample(torch.Size([2])).squeeze(-1)
        return designs[draws.argmax(-1)]


class Bope(Botorch):
    """The same model on outcomes, EUBO composed with them, from 8 restarts and 64 raw samples: BoTorch's BOPE tutorial.

    Outcomes are normalised by their range over a sample of designs. Where they are formulas BoTorch climbs through
    these themselves; where they are simulated it climbs through the tutorial's model of them, a Gaussian process
    fitted to the sample of which every question draws one path. Its preference model always gets the outcomes that are
    true.
    """

    method = "botorch_bope"
    search: ClassVar[dict[str, Any]] = {"num_restarts": 8, "raw_samples": 64, "options": {"batch_limit": 4}}

    def __init__(self, dimensions: int, seed: int, problem: str) -> None:
        super().__init__(dimensions, seed)
        self.problem = find_problem(problem)
        self.known = outcomes.sample(problem)
        self.deterministic = self._library("botorch.models.deterministic")
        self.measured = torch.empty(0, len(self.problem.outcome_names)).double()
        self.modelled = outcome_model(problem) if self.problem.is_simulated else None

    def measure(self, X: Tensor) -> Tensor:
        """Outcomes (…, k) of designs (…, d), normalised."""
        return self.known.normalised(self.problem.unit_outcomes(X.clamp(0.0, 1.0)))

    def seen(self) -> Tensor:
        """What is known (n, k) of the designs asked about: their outcomes."""
        if len(self.measured) < len(self.points):
            self.measured = torch.cat([self.measured, self.measure(self.points[len(self.measured) :])])
        return self.measured

    def acquisition(self) -> Any:
        """EUBO of what is liked about the outcomes of two designs."""
        if self.modelled is None:
            through = self.deterministic.GenericDeterministicModel(self.measure, len(self.problem.outcome_names))
        else:
            through = self.deterministic.FixedSingleSampleModel(self.modelled)
        return self.eubo(self.fit(), outcome_model=through)


@cache
def outcome_model(name: str) -> Any:
    """BoTorch's Gaussian processes of a problem's normalised outcomes, fitted to their sample, once."""
    libraries = ("models.gp_regression", "models.transforms.outcome", "fit")
    regression, transforms, fit = (needed(f"botorch.{one}", "The method botorch_bope", "botorch") for one in libraries)
    likelihood = needed("gpytorch.mlls", "The method botorch_bope", "botorch").ExactMarginalLogLikelihood
    known = outcomes.sample(name)
    measured = known.normalised(known.outcomes)
    model = regression.SingleTaskGP(
        known.designs, measured, outcome_transform=transforms.Standardize(measured.shape[-1])
    )
    fit.fit_gpytorch_mll(likelihood(model.likelihood, model))
    return model


class Ax:
    """An Ax experiment whose metric is a preference: Ax chooses PairwiseGP and qEUBO for it by itself.

    It knows no ties: one counts for the first design. What it tells has the highest posterior mean of the designs seen.
    """

    metric = "pairwise_pref_query"

    def __init__(self, dimensions: int, seed: int) -> None:
        self.names = [f"x{i}" for i in range(dimensions)]
        core, space = self._library("core"), self._library("core.search_space")
        box = [core.RangeParameter(name, core.ParameterType.FLOAT, 0.0, 1.0) for name in self.names]
        goal = core.Objective(expression=self.metric, metric_name_to_signature={self.metric: self.metric})
        self.experiment = core.Experiment(
            name="preferences",
            search_space=space.SearchSpace(box),
            optimization_config=core.OptimizationConfig(goal),
            tracking_metrics=[core.Metric(self.metric)],
        )
        self.seen: list[Design] = []
        self.generator: Any = None

    def _library(self, module: str) -> Any:
        return needed(f"ax.{module}", "The method ax_preference", "ax")

    def _fit(self) -> None:
        """Ax's model of all answers so far."""
        if self.generator is None:
            self.generator = self._library("generators.torch.botorch_modular.generator").BoTorchGenerator()
            self.adapter = self._library("adapter.torch").TorchAdapter(
                experiment=self.experiment, generator=self.generator, fit_tracking_metrics=False,
                transforms=self._library("adapter.registry").Cont_X_trans,
            )  # fmt: skip

    def ask(self) -> list[Design]:
        """The pair that Ax generates."""
        self._fit()
        return [[arm.parameters[name] for name in self.names] for arm in self.adapter.gen(2).arms]

    def tell(self, pair: list[Design], answer: int) -> None:
        """A finished trial of two arms: the better gets 1, the other 0."""
        arms = [self._library("core.arm").Arm(dict(zip(self.names, design, strict=True))) for design in pair]
        made = self._library("core.generator_run").GeneratorRun(arms=arms)
        trial = self.experiment.new_batch_trial(generator_run=made)
        first, second = trial.arms
        won = float(answer != SECOND)
        trial.attach_batch_trial_data({first.name: {self.metric: won}, second.name: {self.metric: 1.0 - won}})
        trial.mark_running(no_runner_required=True)
        trial.mark_completed()
        self.seen, self.generator = [*self.seen, *pair], None

    def best(self) -> Design:
        """The design seen with the highest posterior mean."""
        self._fit()
        with torch.no_grad():
            mean = self.generator.surrogate.model.posterior(torch.tensor(self.seen, dtype=torch.float64)).mean
        return self.seen[int(mean.argmax())]


class Optuna:
    """Optuna Dashboard's preferential study with its Gaussian-process sampler, and two designs on the screen.

    It knows no ties: one counts for the first design, the new one.
    """

    def __init__(self, dimensions: int, seed: int) -> None:
        whom = "The method optuna_preferential"
        needed("optuna", whom, "peers").logging.set_verbosity(30)
        preferential = needed("optuna_dashboard.preferential", whom, "peers")
        sampler = needed("optuna_dashboard.preferential.samplers.gp", whom, "peers").PreferentialGPSampler
        self.study = preferential.create_study(n_generate=2, sampler=sampler(seed=seed % 2**31))
        self.names = [f"x{i}" for i in range(dimensions)]
        self.trials: list[Any] = []
        self.champion = 0

    def _generate(self) -> Design:
        trial = self.study.ask()
        point = [trial.suggest_float(name, 0.0, 1.0) for name in self.names]
        self.trials.append(trial)
        return point

    def _design(self, number: int) -> Design:
        return [self.trials[number].params[name] for name in self.names]

    def number(self, design: Design) -> int:
        """The number of a design's trial; a new one is made of a design that came from elsewhere."""
        for number in range(len(self.trials)):
            if all(abs(a - b) <= SAME for a, b in zip(self._design(number), design, strict=True)):
                return number
        self.study.enqueue_trial(dict(zip(self.names, design, strict=True)))
        self._generate()
        return len(self.trials) - 1

    def ask(self) -> list[Design]:
        """A new design against the winner of the last question."""
        champion = self._design(self.champion)
        return [self._generate(), champion]

    def tell(self, pair: list[Design], answer: int) -> None:
        """One more preference."""
        first, second = map(self.number, pair)
        winner, loser = (second, first) if answer == SECOND else (first, second)
        self.study.report_preference(self.trials[winner], self.trials[loser])
        self.champion = winner

    def best(self) -> Design:
        """The winner of the last question."""
        return self._design(self.champion)


class RandomKing:
    """King of the hill: the winner of the last answer stays, and meets a design drawn at random; a tie keeps it."""

    def __init__(self, dimensions: int, seed: int) -> None:
        self.dimensions, self.chance = dimensions, stream(seed, "king of the hill")
        self.king: Design | None = None

    def draw(self) -> Design:
        """The next challenger."""
        design: Design = torch.rand(self.dimensions, generator=self.chance, dtype=torch.float64).tolist()
        return design

    def ask(self) -> list[Design]:
        """The king first, then a challenger."""
        return [self.king or self.draw(), self.draw()]

    def tell(self, pair: list[Design], answer: int) -> None:
        """The winner stays."""
        self.king = pair[1] if answer == SECOND else pair[0]

    def best(self) -> Design | None:
        """The king."""
        return self.king


class SobolKing(RandomKing):
    """The same with the designs of a scrambled Sobol sequence."""

    def __init__(self, dimensions: int, seed: int) -> None:
        super().__init__(dimensions, seed)
        self.sequence = SobolEngine(dimensions, scramble=True, seed=seed % 2**31)

    def draw(self) -> Design:
        """The next of the sequence."""
        design: Design = self.sequence.draw(1, dtype=torch.float64)[0].tolist()
        return design


class Cma:
    """pycma's evolution strategy, told ranks alone: four designs a generation, sorted by insertion, 3 to 5 questions.

    It begins at the winner of the last answer of the start, with a step of 0.3. A tie counts against the new design.
    What it tells is the strategy's own favourite, the mean of its distribution.
    """

    population, step = 4, 0.3

    def __init__(self, dimensions: int, seed: int) -> None:
        self.library = needed("cma", "The method cma_by_rank", "peers")
        self.dimensions, self.seed = dimensions, seed
        self.winner: Design = [0.5] * dimensions
        self.strategy: Any = None
        self.order: list[int] = []
        self.low = self.high = 0
        self.open = False

    def ask(self) -> list[Design]:
        """The next design to be sorted in against the middle of those among which its place is."""
        if self.strategy is None:
            options = {"popsize": self.population, "bounds": [0, 1], "seed": self.seed % 2**31 + 1, "verbose": -9}
            self.strategy = self.library.CMAEvolutionStrategy(self.winner, self.step, options)
        if not self.order:
            self.asked = self.strategy.ask()
            self.designs = [[float(value) for value in design] for design in self.asked]
            self.order, self.low, self.high = [0], 0, 1
        self.open = True
        return [self.designs[len(self.order)], self.designs[self.order[self._middle]]]

    @property
    def _middle(self) -> int:
        return (self.low + self.high) // 2

    def tell(self, pair: list[Design], answer: int) -> None:
        """One step of the sorting; an answer that was not asked for says where to begin."""
        if not self.open:
            self.winner = pair[1] if answer == SECOND else pair[0]
            return
        self.open = False
        if answer in (SECOND, TIE):
            self.low = self._middle + 1
        else:
            self.high = self._middle
        if self.low == self.high:
            self.order.insert(self.low, len(self.order))
            self.low, self.high = 0, len(self.order)
        if len(self.order) == self.population:
            ranks = [float(self.order.index(number)) for number in range(self.population)]
            self.strategy.tell(self.asked, ranks)
            self.order = []

    def best(self) -> Design:
        """The strategy's favourite."""
        if self.strategy is None or not self.strategy.countiter:
            return self.winner
        return [min(max(float(value), 0.0), 1.0) for value in self.strategy.result.xfavorite]
