"""For Ax: `surrogate_spec()` makes KappaSharpGP the model of a preference experiment.

`bope_surrogate_spec()` does so where outcomes are measured and preferred among, BOPE in Ax's words.

Importing this module tells Ax how to fit the model and how to store an experiment that uses it.
"""

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, get_type_hints

from ax.generators.torch.botorch_modular.surrogate import Surrogate, SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from ax.storage.botorch_modular_registry import register_mll, register_model
from ax.storage.json_store.encoders import surrogate_to_dict
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.utils.common.constants import Keys
from botorch.models.gpytorch import GPyTorchModel
from botorch.models.transforms.outcome import Standardize

from kappasharp.integrations.botorch import KappaSharpGP, KappaSharpMarginalLogLikelihood, checks
from kappasharp.settings import Method, Preset

register_model(KappaSharpGP)
register_mll(KappaSharpMarginalLogLikelihood)

# With a configuration for a metric Ax makes a list even of a single model. That list's posterior is one Gaussian, as
# Ax's sensitivities need it, where every model is a GPyTorchModel: one with a likelihood and a Gaussian posterior.
GPyTorchModel.register(KappaSharpGP)

# Ax stores classes under their bare names, of which "Method" or "Acquisition" could be anybody's.
STORED = {Method: "KappaSharpMethod", Preset: "KappaSharpPreset"}


def _to_json(value: Any) -> Any:
    """A Method or a Preset as names and numbers."""
    if isinstance(value, Enum):
        return value.name
    if not is_dataclass(value):
        return value
    return {part.name: _to_json(getattr(value, part.name)) for part in fields(value)}


def _from_json(kind: Any, value: Any) -> Any:
    """What `_to_json` wrote, as this kind."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[value]
    if not is_dataclass(kind):
        return value
    hints = get_type_hints(kind, localns={"Tensor": object})
    return kind(**{name: _from_json(hints[name], part) for name, part in value.items()})  # type: ignore[operator]


def _store(kind: Any, name: str) -> None:
    CORE_ENCODER_REGISTRY[kind] = lambda value: {"__type": name, "value": _to_json(value)}
    CORE_DECODER_REGISTRY[name] = lambda value: _from_json(kind, value)


for _kind, _name in STORED.items():
    _store(_kind, _name)


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
        method: as in KappaSharpGP, a name or a Method; Ax's JSON storage takes both.
        preset: as in KappaSharpGP, but by default "modern", as in our own loop.
        nugget: as in KappaSharpGP.
    """
    options: dict[str, Any] = {"method": method, "preset": preset} | ({} if nugget is None else {"nugget": nugget})
    # Refuses what it must refuse now, not after the first trials.
    checks.choices(method, preset, nugget, checks.likelihood(None), {})
    config = ModelConfig(
        botorch_model_class=KappaSharpGP,
        model_options=options,
        mll_class=KappaSharpMarginalLogLikelihood,
        name="KappaSharpGP",
    )
    # For rankings Ax passes over `model_configs`, without a word, and reads the metric's own.
    return SurrogateSpec(metric_to_model_configs={Keys.PAIRWISE_PREFERENCE_QUERY.value: [config]})


def bope_surrogate_spec(
    *, method: str | Method = "baseline", preset: str | Preset = "modern", nugget: float | None = None
) -> SurrogateSpec:
    """For an experiment with a `PreferenceOptimizationConfig`: KappaSharpGP models what is liked about the outcomes.

    The outcomes themselves are modelled by Ax's own choice, standardised: Ax's transforms may not do that here, and
    without it a Gaussian process of an outcome in the hundreds learns nothing. The arguments are `surrogate_spec`'s.
    """
    outcomes = ModelConfig(outcome_transform_classes=[Standardize], name="outcomes")
    return replace(surrogate_spec(method=method, preset=preset, nugget=nugget), model_configs=[outcomes])


class KappaSharpSurrogate(Surrogate):
    """Ax's surrogate with the model itself where it would be a list of one, for what reads the model's own names.

    The analytic EUBO does: it looks for `datapoints`.
    """

    def fit(self, *args: Any, **kwargs: Any) -> None:
        """Ax's fit, and the one model out of its list."""
        super().fit(*args, **kwargs)
        listed: Any = getattr(self._model, "models", ())
        if len(listed) == 1:
            self._model = listed[0]


CORE_ENCODER_REGISTRY[KappaSharpSurrogate] = surrogate_to_dict
CORE_DECODER_REGISTRY[KappaSharpSurrogate.__name__] = KappaSharpSurrogate


def surrogate(
    *, method: str | Method = "baseline", preset: str | Preset = "modern", nugget: float | None = None
) -> KappaSharpSurrogate:
    """For `BoTorchGenerator(surrogate=surrogate(...))`; the arguments are those of `surrogate_spec`."""
    return KappaSharpSurrogate(surrogate_spec=surrogate_spec(method=method, preset=preset, nugget=nugget))
