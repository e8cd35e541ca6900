"""Figures: what is drawn is what was computed, what is missing is said, and nothing global is touched."""

import io
import math
import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch

from kappasharp.errors import InvalidValueError, UnknownNameError
from kappasharp.lab import experiment
from kappasharp.lab.analysis import correction_figures, figures, style
from kappasharp.lab.analysis.results import Results, Setting, paper
from kappasharp.lab.grid import Cell

PLAN = {
    "problems": ["levy-10d", "ackley-8d"], "initializations": ["pool_n6_k15"], "presets": ["paper"],
    "methods": ["baseline", "static", "adaptive"], "seeds": 8, "queries": 5,
}  # fmt: skip
FOUR = ["levy-10d", "ackley-8d", "hartmann-6d", "vehicle-5d"]
INIT = "pool_n6_k15"
# Differences to the baseline, seed by seed: a clear win, a clear loss, and noise.
WIN, LOSS, NOISE = 2.0, -3.0, 0.0


def made_up(effects, without=(), **changes):
    """Results whose method m on problem p differs from the baseline by effects[m, p] plus a little per seed."""
    plan = experiment.parse("made_up", PLAN | changes)
    rows, failed = {}, []
    for problem in plan.problems:
        for initialization in plan.initializations:
            for preset in plan.presets:
                for method in plan.methods:
                    setting = Setting(problem, initialization, method, preset)
                    seeds = [seed for seed in plan.seeds if (method, problem, seed) not in without]
                    found = {seed: row(plan, setting, seed, effects) for seed in seeds}
                    if found and (method, problem) not in without:
                        rows[setting] = found
    failed = [(Cell(p, INIT, m, plan_preset(plan), s, "key"), "broke") for m, p, *rest in without for s in rest]
    return Results(plan, rows, [], failed, 0)


def plan_preset(plan):
    return next(iter(plan.presets))


def row(plan, setting, seed, effects):
    final = -10.0 + 0.3 * seed + effects.get((setting.method, setting.problem), 0.0)
    final += 0.0 if setting.method == "baseline" else 0.4 * math.sin(5 * seed + 2)
    acting = [step >= 2 and (seed + step) % 3 > 0 for step in range(plan.queries)]
    nugget = plan.presets[setting.preset].nugget
    return {
        "final_best": final,
        "best_utility": [final - 0.5 * left for left in range(plan.queries, -1, -1)],
        "active": acting,
        "strength": [(1 + seed) / (1 - math.log10(nugget)) if flag else 0.0 for flag in acting],
        "mean_decisiveness": [0.1 * (step + 1) + 0.01 * seed for step in range(plan.queries)],
    }


EFFECTS = {("static", "levy-10d"): WIN, ("static", "ackley-8d"): LOSS}


@pytest.fixture
def results():
    return made_up(EFFECTS)


def find(figure, gid):
    found = figure.findobj(lambda artist: artist.get_gid() == gid)
    assert len(found) == 1, (gid, found)
    return found[0]


def has(figure, gid):
    return bool(figure.findobj(lambda artist: artist.get_gid() == gid))


def note(figure):
    return figure.get_supxlabel()


def is_filled(marker):
    return marker.get_markerfacecolor() != "white"


class TestForest:
    @pytest.mark.parametrize("method", ["static", "adaptive"])
    @pytest.mark.parametrize("problem", PLAN["problems"])
    def test_markers_stand_at_the_gains(self, results, method, problem):
        figure = figures.forest(results, "paper")
        one = results.comparisons("paper")[Setting(problem, INIT, method, "paper")]
        marker, bar = find(figure, f"gain:{method}:{problem}"), find(figure, f"interval:{method}:{problem}")
        assert marker.get_xdata()[0] == one.gain_percent
        assert tuple(bar.get_xdata()) == (one.gain_low, one.gain_high)
        assert is_filled(marker) == (one.p < 0.05) == (method == "static")
        assert marker.get_ydata()[0] == pytest.approx(PLAN["problems"].index(problem), abs=0.5)

    def test_the_papers_gains_are_beside(self, results):
        figure = figures.forest(results, "paper")
        assert paper()["gains"]["levy-10d"]["static"] == "+18.7*"
        assert find(figure, "paper:static:levy-10d").get_xdata()[0] == 18.7
        assert find(figure, "paper:adaptive:ackley-8d").get_xdata()[0] == -1.4
        elsewhere = made_up(EFFECTS, initializations=["pure_k5"])
        assert not has(figures.forest(elsewhere, "paper"), "paper:static:levy-10d")

    def test_a_gain_of_the_paper_beyond_the_frame_is_written_at_its_edge(self, monkeypatch):
        results = made_up({}, problems=["dtlz2-8d"], methods=["baseline", "connected"])
        monkeypatch.setattr(style, "reach", lambda values: (-10.0, 10.0))
        figure = figures.forest(results, "paper", ["connected"])
        assert find(figure, "beyond:paper:connected:dtlz2-8d").get_text() == "−94 %"

    def test_title_counts(self, results):
        title = figures.forest(results, "paper").get_suptitle().replace("\n", " ")
        assert "static better on 1, worse on 1 of 2" in title
        assert "adaptive better on 0, worse on 0 of 2" in title

    def test_a_huge_effect_does_not_squash_the_rest(self):
        figure = figures.forest(made_up(EFFECTS | {("adaptive", "ackley-8d"): -9e3}), "paper")
        axis = find(figure, "gain:static:levy-10d").axes
        low, high = axis.get_xlim()
        assert -1e4 < low < -30
        assert high < 1e3
        assert find(figure, "arrow:adaptive:ackley-8d").get_xdata()[0] == low
        assert find(figure, "beyond:adaptive:ackley-8d").get_text().startswith("−1")
        assert not has(figure, "gain:adaptive:ackley-8d")

    def test_more_methods_than_markers(self):
        methods = ["baseline", "static", "adaptive", "fixed20", "connected", "jitter", "diagonal", "metric_only"]
        figure = figures.forest(made_up({}, methods=methods), "paper", methods[1:])
        assert all(has(figure, f"gain:{method}:levy-10d") for method in methods[1:])

    def test_one_seed_has_a_gain_without_an_interval(self):
        figure = figures.forest(made_up(EFFECTS, seeds=1), "paper")
        assert math.isfinite(find(figure, "gain:static:levy-10d").get_xdata()[0])
        assert np.isnan(find(figure, "interval:static:levy-10d").get_xdata()).all()
        assert not is_filled(find(figure, "gain:static:levy-10d"))

    def test_unknown_names_are_refused(self, results):
        with pytest.raises(UnknownNameError, match="static"):
            figures.forest(results, "paper", ("statik",))
        with pytest.raises(UnknownNameError, match="paper"):
            figures.forest(results, "papre")


class TestHeatmap:
    def test_texts(self):
        starts = ["pool_n6_k15", "pure_k5"]
        results = made_up(EFFECTS, initializations=starts)
        figure = figures.heatmap(results, "paper", "static")
        for row_, problem in enumerate(PLAN["problems"]):
            for column, start in enumerate(starts):
                one = results.comparisons("paper")[Setting(problem, start, "static", "paper")]
                text = find(figure, f"cell:{row_}:{column}")
                assert text.get_position() == (column, row_)
                assert text.get_text() == f"{one.gain_percent:+.1f}*".replace("-", "−")
                assert text.get_fontweight() == "bold"
        assert "better on 2, worse on 2 of 4 cells" in figure.get_suptitle().replace("\n", " ")

    def test_not_significant_is_plain_and_colours_are_centred(self, results):
        figure = figures.heatmap(results, "paper")
        text = find(figure, "cell:0:0")
        assert text.get_fontweight() == "normal"
        assert "*" not in text.get_text()
        (image,) = text.axes.images
        assert image.norm.vmin == -image.norm.vmax

    def test_a_huge_gain_does_not_pale_the_rest(self):
        figure = figures.heatmap(made_up(EFFECTS | {("static", "hartmann-6d"): 9e3}, problems=FOUR), "paper", "static")
        (image,) = find(figure, "cell:0:0").axes.images
        assert image.norm.vmax < 200

    def test_a_missing_cell(self):
        figure = figures.heatmap(made_up(EFFECTS, without=[("static", "ackley-8d")]), "paper", "static")
        assert find(figure, "cell:1:0").get_text() == "no runs"
        assert "ackley-8d (static)" in note(figure)


class TestConvergence:
    def test_lines_are_means(self, results):
        figure = figures.convergence(results, "paper")
        for problem in PLAN["problems"]:
            for method in PLAN["methods"]:
                setting = Setting(problem, INIT, method, "paper")
                line = find(figure, f"mean:{method}:{problem}")
                assert line.get_xdata().tolist() == list(range(6))
                assert line.get_ydata()[-1] == pytest.approx(results.sample(setting).mean, rel=1e-14)

    def test_bands_are_standard_errors(self, results):
        axis = find(figures.convergence(results, "paper", ["levy-10d"]), "mean:static:levy-10d").axes
        band = axis.collections[1].get_paths()[0].vertices
        sample = results.sample(Setting("levy-10d", INIT, "static", "paper"))
        at_the_end = band[band[:, 0] == 5, 1]
        assert at_the_end.max() - at_the_end.min() == pytest.approx(2 * sample.sd / math.sqrt(8), rel=1e-12)

    def test_some_problems(self, results):
        figure = figures.convergence(results, "paper", ["ackley-8d"])
        assert not has(figure, "mean:static:levy-10d")
        with pytest.raises(UnknownNameError, match="ackley-8d"):
            figures.convergence(results, "paper", ["ackley-9d"])
        with pytest.raises(InvalidValueError, match="problems"):
            figures.convergence(results, "paper", [])

    def test_one_seed_has_no_band(self):
        figure = figures.convergence(made_up({}, seeds=1), "paper")
        assert not find(figure, "mean:static:levy-10d").axes.collections

    def test_every_method_has_a_colour_of_its_own(self):
        for names in (["ep_ei", "metric_only", "optuna_preferential"], ["adaptive_tau_0_25", "adaptive", "static"]):
            colours = style.palette(names)
            assert len(set(colours.values())) == len(names)
        assert style.palette(["x", "static"])["static"] == style.COLOURS["static"]


class TestActivation:
    def test_medians_and_runs(self, results):
        figure = correction_figures.activation(results, "paper")
        runs = results.rows[Setting("levy-10d", INIT, "adaptive", "paper")].values()
        shares = [100 * sum(run["active"]) / 5 for run in runs]
        assert find(figure, "shares:levy-10d").get_xdata().tolist() == pytest.approx(shares)
        assert find(figure, "median:levy-10d").get_xdata() == pytest.approx([np.median(shares)] * 2)

    def test_decisiveness_and_threshold(self, results):
        figure = correction_figures.activation(results, "paper")
        line = find(figure, "decisiveness:levy-10d")
        assert line.get_xdata().tolist() == [1, 2, 3, 4, 5]
        assert line.get_ydata() == pytest.approx(np.array([0.1, 0.2, 0.3, 0.4, 0.5]) + 0.035)
        assert any(list(other.get_ydata()) == [0.3, 0.3] for other in line.axes.lines)

    def test_the_papers_medians(self, results):
        assert find(correction_figures.activation(results, "paper"), "paper:ackley-8d").get_xdata()[0] == 12.0
        assert not has(correction_figures.activation(results, "paper", "static"), "paper:ackley-8d")

    def test_an_ungated_method_has_no_threshold(self, results):
        line = find(correction_figures.activation(results, "paper", "static"), "decisiveness:levy-10d")
        assert len(line.axes.lines) == 1


VARIANTS = {name: {"preset": "paper", "nugget": value} for name, value in (("b", 1e-2), ("a", 1e-6), ("c", 1e-1))}


class TestNugget:
    def made(self, **changes):
        return made_up(EFFECTS, presets=[], preset_variants=VARIANTS, **changes)

    def test_gains_stand_over_their_nuggets(self):
        results = self.made()
        figure = correction_figures.nugget(results)
        for name, values in VARIANTS.items():
            one = results.comparisons(name)[Setting("levy-10d", INIT, "static", name)]
            markers = [find(figure, f"gain:{method}:levy-10d:{name}") for method in ("static", "adaptive")]
            beside = [marker.get_xdata()[0] for marker in markers]
            assert math.sqrt(math.prod(beside)) == pytest.approx(values["nugget"])
            assert beside[1] / beside[0] == pytest.approx(correction_figures.ASIDE)
            assert markers[0].get_ydata()[0] == one.gain_percent
            assert is_filled(markers[0])
            assert not is_filled(markers[1])
        assert markers[0].axes.get_xscale() == "log"

    def test_one_method_stands_on_the_nugget(self):
        line = find(correction_figures.nugget(self.made(), ("static",)), "strength:static:ackley-8d")
        assert line.get_xdata() == pytest.approx([1e-6, 1e-2, 1e-1])
        assert line.get_ydata() == pytest.approx([4.5 / 7, 4.5 / 3, 4.5 / 2])
        assert line.axes.get_yscale() == "log"

    def test_strength_is_that_of_acting_steps(self):
        results = self.made()
        setting = Setting("levy-10d", INIT, "static", "c")
        assert correction_figures.strengths(results, setting) == pytest.approx([(1 + seed) / 2 for seed in range(8)])
        results.rows[setting][3]["active"] = [False] * 5
        assert len(correction_figures.strengths(results, setting)) == 7

    def test_a_missing_preset(self):
        results = self.made()
        for method in PLAN["methods"]:
            del results.rows[Setting("levy-10d", INIT, method, "b")]
        figure = correction_figures.nugget(results)
        assert not has(figure, "gain:static:levy-10d:b")
        assert has(figure, "gain:static:levy-10d:a")
        assert "levy-10d (baseline b, static b, adaptive b)" in note(figure)


class TestPeers:
    def test_our_gain_over_theirs(self):
        results = made_up({("botorch_0_18", "levy-10d"): LOSS}, methods=["baseline", "botorch_0_18"])
        figure = figures.against_peers(results, "paper")
        one = results.comparisons("paper", "botorch_0_18")[Setting("levy-10d", INIT, "baseline", "paper")]
        marker = find(figure, "gain:botorch_0_18:levy-10d")
        assert marker.get_xdata()[0] == one.gain_percent > 0
        assert is_filled(marker)
        assert not is_filled(find(figure, "gain:botorch_0_18:ackley-8d"))
        assert "against botorch_0_18 better on 1" in figure.get_suptitle()

    def test_without_peers(self, results):
        with pytest.raises(InvalidValueError, match="no peer"):
            figures.against_peers(results, "paper")

    def test_a_peer_has_no_gate(self):
        results = made_up({}, methods=["baseline", "botorch_0_18"])
        for found in results.rows.values():
            for one in found.values():
                one |= {"active": [], "strength": [], "mean_decisiveness": []}
        assert has(correction_figures.activation(results, "paper", "botorch_0_18"), "none:levy-10d")


DRAWN = {
    "forest": lambda results: figures.forest(results, "paper"),
    "heatmap": lambda results: figures.heatmap(results, "paper"),
    "convergence": lambda results: figures.convergence(results, "paper"),
    "activation": lambda results: correction_figures.activation(results, "paper"),
    "nugget": correction_figures.nugget,
}
each_figure = pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)


@each_figure
class TestEvery:
    def test_saves(self, draw, results):
        for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
            file = io.BytesIO()
            draw(results).savefig(file, format=kind)
            assert file.getvalue().startswith(start)

    def test_complete_says_nothing_of_missing(self, draw, results):
        assert "Missing" not in note(draw(results))

    def test_a_missing_place_is_noted(self, draw):
        figure = draw(made_up(EFFECTS, without=[("adaptive", "levy-10d")]))
        assert "Missing: levy-10d (" in note(figure)
        assert "failed" not in note(figure)

    def test_missing_and_failed_runs_are_counted(self, draw):
        figure = draw(made_up(EFFECTS, without=[("adaptive", "levy-10d", 3), ("adaptive", "levy-10d", 5)]))
        assert "Missing: levy-10d (adaptive 2 of 8 runs). 2 of these runs failed." in note(figure).replace("\n", " ")

    def test_nothing_at_all(self, draw):
        everything = [(method, problem) for method in PLAN["methods"] for problem in PLAN["problems"]]
        figure = draw(made_up({}, without=everything))
        assert "Missing: levy-10d (all); ackley-8d (all)." in note(figure)
        figure.savefig(io.BytesIO(), format="svg")

    def test_text_stays_inside(self, draw, results):
        figure = draw(results)
        figure.draw_without_rendering()
        width, height = figure.bbox.size
        for axis in figure.axes:
            box = axis.get_tightbbox()
            if box is not None:
                assert box.x0 >= -1 and box.x1 <= width + 1 and box.y0 >= -1 and box.y1 <= height + 1
        for text in (figure._suptitle, figure._supxlabel):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height


class TestHero:
    def test_the_example_is_the_papers_shape(self):
        shown = correction_figures.example()
        assert (len(shown.points), len(shown.pairs), len(shown.component.unique())) == (6, 4, 2)
        assert int(torch.linalg.matrix_rank(shown.likelihood)) == 4

    def test_the_numbers_hold(self):
        shown = correction_figures.example()
        a = shown.prior.diagonal()
        assert torch.allclose(shown.correction, shown.strength**2 / (shown.strength + a))
        assert shown.correction.argmax() == a.argmin()
        H = shown.prior + shown.likelihood
        assert float(torch.linalg.cond(H)) == pytest.approx(shown.condition_before)
        assert float(torch.linalg.cond(H + torch.diag(shown.correction))) == pytest.approx(shown.condition_after)
        assert shown.condition_after == pytest.approx(shown.condition_before**0.9, rel=1e-6)
        # A ring around a square adds up only where both have one sign.
        assert bool((shown.prior * shown.likelihood >= 0).all())

    def test_areas_are_the_numbers(self):
        figure, shown = correction_figures.hero(), correction_figures.example()
        _, before, after = (axis for axis in figure.axes if axis.get_title(loc="left"))
        squares = [{patch.get_gid(): patch.get_width() ** 2 for patch in axis.patches} for axis in (before, after)]
        scale = squares[0]["prior:0:0"] / shown.prior[0, 0]
        for row_, column in np.ndindex(6, 6):
            K_inverse, H_lik = shown.prior[row_, column].abs(), shown.likelihood[row_, column].abs()
            for areas in squares:
                name = f":{row_}:{column}"
                assert areas["prior" + name] == pytest.approx(float(scale * K_inverse))
                assert ("likelihood" + name in areas) == bool(H_lik > 0)
                ring = areas.get("likelihood" + name, areas["prior" + name]) - areas["prior" + name]
                assert ring == pytest.approx(float(scale * H_lik), abs=1e-12)
        corrected = [squares[1][f"correction:{number}:{number}"] for number in range(6)]
        assert corrected == pytest.approx((scale * shown.correction).tolist())
        assert not [name for name in squares[0] if name.startswith("correction")]

    def test_saves(self):
        file = io.BytesIO()
        correction_figures.hero().savefig(file, format="svg")
        assert file.getvalue().startswith(b"<?xml")


def test_nothing_global_is_touched_and_pyplot_never_imported(results, monkeypatch):
    sources = (Path(figures.__file__).parent).glob("*.py")
    assert [path.name for path in sources if "pyplot" in path.read_text("utf-8")] == []
    before = dict(mpl.rcParams)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "matplotlib.pyplot", None)  # an import of it would fail
        for draw in DRAWN.values():
            draw(results)
        correction_figures.hero().savefig(os.devnull, format="png")
    assert dict(mpl.rcParams) == before
