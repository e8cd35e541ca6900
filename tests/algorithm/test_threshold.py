"""How wide a tie is: the candidate with the largest evidence, nothing where nothing is to be set."""

from dataclasses import replace

import pytest
import torch

from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.algorithm.fit import THRESHOLDS, fit, with_threshold
from kappasharp.inference import comparison_space
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import model_from
from kappasharp.settings import PRESETS

MODERN = PRESETS["modern"]


def simulated(threshold, seed, n=40, m=160):
    """People who call a felt difference within the threshold a tie; their noise is the model's, 1."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(1, n, 1, generator=generator)
    f = 3.0 * torch.sin(6.0 * X[0, :, 0])
    pairs = torch.stack([torch.randperm(n, generator=generator)[:2] for _ in range(m)])
    felt = f[pairs[:, 0]] - f[pairs[:, 1]] + 2**0.5 * torch.randn(m, generator=generator)
    ties = felt.abs() <= threshold
    ordered = torch.where((felt > 0).unsqueeze(-1), pairs, pairs.flip(-1))
    return Answers(X, ordered.unsqueeze(0), ties.unsqueeze(0) if bool(ties.any()) else None)


def test_without_ties_nothing_is_set():
    answers = simulated(0.0, 0)
    assert answers.ties is None and with_threshold(MODERN, answers, None) is MODERN


def test_a_threshold_of_ones_own_stays():
    own = replace(MODERN, threshold=0.33)
    assert with_threshold(own, simulated(0.7, 0), None) is own


@pytest.mark.parametrize("truth", [0.2, 0.7, 1.5])
def test_the_truth_is_found_within_a_step(truth):
    answers = simulated(truth, 1)
    theta = fit(model_from(replace(MODERN, threshold=truth)), answers).hyper.theta
    found = with_threshold(MODERN, answers, theta).threshold
    assert abs(THRESHOLDS.index(found) - THRESHOLDS.index(truth)) <= 1


def test_no_other_candidate_is_more_probable():
    answers = simulated(0.4, 2)
    theta = fit(model_from(replace(MODERN, threshold=0.4)), answers).hyper.theta
    data = comparison_space.gather(*answers)
    start = torch.zeros(answers.pairs.shape[:-1])

    def value(threshold):
        return float(data.evaluate(model_from(replace(MODERN, threshold=threshold)), theta, start).value)

    chosen = with_threshold(MODERN, answers, theta).threshold
    assert value(chosen) == max(value(one) for one in THRESHOLDS)


def test_widths_tried_together_are_those_tried_one_by_one(monkeypatch):
    """Few answers go through one batch, many one after another: the same width either way."""
    X = torch.rand(2, 12, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    pairs, ties = torch.arange(12).reshape(1, 6, 2).expand(2, -1, -1), torch.tensor([[False, True] * 3] * 2)
    tried = [(model_from(replace(MODERN, threshold=one)), Answers(X, pairs, ties)) for one in (0.1, 0.4, 1.5)]
    together = algorithm_fit._evidence(tried, None)
    monkeypatch.setattr(algorithm_fit, "TOGETHER", 0)
    torch.testing.assert_close(together, algorithm_fit._evidence(tried, None), rtol=0.0, atol=1e-10)
