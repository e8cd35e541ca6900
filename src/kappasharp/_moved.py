"""Modules that moved, under their names of version 0.2.0: until version 0.5 imports and pickles find them, and warn."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

# What users wrote. Beside this file lies what type checkers read of each.
IMPORTED = {
    "kappasharp.ax_surrogate": "kappasharp.integrations.ax",
    "kappasharp.botorch_model": "kappasharp.integrations.botorch",
    "kappasharp.optuna_sampler": "kappasharp.integrations.optuna",
}
# What pickles of those modules' objects name, and of the states of `ks.ask` and `ks.tell`.
PICKLED = {
    "kappasharp.core.choices": "kappasharp.settings",
    "kappasharp.core.comparisons": "kappasharp.inference.comparisons",
    "kappasharp.core.correction": "kappasharp.correction.strength",
    "kappasharp.core.evidence": "kappasharp.inference.evidence",
    "kappasharp.core.hyperparameters": "kappasharp.inference.hyperparameters",
    "kappasharp.core.kernel": "kappasharp.kernels.priors",
    "kappasharp.core.laplace": "kappasharp.inference.laplace",
    "kappasharp.core.likelihood": "kappasharp.inference.likelihood",
    "kappasharp.core.posterior": "kappasharp.inference.posterior",
    "kappasharp.drop_in.checks": "kappasharp.integrations.botorch.checks",
    "kappasharp.drop_in.fitting": "kappasharp.integrations.botorch.fit",
    "kappasharp.drop_in.model": "kappasharp.integrations.botorch.model",
    "kappasharp.drop_in.state": "kappasharp.integrations.botorch.state",
    "kappasharp.methods.correcting": "kappasharp.algorithm.correction",
    "kappasharp.methods.fitting": "kappasharp.algorithm.fit",
    "kappasharp.methods.loop": "kappasharp.algorithm.loop",
    "kappasharp.methods.method": "kappasharp.settings",
    "kappasharp.methods.state": "kappasharp.algorithm.state",
    "kappasharp.methods.surrogate": "kappasharp.algorithm.surrogate",
}
PACKAGES = {name.rpartition(".")[0] for name in PICKLED}


class OldNames:
    """Finds the modules that moved, after all other finders; the old name is then one more name of the same module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """How to load the module of an old name; None for every other name."""
        if fullname not in IMPORTED and fullname not in PICKLED and fullname not in PACKAGES:
            return None
        # It is a loader by what it does: the class of that name costs four times what else this package's import costs.
        return ModuleSpec(fullname, self, is_package=fullname in PACKAGES)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """None: Python makes an empty module, for which `exec_module` puts the one that is meant."""

    def exec_module(self, module: ModuleType) -> None:
        """The module of today in the place of the one of an old name."""
        old = module.__name__
        if old in PACKAGES:
            return
        new = IMPORTED.get(old) or PICKLED[old]
        # Said of the line that imports or unpickles: Python leaves out its own frames between.
        warnings.warn(
            f"`{old}` is `{new}` now: import it from there; the old name ends with version 0.5."
            if old in IMPORTED
            else "A pickle of kappasharp 0.2.0 or older names modules that have moved: write it again with this "
            "version, because version 0.5 will not read it.",
            FutureWarning,
            stacklevel=2,
        )
        sys.modules[old] = import_module(new)
