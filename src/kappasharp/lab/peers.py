"""Other people's software as methods: the same cells, first designs and simulated people; the rest is their own.

`botorch_0_18` is BoTorch as its tutorials use it. `optuna_preferential` is Optuna Dashboard's sampler with two designs
on the screen: the winner stays, and a new design takes the loser's place.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.core import comparisons
from kappasharp.errors import needed
from kappasharp.methods.asking import NEW
from kappasharp.problems import initial, oracle
from kappasharp.problems.oracle import Person
from kappasharp.problems.problem import Problem
from kappasharp.streams import seeded_globally, stream

WARNED = "peer_warned"


@dataclass(frozen=True)
class Peer:
    """A library: what it is, and the versions that are meant."""

    library: str
    versions: str
    summary: str


class Question(NamedTuple):
    """Two designs (2, d) in the unit cube, and the index of each among the designs seen; −1 for a new one."""

    points: Tensor
    known: tuple[int, int]


@runtime_checkable
class Player(Protocol):
    """One run of a peer."""

    def ask(self) -> Question:
        """The next question."""
        ...

    def tell(self, winner: int, loser: int) -> None:
        """The answer, by the indices of designs seen."""
        ...


class Botorch:
    """PairwiseGP fitted by its Laplace evidence, EUBO maximised from 4 restarts and 32 raw samples."""

    def __init__(self, points: Tensor, pairs: Tensor, seed: int) -> None:
        self.gp = needed("botorch.models.pairwise_gp", "The method botorch_0_18", "botorch")
        self.fit = needed("botorch.fit", "The method botorch_0_18", "botorch").fit_gpytorch_mll
        preference = needed("botorch.acquisition.preference", "The method botorch_0_18", "botorch")
        self.eubo = preference.AnalyticExpectedUtilityOfBestOption
        self.maximize = needed("botorch.optim", "The method botorch_0_18", "botorch").optimize_acqf
        self.points, self.pairs, self.seed = points, pairs, seed

    def ask(self) -> Question:
        """The pair with the largest EUBO found."""
        model = self.gp.PairwiseGP(self.points, self.pairs)
        self.fit(self.gp.PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        box = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, self.points.shape[-1])
        pair, _ = self.maximize(self.eubo(model), bounds=box, q=2, num_restarts=4, raw_samples=32)
        self.points = torch.cat([self.points, pair.detach()])
        return Question(pair.detach(), (NEW, NEW))

    def tell(self, winner: int, loser: int) -> None:
        """One more comparison."""
        self.pairs = torch.cat([self.pairs, torch.tensor([[winner, loser]])])


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

    def ask(self) -> Question:
        """A new design against the winner of the last question."""
        champion = self.champion
        point = torch.tensor(self._generate(), dtype=torch.float64)
        kept = [self.trials[champion].params[name] for name in self.names]
        return Question(torch.stack([point, torch.tensor(kept, dtype=torch.float64)]), (NEW, champion))

    def tell(self, winner: int, loser: int) -> None:
        """One more preference."""
        self.study.report_preference(self.trials[winner], self.trials[loser])
        self.champion = winner


PEERS: dict[str, Peer] = {
    "botorch_0_18": Peer("botorch", ">=0.18.1,<0.19", "PairwiseGP, fit_gpytorch_mll, EUBO by optimize_acqf 4/32"),
    "optuna_preferential": Peer("optuna-dashboard", ">=0.20", "PreferentialGPSampler; a new design against the winner"),
}
PLAYERS: dict[Peer, Callable[[Tensor, Tensor, int], Player]] = {
    PEERS["botorch_0_18"]: Botorch,
    PEERS["optuna_preferential"]: Optuna,
}


def run(peer: Peer, problem: Problem, cell: tuple[str, int, int], person: Person) -> dict[str, Any]:
    """The record of one run: `cell` is its initialization, its seed and its number of queries."""
    initialization, seed, queries = cell
    start = initial.start(problem, initialization, [seed], person)
    chance = oracle.draws(problem.name, seed, "oracle noise", queries)
    with seeded_globally(seed, problem.name, peer.library):
        player = PLAYERS[peer](start.points[0], start.comparisons[0], seed)
        return _play(player, problem, (start.utility[0], start.comparisons[0]), (person, chance))


def _play(
    player: Player, problem: Problem, known: tuple[Tensor, Tensor], answerer: tuple[Person, Tensor]
) -> dict[str, Any]:
    (seen, pairs), (person, chance) = known, answerer
    best, words, components = [float(seen.max())], [], []
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
        words.append(word)
    return {"best_utility": best, "step_status": words, "n_components": components}


def _asked(player: Player) -> tuple[Question, str]:
    """A question, and a word where the library warned on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        question = player.ask()
    return question, WARNED if caught else "ok"
