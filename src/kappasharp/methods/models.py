"""A preset's numbers as the model that the equations take."""

from kappasharp.core.evidence import Model
from kappasharp.core.kernel import PRIORS
from kappasharp.core.likelihood import Probit
from kappasharp.methods.method import Preset


def model_from(preset: Preset) -> Model:
    """The model that a preset stands for: kernel, nugget, likelihood, priors and the posterior's curvature."""
    probit = Probit(preset.noise, preset.threshold)
    priors = PRIORS[preset.priors].in_units_of(preset.noise)
    return Model(preset.kernel, preset.nugget, probit, priors, preset.curvature)
