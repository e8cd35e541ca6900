"""Random preference problems that hypothesis draws for the tests of the paper's statements."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

from kappasharp.correction import strength
from kappasharp.inference import comparison_space, comparisons, laplace, likelihood
from kappasharp.inference.comparisons import Incidence
from kappasharp.inference.likelihood import Probit
from kappasharp.inference.posterior import Posterior
from kappasharp.kernels import stationary
from tests.paper import dense

FAMILIES = ("rbf", "matern52")


def fewer(divisor):
    """A fraction of the profile's examples, for tests whose every example is slow."""
    return settings(max_examples=max(settings().max_examples // divisor, 4))


def seeds():
    return st.integers(0, 2**32 - 1)


def powers(low, high):
    """Ten to a power drawn uniformly: positive numbers over several orders of magnitude."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def pairs(n, min_size=1, max_size=12):
    """Answers among n points: any multigraph without loops, repetitions and contradictions included."""
    answer = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1)).map(lambda ij: (ij[0], (ij[0] + ij[1]) % n))
    return st.lists(answer, min_size=min_size, max_size=max_size).map(lambda rows: np.array(rows).reshape(-1, 2))


@st.composite
def graphs(draw, max_points=10, max_answers=14):
    """A number of points and answers among them."""
    n = draw(st.integers(2, max_points))
    return n, draw(pairs(n, 1, max_answers))


@st.composite
def clouds(draw, n, d):
    """n points of the unit cube; in half the draws some of them lie almost on top of others."""
    rng = np.random.default_rng(draw(seeds()))
    X = rng.random((n, d))
    if draw(st.booleans()):
        half = n // 2
        X[half : 2 * half] = X[:half] + draw(powers(-4, -1)) * rng.standard_normal((half, d))
    return X.clip(0.0, 1.0)


@dataclass(frozen=True)
class Problem:
    """Points, hyperparameters and answers, with the package's own view of them beside."""

    family: str
    X: np.ndarray
    theta: np.ndarray
    nugget: float
    noise: float
    pairs: np.ndarray

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def outputscale(self) -> float:
        return float(np.exp(self.theta[-1]))

    @property
    def probit(self) -> Probit:
        return Probit(self.noise)

    @cached_property
    def C(self) -> Incidence:
        return comparisons.incidence(torch.tensor(self.pairs), self.n)

    @cached_property
    def dense_C(self) -> np.ndarray:
        return dense.incidence(self.pairs, self.n)

    @cached_property
    def K(self) -> torch.Tensor:
        return stationary.covariance(self.family, torch.tensor(self.X), torch.tensor(self.theta), self.nugget)

    @cached_property
    def dense_K(self) -> np.ndarray:
        smooth = dense.kernel(self.family, self.X, self.X, self.theta)
        return smooth + self.outputscale * self.nugget * np.eye(self.n)

    def find_map(self, r: torch.Tensor | None = None) -> laplace.MapFit:
        found = laplace.find_map(self.K, self.C, self.probit, r=r)
        assert bool(found.dual.converged)
        return found

    def weights(self, found: laplace.MapFit) -> torch.Tensor:
        """ω of the comparisons at a MAP, in units of utility."""
        return likelihood.curvature(found.dual.z).omega / self.probit.scale**2

    def precision(self, found: laplace.MapFit) -> tuple[torch.Tensor, torch.Tensor]:
        """H and a = diag K⁻¹ at a MAP."""
        H, a, usable = strength.precision(self.K, comparisons.laplacian(self.C, self.weights(found)))
        assert bool(usable)
        return H, a

    def covariance(self, found: laplace.MapFit, r: torch.Tensor | None = None) -> np.ndarray:
        """The Laplace covariance of the utilities of the training points, with R in it where r is given."""
        root = comparison_space.information_root(self.K, self.C, self.weights(found), r)
        known = self.K @ root
        return (self.K - known @ known.mT).numpy()

    def posterior(self, found: laplace.MapFit, r: torch.Tensor | None = None) -> Posterior:
        root = comparison_space.information_root(self.K, self.C, self.weights(found), r)
        return Posterior(self.family, torch.tensor(self.X), torch.tensor(self.theta), found.beta, root)


@st.composite
def problems(draw, max_points=9, max_answers=12, nugget=(-4.0, -1.0)):
    """A preference problem small enough for dense algebra and regular enough for six digits of an explicit K⁻¹."""
    n, answers = draw(graphs(max_points, max_answers))
    d = draw(st.integers(1, 3))
    X = draw(clouds(n, d))
    lengthscale = [draw(powers(-1.0, 0.3)) for _ in range(d)]
    theta = np.log([*lengthscale, draw(powers(-1.0, 1.5))])
    return Problem(
        draw(st.sampled_from(FAMILIES)), X, theta, draw(powers(*nugget)), draw(powers(-0.5, 0.3)), answers
    )  # fmt: skip


@st.composite
def corrected_problems(draw, **limits):
    """A problem with the diagonal r of a correction η²/(η + a), and its η, from hardly felt to dominant."""
    problem = draw(problems(**limits))
    _, a = problem.precision(problem.find_map())
    eta = torch.tensor(float(a.mean()) * draw(powers(-3.0, 1.0)))
    return problem, strength.prior_weighted(eta, a), float(eta)
