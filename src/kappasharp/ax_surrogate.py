"""The door to Ax: `surrogate_spec()` makes KappaSharpGP the model of a preference experiment.

Importing this module tells Ax how to fit the model and how to store an experiment that uses it.
"""

from typing import Any

from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from ax.storage.botorch_modular_registry import register_mll, register_model
from ax.utils.common.constants import Keys

from kappasharp.drop_in.evidence import KappaSharpMarginalLogLikelihood
from kappasharp.drop_in.model import KappaSharpGP

register_model(KappaSharpGP)
register_mll(KappaSharpMarginalLogLikelihood)


@fit_botorch_model.register(KappaSharpGP)  # type: ignore[untyped-decorator]
def _fit(model: KappaSharpGP, mll_class: Any, mll_options: Any = None) -> None:
    """Our own search; it maximises what the marginal likelihood of the configuration would."""
    del mll_class, mll_options
    model.fit()


def surrogate_spec(**options: Any) -> SurrogateSpec:
    """A specification for Ax's BoTorchGenerator; `options` are KappaSharpGP's own, such as method and preset.

    The preset is "modern" unless they say otherwise, as in our own loop. Ax scales the parameters to the unit cube
    itself.
    """
    config = ModelConfig(
        botorch_model_class=KappaSharpGP,
        model_options={"preset": "modern"} | options,
        mll_class=KappaSharpMarginalLogLikelihood,
        name="KappaSharpGP",
    )
    # For rankings Ax passes over `model_configs`, without a word, and reads the metric's own.
    return SurrogateSpec(metric_to_model_configs={Keys.PAIRWISE_PREFERENCE_QUERY.value: [config]})
