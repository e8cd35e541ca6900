"""BoTorch 0.6.0 itself, with the KappaSharp correction added: a program for `lab/external/contract.py`.

It runs in an environment of its own, with the oldest torch that Python 3.11 has (the paper names 1.11):

    python -m venv ENV
    ENV/bin/pip install torch==1.13.1 numpy==1.23.5 scipy==1.9.3 botorch==0.6.0 gpytorch==1.6.0
    ENV/bin/python benchmarks/botorch_0_6.py --method static --fallback last

`python -m benchmarks.botorch_0_6_runs` plays the lab's problems with it. Model, priors, MAP (`fsolve`), fit
(`fit_gpytorch_model`) and the search for EUBO (`optimize_acqf`, 4 restarts of 32) are the library's. Ours are EUBO as
E max, which it does not have yet, the correction, and what happens where the fit raises. One more message is known:
{"do": "counts"} is answered by what happened during the run.
"""

import argparse
import json
import math
import sys
import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import torch

GRID = np.logspace(-6.0, 8.0, 60)
BISECTIONS = 30
TARGET_EXPONENT = 0.1
EMA_RATE, THRESHOLD, FIRST_STEP = 0.2, 0.30, 8
# The model's own noise; its output scale carries the ratio.
NOISE = 1.0
# What BoTorch gives its own `fsolve`.
SOLVER = {"xtol": 1e-6, "maxfev": 100}
# The mode of ℓ ~ Gamma(1.2, 0.5). The output scale's box is flat from 1 to 4: its middle.
MODES = (0.4, 2.5)
# Below this, the variance of a difference is rounding.
LEAST_VARIANCE = 1e-12
SAME = 1e-9
METHODS, FALLBACKS = ("baseline", "static", "adaptive"), ("last", "defaults", "modes")


def weights(eta, a):
    """The diagonal of R(η): η²/(η + a)."""
    return eta**2 / (eta + a)


def condition(H):
    """κ(H) by dense eigenvalues; infinite where H is not positive definite."""
    values = np.linalg.eigvalsh(H)
    return values[-1] / values[0] if values[0] > 0.0 else math.inf


def calibrate(H, a):
    """η*, κ(H) and κ(H + R(η*)), as the paper has them: the first grid point that meets the target, then bisections.

    η* is None where no point does.
    """
    before = condition(H)
    target = before ** (1.0 - TARGET_EXPONENT)

    def meets(eta):
        return condition(H + np.diag(weights(eta, a))) <= target

    high = next((eta for eta in GRID if meets(eta)), None) if math.isfinite(before) else None
    if high is None:
        return None, before, before
    low = max((eta for eta in GRID if eta < high), default=0.0)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return float(high), before, condition(H + np.diag(weights(high, a)))


def decisiveness(difference, variance):
    """s_exp of a predicted difference: 0 for a coin flip, 1 for certainty."""
    p = 0.5 * math.erfc(-abs(difference) / math.sqrt(2.0 * (variance + 2.0 * NOISE**2)))
    return 1.0 + sum(q * math.log2(q) for q in (p, 1.0 - p) if q > 0.0)


def library(counts):
    """What is used of BoTorch 0.6.0; its `fsolve` counts its calls and failures, and gives what it always gave."""
    import botorch  # noqa: PLC0415 - the mathematics above is tested where there is none
    from botorch.acquisition.acquisition import AcquisitionFunction  # noqa: PLC0415
    from botorch.fit import fit_gpytorch_model  # noqa: PLC0415
    from botorch.models import pairwise_gp  # noqa: PLC0415
    from botorch.optim import optimize_acqf  # noqa: PLC0415
    from scipy import optimize  # noqa: PLC0415

    if botorch.__version__ != "0.6.0":
        raise RuntimeError(f"This is BoTorch {botorch.__version__}; it must be 0.6.0.")

    def fsolve(**arguments):
        found, _, flag, _ = optimize.fsolve(full_output=True, **arguments)
        counts["fsolve calls"] += 1
        counts["fsolve not converged"] += flag != 1
        return found

    class Eubo(AcquisitionFunction):
        """E max(f_a, f_b) in closed form."""

        def forward(self, X):
            normal = self.model.posterior(X).mvn
            mean, covariance = normal.mean, normal.covariance_matrix
            variance = covariance[..., 0, 0] + covariance[..., 1, 1] - 2.0 * covariance[..., 0, 1]
            spread = variance.clamp_min(LEAST_VARIANCE).sqrt()
            standard = torch.distributions.Normal(torch.zeros_like(spread), torch.ones_like(spread))
            delta = mean[..., 0] - mean[..., 1]
            ratio = delta / spread
            return mean[..., 1] + delta * standard.cdf(ratio) + spread * standard.log_prob(ratio).exp()

    pairwise_gp.optimize = SimpleNamespace(fsolve=fsolve)
    return SimpleNamespace(fit=fit_gpytorch_model, gp=pairwise_gp, maximize=optimize_acqf, eubo=Eubo, fsolve=fsolve)


class Loop:
    """One run of Algorithm 1 on BoTorch 0.6.0."""

    def __init__(self, method, fallback, dimensions, seed):
        self.method, self.fallback, self.seed = method, fallback, seed
        self.counts, self.traces = Counter(), []
        self.botorch = library(self.counts)
        self.points, self.pairs = torch.empty(0, dimensions).double(), torch.empty(0, 2).long()
        self.step, self.s_bar, self.last, self.model = 0, 0.0, None, None

    def tell(self, pair, answer):
        """One more comparison; a tie counts for the first design."""
        first, second = (self._number(torch.tensor(design).double()) for design in pair)
        ordered = (second, first) if answer == 1 else (first, second)
        self.pairs, self.model = torch.cat([self.pairs, torch.tensor([ordered])]), None

    def ask(self):
        """The pair with the largest EUBO found."""
        with self._counting("search"):
            box = torch.tensor([[0.0], [1.0]]).double().expand(2, self.points.shape[-1])
            acquisition = self.botorch.eubo(self._learn())
            pair, _ = self.botorch.maximize(acquisition, bounds=box, q=2, num_restarts=4, raw_samples=32)
        return pair.tolist()

    def best(self):
        """The design seen with the highest posterior mean."""
        model = self._learn()
        with torch.no_grad():
            return self.points[int(model.posterior(self.points).mean.argmax())].tolist()

    def _number(self, design):
        known = ((self.points - design).abs() <= SAME).all(-1).nonzero()
        if len(known):
            return int(known[0])
        self.points = torch.cat([self.points, design.unsqueeze(0)])
        return len(self.points) - 1

    def _counting(self, purpose):
        """Chance of this step and purpose, the same for every method; and warnings counted by their beginning."""
        return Counting(self.counts, f"{purpose}: ", self.seed + 1000 * self.step + (purpose == "search"))

    def _learn(self):
        """Lines 3 to 13 of Algorithm 1: the model of all answers so far, corrected where the gate is open."""
        if self.model is None:
            self.step += 1
            with self._counting("fit"):
                self.model = self._fit()
                self._gate()
        return self.model

    def _fit(self):
        """A new model with its own fit, or with what stands in for it where that raises."""
        model = self.botorch.gp.PairwiseGP(self.points, self.pairs)
        self.counts["fits"] += 1
        try:
            self.botorch.fit(self.botorch.gp.PairwiseLaplaceMarginalLogLikelihood(model))
        except Exception as error:  # whatever it raises: that is what is counted
            self.counts["fits raised"] += 1
            self.counts[f"raised: {type(error).__name__}: {' '.join(str(error).split())[:60]}"] += 1
            return self._stand_in()
        kernel = model.covar_module
        self.last = kernel.base_kernel.lengthscale.detach().clone(), kernel.outputscale.detach().clone()
        with torch.no_grad():
            K = kernel(self.points).evaluate()
            self.counts["fit left another covariance"] += int((K - model.covar).abs().max() > SAME * K.max())
        return self._solved(model)

    def _stand_in(self):
        model = self.botorch.gp.PairwiseGP(self.points, self.pairs)
        chosen = {"last": self.last, "defaults": None, "modes": MODES}[self.fallback]
        self.counts["fallback: " + (self.fallback if chosen else "defaults")] += 1
        if chosen:
            model.covar_module.base_kernel.lengthscale, model.covar_module.outputscale = chosen
        return self._solved(model)

    def _solved(self, model):
        """Its own MAP at its hyperparameters, once more, without the graph of the fit."""
        model.eval().requires_grad_(False)
        with torch.no_grad():
            before = self.counts["fsolve not converged"]
            model._update(self.points)
            self.counts["last MAP not converged"] += self.counts["fsolve not converged"] - before
        return model

    def _gate(self):
        """Lines 4 to 13."""
        model, trace = self.model, {"outputscale": float(self.model.covar_module.outputscale)}
        with torch.no_grad():
            normal = model.posterior(self.points[self.pairs[-1]]).mvn
            mean, covariance = normal.mean, normal.covariance_matrix
            variance = float(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1])
            s_exp = decisiveness(float(mean[0] - mean[1]), max(variance, LEAST_VARIANCE))
            self.s_bar = (1.0 - EMA_RATE) * self.s_bar + EMA_RATE * s_exp
            is_open = self.method == "static" or (self.method == "adaptive" and self.s_bar >= THRESHOLD)
            if is_open and self.step >= FIRST_STEP:
                trace |= self._correct(model)
        self.traces.append({"s_bar": self.s_bar} | trace)

    def _correct(self, model):
        """The MAP of J₀ + ½ fᵀRf by the library's solver, from the plain MAP; the covariance stays that of J₀ there."""
        hessian = model._hess_likelihood_f_sum(model.utility, model.D, model.DT) + model.covar_inv
        a = model.covar_inv.diagonal().numpy()
        eta, before, after = calibrate(hessian.numpy(), a)
        if eta is None:
            self.counts["no calibration"] += 1
            return {"condition_before": before}
        r = weights(eta, a)
        rest = (self.points, model.D, model.DT, model.covar_chol, model.covar_inv, True)
        plain = model.utility.detach().numpy()
        failed = self.counts["fsolve not converged"]
        found = self.botorch.fsolve(
            x0=plain,
            func=lambda f: model._grad_posterior_f(f, *rest) + r * f,
            fprime=lambda f: model._hess_posterior_f(f, *rest) + np.diag(r),
            **SOLVER,
        )
        self.counts["corrections"] += 1
        self.counts["corrected MAP not converged"] += self.counts["fsolve not converged"] - failed
        model.utility = torch.tensor(found)
        model.likelihood_hess = model._hess_likelihood_f_sum(model.utility, model.D, model.DT)
        model.pred_cov_fac_need_update = True
        differences = [np.asarray(model.D) @ part for part in (plain, found)]
        shift = np.linalg.norm(differences[1] - differences[0]) / np.linalg.norm(differences[0])
        return {"strength": eta, "condition_before": before, "condition_after": after, "shift": float(shift)}


class Counting:
    """A block whose warnings are counted by their beginning, with the random numbers of a seed."""

    def __init__(self, counts, purpose, seed):
        self.counts, self.purpose = counts, purpose
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed % 2**63)
        self.catch = warnings.catch_warnings(record=True)

    def __enter__(self):
        self.caught = self.catch.__enter__()
        warnings.simplefilter("always")

    def __exit__(self, *error):
        self.catch.__exit__(*error)
        for one in self.caught:
            self.counts["warning, " + self.purpose + " ".join(str(one.message).split())[:60]] += 1


def answer(message, loop, options):
    """The reply to one message, and the run as it is afterwards."""
    verb = message["do"]
    if verb == "begin":
        return {}, Loop(options.method, options.fallback, message["dimensions"], message["seed"])
    if verb == "tell":
        loop.tell(message["pair"], message["answer"])
        return {}, loop
    if verb == "counts":
        return {"counts": dict(loop.counts), "traces": loop.traces}, loop
    return ({"pair": loop.ask()} if verb == "ask" else {"design": loop.best()}), loop


def main():
    """Answer every line until there are no more."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", choices=METHODS, default="baseline")
    parser.add_argument("--fallback", choices=FALLBACKS, default="last")
    options, loop = parser.parse_args(), None
    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            reply, loop = answer(json.loads(line), loop, options)
        except Exception as error:  # told to the one who counts failures
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
