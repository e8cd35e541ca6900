"""Paths of version 0.2.0: what users wrote, and what their pickles and Ax's files name, is found where it is now."""

import ast
import importlib
import json
import pickle
import sys
from pathlib import Path

import pytest
import torch
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json

import kappasharp as ks
from kappasharp._moved import IMPORTED, PICKLED

HERE, ROOT = Path(__file__).parent, Path(ks.__file__).parent
# Every class that pickles of version 0.2.0 name, of drop-ins fitted with and without a correction, samplers and states.
CLASSES = {
    "ax_surrogate": ("KappaSharpSurrogate",),
    "core.choices": ("Correction", "Gate", "Placement", "Rule", "Weights"),
    "core.comparisons": ("Detail", "Incidence"),
    "core.correction": ("Calibration",),
    "core.evidence": ("Model",),
    "core.hyperparameters": ("Hyperfit",),
    "core.kernel": ("Gamma", "Priors"),
    "core.laplace": ("Conditioned", "DualFit", "MapFit"),
    "core.likelihood": ("Probit",),
    "core.posterior": ("Posterior",),
    "drop_in.checks": ("Choices", "ExactProbitLikelihood", "Link"),
    "drop_in.fitting": ("KappaSharpMarginalLogLikelihood",),
    "drop_in.model": ("KappaSharpGP",),
    "drop_in.state": ("Cache", "Held", "Key", "Prior"),
    "methods.correcting": ("Corrected",),
    "methods.fitting": ("Fit", "Inferred"),
    "methods.loop": ("Info",),
    "methods.method": ("Acquisition", "Inference", "Kind", "Method", "Preset", "Query"),
    "methods.state": ("Question", "State"),
    "methods.surrogate": ("Surrogate",),
    "optuna_sampler": ("KappaSharpSampler",),
}


@pytest.fixture
def forgotten(monkeypatch):
    """Nothing was imported by an old name yet."""
    for name in (*IMPORTED, *PICKLED):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("old", IMPORTED)
def test_what_users_wrote_is_the_same_module_and_warns(forgotten, old):
    statement = f"import {old}\nfrom {old} import {', '.join(stub(old)[1])}\nfound = {old}"
    with pytest.warns(FutureWarning, match=f"`{old}` is `{IMPORTED[old]}` now") as warned:
        exec(compile(statement, "theirs.py", "exec"), own := {})
    assert own["found"] is importlib.import_module(IMPORTED[old])
    # Once, and of their line.
    ours = [one for one in warned if issubclass(one.category, FutureWarning)]
    assert [(one.filename, one.lineno) for one in ours] == [("theirs.py", 1)]


def stub(old):
    """Where type checkers are sent, and for which names."""
    text = (ROOT / f"{old.rpartition('.')[2]}.pyi").read_text("utf-8")
    found = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.ImportFrom)]
    return {one.module for one in found}, [name.name for one in found for name in one.names]


@pytest.mark.parametrize("old", IMPORTED)
def test_type_checkers_read_of_all_that_is_public_there(old):
    where, names = stub(old)
    public = vars(importlib.import_module(IMPORTED[old]))
    documented = public.get("__all__") or [
        name for name, one in public.items()
        if getattr(one, "__module__", None) == IMPORTED[old] and callable(one) and not name.startswith("_")
    ]  # fmt: skip
    assert where == {IMPORTED[old]} and sorted(names) == sorted(documented)


def test_every_class_that_a_pickle_names_is_found_and_the_warning_says_what_to_do(forgotten):
    for old, names in CLASSES.items():
        with pytest.warns(FutureWarning, match=r"write it again|import it from there"):
            found = [pickle.loads(f"ckappasharp.{old}\n{name}\n.".encode()) for name in names]
        # A pickle that is written now names another module, and is read without a warning.
        assert [one.__name__ for one in found] == list(names)
        assert [pickle.loads(pickle.dumps(one)) for one in found] == found
    assert {f"kappasharp.{old}" for old in CLASSES} == {*IMPORTED, *PICKLED} - {"kappasharp.botorch_model"}


def test_a_state_that_version_0_2_0_pickled_goes_on(forgotten):
    with pytest.warns(FutureWarning, match="write it again"):
        state = pickle.loads((HERE / "state_0_2_0.pickle").read_bytes())
    # As it was made: two designs, which is better, and an answer to the question after that.
    fresh = ks.init([[0.1], [0.9]], [[0, 1]])
    question, fresh, _ = ks.ask(fresh)
    theirs, ours = ks.ask(state)[0], ks.ask(ks.tell(fresh, question, 0))[0]
    assert torch.allclose(theirs.points, ours.points, atol=1e-6)


def test_a_pickled_model_and_sampler_go_on(forgotten):
    """Written as version 0.2.0 did: the same, under the names of then."""
    from kappasharp.integrations.botorch import KappaSharpGP  # noqa: PLC0415
    from kappasharp.integrations.optuna import KappaSharpSampler  # noqa: PLC0415

    points = torch.linspace(0, 1, 12, dtype=torch.double).reshape(6, 2)
    model = KappaSharpGP(points, torch.tensor([[0, 1], [3, 2], [4, 5]]), method="adaptive")
    mean = model.posterior(points).mean
    with pytest.warns(FutureWarning, match=r"write it again|import it from there"):
        again, sampler = pickle.loads(as_before(model)), pickle.loads(as_before(KappaSharpSampler(seed=3)))
    assert type(again) is KappaSharpGP and torch.equal(again.posterior(points).mean, mean)
    assert type(sampler) is KappaSharpSampler


def as_before(what):
    """A pickle in which modules have their old names."""
    text = pickle.dumps(what, protocol=2)
    for old, names in CLASSES.items():
        for name in names:
            new = getattr(importlib.import_module((IMPORTED | PICKLED)[f"kappasharp.{old}"]), name).__module__
            text = text.replace(f"c{new}\n{name}\n".encode(), f"ckappasharp.{old}\n{name}\n".encode())
    return text


def test_ax_loads_what_it_stored_where_only_the_old_path_is_imported(forgotten):
    with pytest.warns(FutureWarning, match="kappasharp.integrations.ax"):
        from kappasharp.ax_surrogate import KappaSharpSurrogate, surrogate  # noqa: PLC0415
    again = object_from_json(json.loads(json.dumps(object_to_json(surrogate()))))
    assert type(again) is KappaSharpSurrogate and again.surrogate_spec == surrogate().surrogate_spec


def test_other_names_are_not_found(forgotten):
    for name in ("kappasharp.drop_in.nothing", "kappasharp.core.nothing", "kappasharp.nothing"):
        with pytest.raises(ModuleNotFoundError) as refused:
            importlib.import_module(name)
        assert refused.value.name == name


def test_a_library_that_is_missing_is_named(forgotten, monkeypatch):
    monkeypatch.delitem(sys.modules, "kappasharp.integrations.optuna", raising=False)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.warns(FutureWarning, match="optuna"), pytest.raises(ModuleNotFoundError) as refused:
        importlib.import_module("kappasharp.optuna_sampler")
    assert refused.value.name == "optuna" and "kappasharp.optuna_sampler" not in sys.modules
