"""Experiments as TOML: the declared grids, where a variant's numbers land, and a sentence for everything wrong."""

import re
from pathlib import Path

import pytest

from kappasharp.errors import InvalidValueError, KappaSharpError, UnknownNameError
from kappasharp.lab import grid
from kappasharp.lab.experiment import parse, read
from kappasharp.problems.initial_designs import INITIALIZATIONS
from kappasharp.problems.registry import DEVELOPMENT, PROBLEMS
from kappasharp.settings import METHODS, PRESETS, Rule, Weights
from tests.lab.tiny import TABLE, TOML

FOLDER = Path(__file__).parents[2] / "experiments"
N_RUNS = {
    "main": 11 * 5 * 5 * 60,
    "primary": 11 * 5 * 60,
    "primary_modern": 11 * 5 * 60,
    "ablation": 8 * 8 * 60,
    "non_laplace": 4 * 3 * 60,
    "tau": 4 * 4 * 60,
    "target_exponent": 4 * 4 * 60,
    "first_step": 5 * 30,
    "nugget": 4 * 3 * 4 * 60,
    "wallclock": 8 * 3 * 5,
    "smoke": 2 * 2 * 4 * 4,
    "development": 18 * 30,
}


def test_the_folder_holds_these_experiments_and_no_python():
    assert {path.stem for path in FOLDER.glob("*.toml")} >= set(N_RUNS)
    assert [path.name for path in FOLDER.rglob("*.py*")] == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_declared_experiment_makes_a_grid(path):
    experiment = read(path)
    cells = grid.cells(experiment)
    assert experiment.name == path.stem and experiment.title
    assert len(cells) == experiment.n_runs == N_RUNS.get(path.stem, experiment.n_runs)
    assert len({cell.key for cell in cells}) == len(cells)


def test_the_primary_table_is_part_of_the_main_grid():
    main, primary = ({cell.key for cell in grid.cells(read(FOLDER / f"{name}.toml"))} for name in ("main", "primary"))
    assert (len(main), len(primary)) == (16500, 3300) and primary < main


def test_a_variant_that_is_a_registered_method_is_found_in_other_experiments():
    tau, primary = ({cell.key: cell for cell in grid.cells(read(FOLDER / f"{name}.toml"))} for name in ("tau", "main"))
    shared = {tau[key].method: primary[key].method for key in set(tau) & set(primary)}
    assert shared == {"baseline": "baseline", "adaptive_tau_0_30": "adaptive"}


def test_all_means_the_papers():
    experiment = parse("x", TABLE | {"problems": "all", "initializations": "all"})
    assert experiment.problems == tuple(PROBLEMS) and experiment.initializations == tuple(INITIALIZATIONS)


def test_development_means_the_problems_that_the_paper_does_not_have():
    assert parse("x", TABLE | {"problems": "development"}).problems == tuple(DEVELOPMENT)
    assert parse("x", TABLE | {"problems": ["shekel-4d", "levy-10d"]}).problems == ("shekel-4d", "levy-10d")
    with pytest.raises(InvalidValueError, match="`problems` must be a list of names, but got 'developmnt'"):
        parse("x", TABLE | {"problems": "developmnt"})
    with pytest.raises(InvalidValueError, match="`initializations` must be a list of names, but got 'development'"):
        parse("x", TABLE | {"initializations": "development"})


def test_the_development_experiment_shares_no_start_with_the_papers():
    development, main = (read(FOLDER / f"{name}.toml") for name in ("development", "main"))
    assert not set(development.problems) & set(main.problems)
    assert not set(development.seeds) & set(main.seeds)
    assert (len(development.seeds), development.queries, development.person) == (30, 50, "paper")


def test_what_is_left_out_is_the_papers_protocol():
    experiment = parse("x", {key: TABLE[key] for key in ("problems", "initializations", "methods", "presets")})
    assert (experiment.seeds, experiment.queries) == (tuple(range(60)), 50)
    assert (experiment.person, experiment.block_size) == ("paper", 60)
    assert experiment.who.noise == 0.1


def test_seeds_are_a_number_or_a_list():
    assert parse("x", TABLE | {"seeds": 3}).seeds == (0, 1, 2)
    assert parse("x", TABLE | {"seeds": [1000, 7]}).seeds == (1000, 7)


def variant(**changes):
    return parse("x", TABLE | {"methods": [], "variants": {"v": changes}}).methods["v"]


def preset(**changes):
    return parse("x", TABLE | {"presets": [], "preset_variants": {"v": changes}}).presets["v"]


def test_a_variants_values_land_where_they_belong():
    adaptive, static = METHODS["adaptive"], METHODS["static"]
    found = variant(method="adaptive", gate={"threshold": 0.25})
    assert found.gate.threshold == 0.25 and found.gate.rule is Rule.DECISIVE
    assert (found.gate.first_step, found.correction) == (adaptive.gate.first_step, adaptive.correction)
    found = variant(method="static", correction={"target_exponent": 0.05}, gate={"first_step": 5})
    assert (found.correction.target_exponent, found.gate.first_step) == (0.05, 5)
    assert found.correction.weights is static.correction.weights and found.gate.rule is Rule.ALWAYS
    found = variant(method="static", correction={"weights": "uniform"})
    assert found.correction.weights is Weights.UNIFORM
    assert preset(preset="paper", nugget=1e-2).nugget == 1e-2
    assert preset(preset="paper", nugget=1e-2).priors == PRESETS["paper"].priors
    assert preset(preset="modern", cold_fit=False, priors="botorch_0_6").priors == "botorch_0_6"


def test_a_variant_without_changes_is_the_method_itself():
    assert variant(method="adaptive") == METHODS["adaptive"]


def test_whole_numbers_may_stand_for_others():
    """Equal choices have equal keys: 1 is 1.0."""
    assert repr(preset(preset="paper", noise=2)) == repr(preset(preset="paper", noise=2.0))


WRONG_NAMES = [
    ({"problems": ["hartman-6d"]}, "No problem is called 'hartman-6d'. Did you mean 'hartmann-6d'?"),
    ({"initializations": ["pool_n6_k5"]}, "No initialization is called 'pool_n6_k5'. Did you mean 'pool_n6_k15'?"),
    ({"methods": ["adaptve"]}, "No method is called 'adaptve'. Did you mean 'adaptive'?"),
    ({"methods": ["botorch_0_17"]}, "No method is called 'botorch_0_17'. Did you mean 'botorch_0_18'?"),
    ({"presets": ["papper"]}, "No preset is called 'papper'. Did you mean 'paper'?"),
    ({"person": "carless"}, "No simulated person is called 'carless'. Did you mean 'careless'?"),
    ({"problem": ["hartmann-6d"]}, "No key of an experiment is called 'problem'. Did you mean 'problems'?"),
    ({"variants": {"v": {"method": "statc"}}}, "No method is called 'statc'. Did you mean 'static'?"),
    (
        {"variants": {"v": {"method": "static", "gat": {"threshold": 0.2}}}},
        "No value in `variants.v` is called 'gat'. Did you mean 'gate'?",
    ),
    (
        {"variants": {"v": {"method": "static", "gate": {"treshold": 0.2}}}},
        "No value in `variants.v.gate` is called 'treshold'. Did you mean 'threshold'?",
    ),
    (
        {"variants": {"v": {"method": "static", "gate": {"rule": "alway"}}}},
        "No choice for `variants.v.gate.rule` is called 'alway'. Did you mean 'always'?",
    ),
    (
        {"variants": {"v": {"method": "static", "correction": {"weights": "unifrm"}}}},
        "No choice for `variants.v.correction.weights` is called 'unifrm'. Did you mean 'uniform'?",
    ),
    ({"preset_variants": {"v": {"preset": "modrn"}}}, "No preset is called 'modrn'. Did you mean 'modern'?"),
    (
        {"preset_variants": {"v": {"preset": "paper", "nuget": 1e-2}}},
        "No value in `preset_variants.v` is called 'nuget'. Did you mean 'nugget'?",
    ),
    (
        {"preset_variants": {"v": {"preset": "paper", "priors": "botorch_0_60"}}},
        "No priors is called 'botorch_0_60'. Did you mean 'botorch_0_6'?",
    ),
]


@pytest.mark.parametrize(("changes", "words"), WRONG_NAMES)
def test_an_unknown_name_suggests_the_nearest(changes, words):
    with pytest.raises(UnknownNameError, match=re.escape(words)):
        parse("x", TABLE | changes)


WRONG_VALUES = [
    ({"problems": "hartmann-6d"}, "`problems` must be a list of names, but got 'hartmann-6d'"),
    ({"problems": []}, "`problems` must name at least one problem, but got none"),
    ({"initializations": [3]}, "`initializations` must be a list of names, but got [3]"),
    ({"methods": [], "presets": ["paper"]}, "needs `methods`, `variants` or `commands`"),
    ({"presets": []}, "needs `presets`, `preset_variants`, or both"),
    ({"problems": ["levy-10d", "levy-10d"]}, "`problems` must name each cell once, but levy-10d stands there twice"),
    ({"methods": ["static", "static"]}, "`methods` must name each cell once, but static stands there twice"),
    ({"presets": ["paper", "paper"]}, "`presets` must name each cell once, but paper stands there twice"),
    ({"seeds": [3, 4, 3]}, "`seeds` must name each cell once, but 3 stands there twice"),
    ({"variants": {"static": {"method": "static"}}}, "The name 'static' stands for two different things"),
    ({"preset_variants": {"modern": {"preset": "paper"}}}, "The name 'modern' stands for two different things"),
    ({"seeds": 0}, "`seeds` must be a whole number from 1 up, but got 0"),
    ({"seeds": "60"}, "`seeds` must be a number of seeds or a list of whole numbers, but got '60'"),
    ({"seeds": [1.5]}, "a list of whole numbers, but got [1.5]"),
    ({"seeds": [True]}, "a list of whole numbers, but got [True]"),
    ({"seeds": []}, "a list of whole numbers, but got []"),
    ({"queries": -1}, "`queries` must be a whole number from 1 up, but got -1"),
    ({"queries": 2.5}, "`queries` must be a whole number from 1 up, but got 2.5"),
    ({"queries": True}, "`queries` must be a whole number from 1 up, but got True"),
    ({"block_size": 0}, "`block_size` must be a whole number from 1 up, but got 0"),
    ({"variants": 3}, "`variants` must be a table, but got 3"),
    ({"variants": {"v": 3}}, "`variants.v` must be a table, but got 3"),
    ({"variants": {"v": {"gate": {"threshold": 0.2}}}}, "`variants.v` must name the method that it changes"),
    ({"preset_variants": {"v": {"nugget": 0.1}}}, "`preset_variants.v` must name the preset that it changes"),
    ({"variants": {"v": {"method": "static", "gate": 0.25}}}, "`variants.v.gate` must be a table, but got 0.25"),
    (
        {"variants": {"v": {"method": "static", "gate": {"threshold": "low"}}}},
        "`variants.v.gate.threshold` must be a number, but got 'low'",
    ),
    (
        {"variants": {"v": {"method": "static", "gate": {"first_step": 5.5}}}},
        "`variants.v.gate.first_step` must be a whole number, but got 5.5",
    ),
    (
        {"variants": {"v": {"method": "adaptive", "gate": {"threshold": 1.5}}}},
        "`Gate.threshold` must be a finite number from 0.0 to 1.0, but got 1.5",
    ),
    (
        {"variants": {"v": {"method": "static", "correction": {"target_exponent": 1}}}},
        "`Correction.target_exponent` must be a finite number",
    ),
    ({"preset_variants": {"v": {"preset": "paper", "nugget": -1e-4}}}, "`nugget` must be a finite number"),
    ({"preset_variants": {"v": {"preset": "paper", "nugget": float("nan")}}}, "`nugget` must be a finite number"),
    (
        {"preset_variants": {"v": {"preset": "paper", "cold_fit": "no"}}},
        "`preset_variants.v.cold_fit` must be true or false, but got 'no'",
    ),
]


@pytest.mark.parametrize(("changes", "words"), WRONG_VALUES)
def test_a_wrong_value_is_refused_in_words(changes, words):
    with pytest.raises(InvalidValueError, match=re.escape(words)):
        parse("x", TABLE | changes)


@pytest.mark.parametrize("key", ["problems", "initializations"])
def test_a_missing_key_is_named(key):
    with pytest.raises(InvalidValueError, match=f"`{key}` is missing: a list of names, or 'all'"):
        parse("x", {name: value for name, value in TABLE.items() if name != key})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"variants": {"again": {"method": "static", "gate": {"first_step": 8}}}},
            "static under modern and again under modern have the same values on hartmann-6d, pool_n6_k15",
        ),
        (
            {"preset_variants": {"again": {"preset": "modern", "nugget": 1e-6}}},
            "baseline under modern and baseline under again have the same values",
        ),
    ],
)
def test_a_duplicate_cell_is_refused_in_words(changes, words):
    with pytest.raises(InvalidValueError, match=f"Two cells of the experiment are the same run: {words}"):
        grid.blocks(parse("x", TABLE | changes))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TOML.replace("vehicle-5d", "vehicl-5d"), "`grid.toml`: No problem is called 'vehicl-5d'. Did you mean"),
        (TOML.replace("seeds = 2", "seeds = 0"), "`grid.toml`: `seeds` must be a whole number"),
        (TOML + "seeds = 3\n", "grid.toml` is not valid TOML: "),
        ("problems = [", "grid.toml` is not valid TOML: "),
        ("title = '\N{LATIN SMALL LETTER E WITH ACUTE}'".encode("latin-1"), "grid.toml` is not valid TOML: "),
        (None, "There is no experiment file at"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, text, words):
    path = tmp_path / "grid.toml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(KappaSharpError, match=re.escape(words)):
        read(path)


def test_a_folder_is_no_experiment(tmp_path):
    with pytest.raises(InvalidValueError, match="cannot be read: Is a directory"):
        read(tmp_path)
