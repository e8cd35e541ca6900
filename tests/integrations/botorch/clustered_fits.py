"""`fit_gpytorch_mll` on consistent answers about clustered designs: failures and seconds, PairwiseGP's and ours.

python -m tests.integrations.botorch.clustered_fits 200
"""

import sys
import time

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

from kappasharp.integrations.botorch.model import KappaSharpGP
from tests.integrations.botorch.examples import clustered, quiet


def fit(kind, seed):
    """Seconds to construct and fit, and what went wrong, if anything."""
    X, P = clustered(seed, d=2 + seed % 3)
    np.random.seed(seed)
    torch.manual_seed(seed)
    start, wrong = time.perf_counter(), None
    with quiet():
        try:
            model = kind(X, P)
            fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
            model.posterior(X[:2])
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:80]}"
    return time.perf_counter() - start, wrong


def main(count):
    torch.set_num_threads(1)
    found = {kind: [] for kind in (PairwiseGP, KappaSharpGP)}
    for seed in range(count):  # side by side, so that a busy machine is equally busy for both
        for kind, results in found.items():
            results.append(fit(kind, seed))
        if (seed + 1) % 50 == 0 or seed + 1 == count:
            report(found)


def report(found):
    for kind, results in found.items():
        seconds = sorted(one for one, _ in results)
        wrong = [text for _, text in results if text]
        print(f"{kind.__name__}: {len(wrong)} failures of {len(results)} {wrong[:3]}", end="; ")
        print(
            f"median {seconds[len(seconds) // 2]:.2f} s, longest {seconds[-1]:.2f} s, all {sum(seconds):.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
