"""Other people's software as methods: the same cells, first designs and simulated people; the rest is their own.

`botorch_0_18` is BoTorch as its tutorials use it. `optuna_preferential` is Optuna Dashboard's sampler with two designs
on the screen: the winner stays, and a new design takes the loser's setting.
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

    def __init__(self, points: Tensor, pairs: Tensor, seed: int) -> None:
        self.gp = needed("botorch.models.pairwise_gp", "The method botorch_0_18", "botorch")
        self.fit_model = needed("botorch.fit", "The method botorch_0_18", "botorch").fit_gpytorch_mll
        preference = needed("botorch.acquisition.preference", "The method botorch_0_18", "botorch")
        self.eubo = preference.AnalyticExpectedUtilityOfBestOption
        self.maximize = needed("botorch.optim", "The method botorch_0_18", "botorch").optimize_acqf
        self.points, self.pairs, self.seed = points, pairs, seed

    def fit(self) -> Any:
        """The model of all answers so far."""
        model = self.gp.PairwiseGP(self.points, self.pairs)
        self.fit_model(self.gp.PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        return model

    def propose(self, acquisition: Any) -> tuple[Tensor, Tensor]:
        """The pair (2, d) with the largest value found of an acquisition function, and that value."""
        box = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, self.points.shape[-1])
        pair, value = self.maximize(acquisition, bounds=box, q=2, num_restarts=4, raw_samples=32)
        return pair.detach(), value

    def ask(self) -> PeerQuestion:
        """The pair with the largest EUBO found."""
        pair, _ = self.propose(self.eubo(self.fit()))
        self.points = torch.cat([self.points, pair])
        return PeerQuestion(pair, (NEW, NEW))

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
    "optuna_preferential": Peer("optuna-dashboard", ">=0.20", "PreferentialGPSampler; a new design against the winner"),
}
PLAYERS: dict[Peer, Callable[[Tensor, Tensor, int], Player]] = {
    PEERS["botorch_0_18"]: Botorch,
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
        player = PLAYERS[peer](start.points[0], start.comparisons[0], seed)
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
