"""How wide a tie is: the threshold under which the answers, wins and ties, are most probable."""

from dataclasses import replace

import torch
from torch import Tensor

from kappasharp.core import evidence
from kappasharp.methods.fitting import Answers
from kappasharp.methods.method import Preset

# In units of the model's noise. Without ties the evidence falls with the threshold, and 0 is exact.
CANDIDATES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5)


@torch.inference_mode()
def with_threshold(preset: Preset, answers: Answers, theta: Tensor | None) -> Preset:
    """The preset with the most probable threshold at hyperparameters theta, by default the prior's mode.

    A preset with a threshold of its own keeps it; without ties there is nothing to set.
    """
    if preset.threshold > 0.0 or answers.ties is None:
        return preset
    X = answers.X
    theta = preset.model.priors.start(X.shape[-1]).to(X).expand(len(X), -1) if theta is None else theta
    data = evidence.gather(X, answers.pairs, answers.ties)
    start = X.new_zeros(answers.pairs.shape[:-1])
    presets = [replace(preset, threshold=value) for value in CANDIDATES]
    found = [evidence.evaluate(one.model, data, theta, start).value.sum() for one in presets]
    return presets[int(torch.stack(found).argmax())]
