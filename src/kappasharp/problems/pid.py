"""PID-3D: the three gains of a controller, judged by an engineer who reads four numbers off its step response."""

import torch
from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance, Visible

# Gains as exponents of ten: about the ranges of the page's example.
GAINS = (("proportional", -0.25, 1.125), ("integral", -1.0, 0.625), ("derivative", -1.0, 0.75))
OUTCOMES = ("overshoot", "rise time [s]", "settling time [s]", "largest force")
# What the engineer can live with, and how much each outcome counts.
BEARABLE, WEIGHTS = (0.1, 1.0, 3.0, 3.0), (0.8, 0.5, 0.7, 0.4)


def measure(X: Tensor) -> Tensor:
    """Overshoot, rise time, settling time and largest force (n, 4), all to be small."""
    # NumPy is the simulation's; the problem itself is known without it.
    from kappasharp.problems import step_response  # noqa: PLC0415

    gains = 10.0 ** X.detach().to("cpu", torch.float64)
    return torch.from_numpy(step_response.measures(gains.numpy())).to(X)


def worth(Y: Tensor) -> Tensor:
    """The logarithm of a product of four satisfactions, each half where its outcome is just bearable."""
    ratios = Y / Y.new_tensor(BEARABLE)
    return -(ratios.square().log1p() * Y.new_tensor(WEIGHTS)).sum(-1)


VISIBLE = Visible(OUTCOMES, measure, worth)
PID_3D = Problem(
    name="pid-3d",
    low=tuple(low for _, low, _ in GAINS),
    high=tuple(high for _, _, high in GAINS),
    evaluate=VISIBLE.utility,
    visible=VISIBLE,
    maximum=Maximum(
        -0.8396222144721533,
        (0.6929286465101705, 0.021891844731737362, 0.4377329443198026),
        proven=False,
        source="differential evolution three times, with the same end, and a shrinking random walk",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula=(
        "overshoot, rise time, settling time and largest force of a step response, by what is bearable (0.1, 1 s, "
        "3 s, 3): ratios r; −Σₖ wₖ ln(1 + rₖ²), w = (0.8, 0.5, 0.7, 0.4)"
    ),
    origin="the example of the page; the engineer's utility was chosen here",
    parameters=tuple(f"log10 {name} gain" for name, _, _ in GAINS),
    is_simulated=True,
)
