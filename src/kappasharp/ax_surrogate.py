"""The door to Ax: `surrogate_spec()` makes KappaSharpGP the model of a preference experiment.

Importing this module tells Ax how to fit the model and how to store an experiment that uses it.
"""

from typing import Any

from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from ax.storage.botorch_modular_registry import register_mll, register_model
from ax.utils.common.constants import Keys

from kappasharp.drop_in.fitting import KappaSharpMarginalLogLikelihood
from kappasharp.drop_in.model import KappaSharpGP
from kappasharp.methods.method import Method, Preset

register_model(KappaSharpGP)
register_mll(KappaSharpMarginalLogLikelihood)


@fit_botorch_model.register(KappaSharpGP)  # type: ignore[untyped-decorator]
def _fit(model: KappaSharpGP, mll_class: Any, mll_options: Any = None) -> None:
    """Our own search; it maximises what the marginal likelihood of the configuration would."""
    del mll_class, mll_options
    model.fit()


def surrogate_spec(
    *, method: str | Method = "baseline", preset: str | Preset = "modern", nugget: float | None = None
) -> SurrogateSpec:
    """A specification for Ax's BoTorchGenerator. Ax scales the parameters to the unit cube itself.

    Args:
        method: as in KappaSharpGP. What Ax stores as JSON needs a name here, and for the preset.
        preset: as in KappaSharpGP, but by default "modern", as in our own loop.
        nugget: as in KappaSharpGP.
    """
    options: dict[str, Any] = {"method": method, "preset": preset} | ({} if nugget is None else {"nugget": nugget})
    config = ModelConfig(
        botorch_model_class=KappaSharpGP,
        model_options=options,
        mll_class=KappaSharpMarginalLogLikelihood,
        name="KappaSharpGP",
    )
    # For rankings Ax passes over `model_configs`, without a word, and reads the metric's own.
    return SurrogateSpec(metric_to_model_configs={Keys.PAIRWISE_PREFERENCE_QUERY.value: [config]})
