"""Writes the JSON files of this folder from the libraries they name; run it by hand when one of them changes.

    .venv/bin/python tests/published/make_published.py

The tests read the JSON only, so none of these libraries is needed to run them.
"""

import json
from pathlib import Path

import botorch
import choix
import mpmath
import numpy as np
import torch
from botorch.models import PairwiseGP
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

HERE = Path(__file__).parent
COMMAND = "tests/published/make_published.py"


def write(name: str, content: dict[str, object]) -> None:
    (HERE / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def log_normal_cdf() -> None:
    """log Φ far in both tails: values that others have published, and mpmath's own."""
    mpmath.mp.dps = 420  # Φ(30) differs from 1 in the 197th digit
    points = [-40, -30, -15, -8, -3, 0, 3, 8, 15, 30]
    computed = {str(z): float(mpmath.log(mpmath.erfc(-mpmath.mpf(z) / mpmath.sqrt(2)) / 2)) for z in points}
    write(
        "log_normal_cdf.json",
        {
            "mpmath": {
                "source": f"mpmath {mpmath.__version__}",
                "how": f"log(erfc(-z/sqrt 2)/2) with 420 digits, rounded to double; {COMMAND}",
                "log_cdf": computed,
            },
            "gpy": {
                "source": "choix 0.4.1, tests/test_ep.py, test_log_phi: 'Ground truth computed with GPy-1.7.7'",
                "how": "copied by hand: log Φ(-15) and its derivative φ/Φ",
                "z": -15.0,
                "log_cdf": -116.13138484571169,
                "hazard": 15.066086827167823,
            },
            "r": {
                "source": "Stan Math, std_normal_lcdf_test.cpp: pnorm(z, log.p = TRUE) of R 4.6.1",
                "how": "copied by hand, printed there with 17 digits",
                "log_cdf": {
                    "-100": -5005.5242086942053,
                    "-40": -804.60844201375380,
                    "-30": -454.32124395634321,
                    "-15": -116.13138484571169,
                    "-8.5": -39.197396428217672,
                    "-7.5": -31.075890902890002,
                    "-4.5": -12.592419735713079,
                    "-3.5": -8.3660653083440941,
                    "3.5": -0.00023265614137680445,
                    "8.5": -9.4795348222033192e-18,
                    "15": -3.6709661993127514e-51,
                    "37": -5.7255712225245771e-300,
                },
            },
        },
    )


def choix_chain() -> None:
    """Four items, each answer between neighbours: choix's expectation propagation under the probit model."""
    pairs = [(3, 2), (2, 1), (1, 0)]
    runs = []
    for prior_variance in (8.0, 1.0, 0.1):
        # choix visits the answers in random order, so its last digits depend on the global generator: seed it.
        np.random.seed(0)
        mean, cov = choix.ep_pairwise(4, pairs, 1.0 / prior_variance, model="probit", max_iter=1000)
        runs.append({"prior_variance": prior_variance, "mean": mean.tolist(), "covariance": cov.tolist()})
    write(
        "choix_chain.json",
        {
            "source": "choix 0.4.1, ep_pairwise(model='probit')",
            "how": f"numpy seed 0, run by {COMMAND}; choix stops at a change of 1e-4 in its sites. "
            "P(i beats j) = Φ(f_i - f_j), i.e. noise 1/sqrt 2 for us; prior N(0, prior_variance I). "
            "`published` is choix's own test (tests/test_ep.py, prior variance 8, tolerance 1e-3 there).",
            "pairs": pairs,
            "runs": runs,
            "published": {
                "prior_variance": 8.0,
                "mean": [-2.64311237, -0.71902005, 0.71901978, 2.64311263],
                "variance": [4.40599359, 3.24296482, 3.24296458, 4.40599238],
            },
        },
    )


def botorch_map() -> None:
    """BoTorch's own MAP and posterior at fixed hyperparameters, on answers it does not clamp (all |z| < 3)."""
    torch.set_default_dtype(torch.float64)
    generator = torch.Generator().manual_seed(7)
    X = torch.rand(9, 2, generator=generator)
    utility = 2.0 * torch.sin(4.0 * X[:, 0]) - 3.0 * (X[:, 1] - 0.3).square()
    pairs = []
    while len(pairs) < 14:
        i, j = torch.randint(9, (2,), generator=generator).tolist()
        noise = 0.8 * torch.randn((), generator=generator)
        if i != j:
            pairs.append([i, j] if utility[i] + noise > utility[j] else [j, i])
    new = torch.rand(4, 2, generator=generator)
    lengthscale, outputscale = [0.35, 0.6], 3.0
    fits = {}
    for family, base in (("rbf", RBFKernel(ard_num_dims=2)), ("matern52", MaternKernel(nu=2.5, ard_num_dims=2))):
        kernel = ScaleKernel(base)
        kernel.base_kernel.lengthscale = torch.tensor([lengthscale])
        kernel.outputscale = outputscale
        model = PairwiseGP(X, torch.tensor(pairs), covar_module=kernel, xtol=1e-12, maxfev=1000).eval()
        assert len(model.datapoints) == len(X), "BoTorch merged points"
        f = model.utility.detach()
        z = (f[torch.tensor(pairs)[:, 0]] - f[torch.tensor(pairs)[:, 1]]) / 2**0.5
        assert float(z.abs().max()) < 3.0, "BoTorch clamps beyond 3"
        posterior = model.posterior(new)
        fits[family] = {
            "utility": f.tolist(),
            "largest_z": float(z.abs().max()),
            "new_mean": posterior.mean.detach().squeeze(-1).tolist(),
            "new_covariance": posterior.distribution.covariance_matrix.detach().tolist(),
        }
    write(
        "botorch_map.json",
        {
            "source": f"BoTorch {botorch.__version__}, PairwiseGP",
            "how": f"hyperparameters fixed in the covariance module, xtol=1e-12, no fit; run by {COMMAND}. "
            "Probit noise 1; BoTorch adds to the diagonal only if a Cholesky fails, and it did not.",
            "points": X.tolist(),
            "pairs": pairs,
            "new_points": new.tolist(),
            "lengthscale": lengthscale,
            "outputscale": outputscale,
            "fits": fits,
        },
    )


if __name__ == "__main__":
    log_normal_cdf()
    choix_chain()
    botorch_map()
