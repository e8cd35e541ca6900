"""Other people's software as methods: the same cells, first designs and simulated people; the rest is their own.

`botorch_0_18` is BoTorch as its tutorials use it. `botorch_bope` is the loop of its tutorial on preferences among
outcomes: it knows every design's outcomes, and models the taste on them. `optuna_preferential` is Optuna Dashboard's
sampler with two designs on the screen: the winner stays, and a new design takes the loser's setting.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.core import comparisons
from kappasharp.errors import needed
from kappasharp.lab import outcomes
from kappasharp.methods.asking import NEW
from kappasharp.problems import initial, oracle
from kappasharp.problems.oracle import Person
from kappasharp.problems.problem import Problem
from kappasharp.streams import seeded_globally, stream

WARNED = "peer_warned"


@dataclass(frozen=True)
class Peer:
    """A library: what it is, the versions that are meant, and which of its loops where it has several."""

    library: str
    versions: str
    summary: str
    loop: str = ""

    @property
    def sees_outcomes(self) -> bool:
        """Whether it learns on the outcomes of designs."""
        return self.loop == "bope"


class PeerQuestion(NamedTuple):
    """Two designs (2, d) in the unit cube, and the index of each among the designs seen; −1 for a new one."""

    points: Tensor
    known: tuple[int, int]


@runtime_checkable
class Player(Protocol):
    """One run of a peer."""

    def ask(self) -> PeerQuestion:
        """The next question."""
        ...

    def tell(self, winner: int, loser: int) -> None:
        """The answer, by the indices of designs seen."""
        ...


class Botorch:
    """PairwiseGP fitted by its Laplace evidence, EUBO maximised from 4 restarts and 32 raw samples."""

    method = "botorch_0_18"
    search: ClassVar[dict[str, Any]] = {"num_restarts": 4, "raw_samples": 32}

    def __init__(self, points: Tensor, pairs: Tensor, seed: int) -> None:
        self.gp = self._library("botorch.models.pairwise_gp")
        self.fit_model = self._library("botorch.fit").fit_gpytorch_mll
        self.eubo = self._library("botorch.acquisition.preference").AnalyticExpectedUtilityOfBestOption
        self.maximize = self._library("botorch.optim").optimize_acqf
        self.points, self.pairs, self.seed = points, pairs, seed

    def _library(self, module: str) -> Any:
        return needed(module, f"The method {self.method}", "botorch")

    def seen(self) -> Tensor:
        """What is known (n, …) of the designs asked about: their parameters."""
        return self.points

    def fit(self) -> Any:
        """The model of all answers so far."""
        model = self.gp.PairwiseGP(self.seen(), self.pairs)
        self.fit_model(self.gp.PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        return model

    def propose(self, acquisition: Any) -> tuple[Tensor, Tensor]:
        """The pair (2, d) with the largest value found of an acquisition function, and that value."""
        box = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, self.points.shape[-1])
        pair, value = self.maximize(acquisition, bounds=box, q=2, **self.search)
        return pair.detach(), value

    def acquisition(self) -> Any:
        """What a question is chosen by."""
        return self.eubo(self.fit())

    def ask(self) -> PeerQuestion:
        """The pair with the largest EUBO found."""
        pair, _ = self.propose(self.acquisition())
        self.points = torch.cat([self.points, pair])
        return PeerQuestion(pair, (NEW, NEW))

    def tell(self, winner: int, loser: int) -> None:
        """One more comparison."""
        self.pairs = torch.cat([self.pairs, torch.tensor([[winner, loser]])])


class Bope(Botorch):
    """The same model on outcomes, EUBO composed with them, from 8 restarts and 64 raw samples: BoTorch's BOPE tutorial.

    Outcomes are normalised by their range over a sample of designs. Where they are formulas BoTorch climbs through
    these themselves; where they are simulated it climbs through the tutorial's model of them, a Gaussian process
    fitted to the sample of which every question draws one path. Its preference model always gets the outcomes that are
    true.
    """

    method = "botorch_bope"
    search: ClassVar[dict[str, Any]] = {"num_restarts": 8, "raw_samples": 64, "options": {"batch_limit": 4}}

    def __init__(self, points: Tensor, pairs: Tensor, seed: int, problem: Problem) -> None:
        super().__init__(points, pairs, seed)
        self.problem = problem
        self.known = outcomes.sample(problem.name)
        self.deterministic = self._library("botorch.models.deterministic")
        self.measured = self.measure(points)
        self.modelled = outcome_model(problem.name) if problem.is_simulated else None

    def measure(self, X: Tensor) -> Tensor:
        """Outcomes (…, k) of designs (…, d), normalised."""
        return self.known.normalised(self.problem.unit_outcomes(X.clamp(0.0, 1.0)))

    def seen(self) -> Tensor:
        """What is known (n, k) of the designs asked about: their outcomes."""
        new = self.measure(self.points[len(self.measured) :])
        self.measured = torch.cat([self.measured, new])
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


class Optuna:
    """Optuna Dashboard's preferential study with its Gaussian-process sampler, and two designs on the screen."""

    def __init__(self, points: Tensor, pairs: Tensor, seed: int) -> None:
        whom = "The method optuna_preferential"
        needed("optuna", whom, "peers").logging.set_verbosity(30)
        preferential = needed("optuna_dashboard.preferential", whom, "peers")
        sampler = needed("optuna_dashboard.preferential.samplers.gp", whom, "peers").PreferentialGPSampler
        number = stream(seed, "optuna").initial_seed() % 2**31
        self.study = preferential.create_study(n_generate=2, sampler=sampler(seed=number))
        self.names = [f"x{i}" for i in range(points.shape[-1])]
        self.trials: list[Any] = []
        for point in points.tolist():
            self.study.enqueue_trial(dict(zip(self.names, point, strict=True)))
            self._generate()
        for winner, loser in pairs.tolist():
            self.tell(winner, loser)

    def _generate(self) -> list[float]:
        trial = self.study.ask()
        point = [trial.suggest_float(name, 0.0, 1.0) for name in self.names]
        self.trials.append(trial)
        return point

    def ask(self) -> PeerQuestion:
        """A new design against the winner of the last question."""
        champion = self.champion
        point = torch.tensor(self._generate(), dtype=torch.float64)
        kept = [self.trials[champion].params[name] for name in self.names]
        return PeerQuestion(torch.stack([point, torch.tensor(kept, dtype=torch.float64)]), (NEW, champion))

    def tell(self, winner: int, loser: int) -> None:
        """One more preference."""
        self.study.report_preference(self.trials[winner], self.trials[loser])
        self.champion = winner


PEERS: dict[str, Peer] = {
    "botorch_0_18": Peer("botorch", ">=0.18.1,<0.19", "PairwiseGP, fit_gpytorch_mll, EUBO by optimize_acqf 4/32"),
    "botorch_bope": Peer(
        "botorch", ">=0.18.1,<0.19", "PairwiseGP on outcomes, EUBO through them by optimize_acqf 8/64", loop="bope"
    ),
    "optuna_preferential": Peer("optuna-dashboard", ">=0.20", "PreferentialGPSampler; a new design against the winner"),
}
PLAYERS: dict[Peer, Callable[..., Player]] = {
    PEERS["botorch_0_18"]: Botorch,
    PEERS["botorch_bope"]: Bope,
    PEERS["optuna_preferential"]: Optuna,
}


def run(
    peer: Peer, problem: Problem, initialization: str, seed: int, queries: int, person: Person, *, first_pairs: int = 5
) -> dict[str, Any]:
    """The record of one run; from zero it starts with this many pairs, which count among the questions."""
    start = initial.start(problem, initialization, [seed], person, first_pairs)
    counted = initial.counted(initialization, first_pairs)
    chance = oracle.draws(problem.name, seed, oracle.ANSWERS, queries)[counted:]
    with seeded_globally(seed, problem.name, peer.library):
        # Who learns on outcomes knows how they are computed, and nothing of what is liked about them.
        further = (problem,) if peer.sees_outcomes else ()
        player = PLAYERS[peer](start.points[0], start.comparisons[0], seed, *further)
        record = _play(player, problem, start, person, chance)
    if counted:
        course = start.utility[0].cummax(0).values[1::2].tolist()
        record["best_utility"] = course[:-1] + record["best_utility"]
        record["n_points"] = [*range(2, 2 * counted, 2), *record["n_points"]]
    return record


def _play(player: Player, problem: Problem, start: initial.Start, person: Person, chance: Tensor) -> dict[str, Any]:
    seen, pairs = start.utility[0], start.comparisons[0]
    best, n_points, words, components = [float(seen.max())], [len(seen)], [], []
    for mood in chance:
        components.append(int(comparisons.count_components(pairs.unsqueeze(0), len(seen))))
        question, word = _asked(player)
        index, utility = [], []
        for point, at in zip(question.points, question.known, strict=True):
            value = problem.unit_utility(point.clamp(0.0, 1.0)).reshape(1) if at == NEW else seen[at].reshape(1)
            index.append(len(seen) if at == NEW else at)
            seen = torch.cat([seen, value]) if at == NEW else seen
            utility.append(value)
        # A peer knows no ties: one counts for the first design.
        second = int(oracle.answer(person, torch.cat(utility), mood)) == oracle.SECOND
        pair = (index[1], index[0]) if second else (index[0], index[1])
        player.tell(*pair)
        pairs = torch.cat([pairs, torch.tensor([pair])])
        best.append(float(seen.max()))
        n_points.append(len(seen))
        words.append(word)
    return {"best_utility": best, "n_points": n_points, "step_status": words, "n_components": components}


def _asked(player: Player) -> tuple[PeerQuestion, str]:
    """A question, and a word where the library warned on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        question = player.ask()
    return question, WARNED if caught else "ok"
