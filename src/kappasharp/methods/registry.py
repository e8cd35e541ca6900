"""The methods and presets by name. The first table is the paper's list of methods and ablations: a method is a row."""

from dataclasses import replace

from kappasharp.core.choices import Correction, Gate, Placement, Rule, Weights
from kappasharp.errors import named
from kappasharp.methods.method import Acquisition, Inference, Kind, Method, Preset, Query

KAPPASHARP = Correction(Weights.PRIOR_WEIGHTED, Placement.MAP, target_exponent=0.1)
ALWAYS = Gate(Rule.ALWAYS)

METHODS: dict[str, Method] = {
    "baseline": Method(),
    "static": Method(correction=KAPPASHARP, gate=ALWAYS),
    "fixed20": Method(correction=KAPPASHARP, gate=Gate(Rule.ALWAYS, first_step=20)),
    "adaptive": Method(correction=KAPPASHARP, gate=Gate(Rule.DECISIVE)),
    "connected": Method(query=Query.ANCHORED),
    "jitter": Method(correction=replace(KAPPASHARP, weights=Weights.TRACE_MATCHED), gate=ALWAYS),
    "diagonal": Method(correction=replace(KAPPASHARP, weights=Weights.UNIFORM), gate=ALWAYS),
    "metric_only": Method(correction=replace(KAPPASHARP, placement=Placement.NEWTON_STEP), gate=ALWAYS),
    "cov_only": Method(correction=replace(KAPPASHARP, placement=Placement.COVARIANCE), gate=ALWAYS),
    "full_augmentation": Method(correction=replace(KAPPASHARP, placement=Placement.BOTH), gate=ALWAYS),
    "spectral": Method(correction=replace(KAPPASHARP, weights=Weights.SPECTRAL), gate=ALWAYS),
    "aligned": Method(correction=replace(KAPPASHARP, weights=Weights.ALIGNED), gate=ALWAYS),
    "auto": Method(correction=replace(KAPPASHARP, weights=Weights.SPECTRAL), gate=Gate(Rule.VALIDATED)),
    "incumbent": Method(query=Query.INCUMBENT),
    "bridging": Method(query=Query.BRIDGING),
    "best_of_3": Method(designs=3),
    "best_of_4": Method(designs=4),
    "choice_3": Method(designs=3, kind=Kind.CHOICE),
    "choice_4": Method(designs=4, kind=Kind.CHOICE),
    "order_3": Method(designs=3, kind=Kind.ORDER),
    "order_4": Method(designs=4, kind=Kind.ORDER),
    "slider": Method(kind=Kind.SLIDER),
    "slider_4": Method(kind=Kind.SLIDER, designs=4),
    "rating": Method(kind=Kind.RATING),
    "timed": Method(use_seconds=True),
    "people": Method(tell_apart=True),
    "outcomes": Method(use_outcomes=True),
    "ep": Method(Inference.EP),
    "ep_ei": Method(Inference.EP, acquisition=Acquisition.EXPECTED_IMPROVEMENT),
    "gibbs_ei": Method(Inference.GIBBS, acquisition=Acquisition.EXPECTED_IMPROVEMENT),
}

PRESETS: dict[str, Preset] = {
    # The paper's protocol: BoTorch 0.6.0's priors, EUBO from 4 starts out of 32 raw pairs.
    "paper": Preset(priors="botorch_0_6", nugget=1e-4, maximizer="paper"),
    # The default: BoTorch 0.18's length scales, but an output scale that cannot fall to where every answer is a coin
    # that was tossed (docs/results/from-zero.md); our own search for EUBO; and curvature that does not vanish where an
    # answer was expected (Departure 10).
    "modern": Preset(priors="outputscale_near_30", nugget=1e-6, maximizer="default", curvature="averaged"),
    # What `modern` was until 0.2: all of BoTorch 0.18's priors.
    "modern_0_2": Preset(priors="botorch_0_18", nugget=1e-6, maximizer="default", curvature="averaged"),
    # Questions around the best design seen: for many dimensions and few first answers (docs/results/what-wins.md).
    "local": Preset(priors="botorch_0_18", nugget=1e-6, maximizer="default", curvature="averaged", reach=0.1),
    "dimension_scaled": Preset(priors="dimension_scaled", nugget=1e-6, maximizer="default", curvature="averaged"),
}


def find_method(name: str | Method) -> Method:
    """The method of that name; a Method is checked and passed through."""
    if not isinstance(name, Method):
        return named("method", name, METHODS)
    from kappasharp.methods import checks  # noqa: PLC0415 - it knows what computes, and needs torch

    return checks.method(name)


def find_preset(name: str | Preset) -> Preset:
    """The preset of that name; a Preset is checked and passed through."""
    if not isinstance(name, Preset):
        return named("preset", name, PRESETS)
    from kappasharp.methods import checks  # noqa: PLC0415

    return checks.preset(name)
