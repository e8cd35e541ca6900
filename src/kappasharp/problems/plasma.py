"""Plasma-16D: the sixteen numbers of a predictive controller that gives one patient a thermal dose with a plasma jet.

A reconstruction, not the paper's own simulator, which is not public: the plant, its disturbances, the dose and the
limits are those identified and published by the authors' laboratory (Chan, Makrygiorgos and Mesbah, ACC 2023,
doi 10.23919/ACC55779.2023.10156650); controller, parameters and utility were chosen here.

The plant has two states, surface temperature and optical intensity, and two inputs, power and gas flow. Every half
second a quadratic program plans the next `HORIZON` inputs; the first is applied. The treatment ends when the dose is
reached, or after two minutes.
"""

import warnings
from collections.abc import Sequence
from typing import TypeVar

from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance, Visible
from kappasharp.problems.worker_pool import each

# Name, low, high. Weights, and the penalty, are exponents of ten.
PARAMETERS = (
    ("log10 weight of temperature", -2.0, 2.0),
    ("log10 weight of intensity", -3.0, 1.0),
    ("log10 weight of power", -3.0, 1.0),
    ("log10 weight of flow", -3.0, 1.0),
    ("log10 weight of power's change", -2.0, 2.0),
    ("log10 weight of flow's change", -2.0, 2.0),
    ("log10 terminal weight of temperature", -2.0, 2.0),
    ("log10 terminal weight of intensity", -1.0, 3.0),
    ("temperature reference at 0 s [°C]", 38.0, 46.0),
    ("temperature reference at 15 s [°C]", 38.0, 46.0),
    ("temperature reference at 30 s [°C]", 38.0, 46.0),
    ("temperature reference from 60 s on [°C]", 38.0, 46.0),
    ("back-off from the temperature limit [°C]", 0.0, 3.0),
    ("back-off from the highest power [W]", 0.0, 2.0),
    ("log10 penalty of the soft temperature limit", -1.0, 3.0),
    ("dose-to-go gain [°C]", -2.0, 4.0),
)

# The utility's weights: violation against dose tracking (the first as in the reconstruction's source), then what a
# minute of treatment and a unit of squared input change cost; SCALE brings a hand-tuned controller to about −90.
VIOLATION, MINUTE, CHATTER, SCALE = 5.0, 20.0, 0.5, 0.71

# What an engineer would try first: temperature counts most, calm inputs, a reference a degree below the limit.
HAND_TUNED = (0.0, -3.0, -1.0, -1.0, 1.0, 1.0, 0.0, -1.0, 43.5, 43.5, 43.5, 43.5, 0.5, 0.5, 1.5, 1.0)
# The best controller that a long search found: `make searches`.
SEARCH = "differential evolution, 800 generations of 128, and a shrinking random walk"
BEST_KNOWN = (
    -0.3547689274186396, -2.857436910924271, -1.1864864245861442, -1.8153481249120023, 0.932106233264787,
    0.8864186286731845, -1.8480876225940568, 1.9910965266884508, 45.9954733097133, 44.580122965095235,
    44.167671228236756, 45.99211621716333, 0.797085080219652, 0.0, 1.3158354834663961,
    1.5262611813602447,
)  # fmt: skip


COSTS = ("missing dose, squared", "heat above the limit, squared", "minutes", "chatter")
Cost = TypeVar("Cost", float, Tensor)


def weighed(dose_tracking: Cost, violation: Cost, minutes: Cost, chatter: Cost) -> Cost:
    """The utility of a treatment's four costs: minus their weighted sum."""
    return -SCALE * (dose_tracking + VIOLATION * violation + MINUTE * minutes + CHATTER * chatter)


def utility(parameters: Sequence[float]) -> float:
    """The utility of one controller."""
    return weighed(*costs(parameters))


def costs(parameters: Sequence[float]) -> tuple[float, float, float, float]:
    """What the treatment by one controller costs; a warning tells where its solver failed on the way."""
    # NumPy is the simulation's; the problem itself is known without it.
    from kappasharp.problems.plasma_jet import score, treat  # noqa: PLC0415

    treatment = treat(parameters)
    if treatment.failed_solves:
        warnings.warn(
            f"plasma-16d: the quadratic program of {treatment.failed_solves} of {len(treatment.power)} steps was not "
            f"solved and the input before was held, for the parameters {list(parameters)}.",
            RuntimeWarning,
            stacklevel=2,
        )
    return score(treatment)


VISIBLE = Visible(
    COSTS, lambda X: each(costs, X).reshape(-1, len(COSTS)), lambda Y: weighed(*Y.reshape(-1, len(COSTS)).unbind(-1))
)

PLASMA_16D = Problem(
    name="plasma-16d",
    low=tuple(low for _, low, _ in PARAMETERS),
    high=tuple(high for _, _, high in PARAMETERS),
    evaluate=VISIBLE.utility,
    visible=VISIBLE,
    maximum=Maximum(-83.04514421833694, BEST_KNOWN, proven=False, source=SEARCH),
    provenance=Provenance.RECONSTRUCTED,
    formula=(
        f"{SCALE} × −(Σ (dose − 1.5)² + {VIOLATION:g} Σ (T − 44.5 °C)₊² + {MINUTE:g} minutes + {CHATTER:g} Σ |Δu|²) "
        "over one simulated treatment under a linear predictive controller of these sixteen numbers"
    ),
    origin=(
        "plant, disturbances, dose and limits: Chan, Makrygiorgos and Mesbah (2023); controller, parameters "
        "and utility were chosen here, because the paper's own are not public"
    ),
    parameters=tuple(name for name, _, _ in PARAMETERS),
    version=2,
    is_simulated=True,
)
