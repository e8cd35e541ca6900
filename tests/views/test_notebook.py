"""What Python and a notebook get of a study: cells, figures, a report, and answers as people write them."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas
import pytest
import torch
from matplotlib.figure import Figure

import kappasharp as ks
from kappasharp.errors import InvalidValueError, MissingLibraryError, install_command

NAME = "<script>alert('x')</script> & $co"
SPACE = {"kp": (0.2, 3.0), "ki": ks.Float(1e-3, 2.0, log=True), "n": ks.Int(1, 8), NAME: ["soft", "<b>", "$a$ $"]}
FIGURES = ("progress", "slices", "designs", "agreement")


def prefers_a(question):
    return abs(question.a["kp"] - 1.2) < abs(question.b["kp"] - 1.2)


@pytest.fixture(scope="module")
def study():
    found = ks.create_study(SPACE, storage="sqlite://", study_name=NAME)
    for voter in ("anna", "bert", "anna"):
        question = found.ask(voter)
        found.tell(question, prefers_a(question))
    found.ask_again(next(iter(found.history.asked)))
    question = found.ask("bert")
    found.tell(question, "b" if prefers_a(question) else "a")
    return found


class Reader(HTMLParser):
    """The tags and the words of a piece of HTML, and whether every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = set(), [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.open.append(tag)
        assert not [name for name, _ in attributes if name.startswith("on") or name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_cells_are_safe_and_take_the_notebooks_colours(study):
    shown = [study, study.best, study.ask("anna"), study.ask("bert", kind="order:3")]
    cells = [Reader(one._repr_html_()) for one in shown]
    for one, cell in zip(shown, cells, strict=True):
        assert cell.tags <= {"div", "b", "span", "table", "tr", "th", "td"} and NAME in cell.words
        style = one._repr_html_()
        assert "currentColor" in style and re.search(r"(?<!&)#|rgb\(|hsl", style) is None
    whole, best, pair, order = (cell.words for cell in cells)
    assert "4 parameters, 4 answers of 2 people, asks a pair" in whole and str(study.best.advice) in best
    assert f"{study.best.beats_random:.0%} of designs you would like less" in whole and whole.count("sqlite://") == 1
    assert 'study.tell(question, "a")' in pair and "Order" in order and "[2, 0, 1]" in order
    noted = replace(study.best, better_breaking=3)
    assert "Option 3 seems better still, but it breaks a limit" in Reader(noted._repr_html_()).words
    fresh = ks.create_study(SPACE, storage="sqlite://")._repr_html_()
    assert "0 answers" in fresh and "study.ask() gives the first question" in fresh


def test_figures_are_drawn_and_leave_matplotlib_alone(study):
    before = set(sys.modules) & {"matplotlib.pyplot"}
    for name in FIGURES:
        figure = getattr(study.plot, name)()
        assert isinstance(figure, Figure) and figure._repr_png_().startswith(b"\x89PNG")
    assert set(sys.modules) & {"matplotlib.pyplot"} == before
    (axes,) = study.plot.progress().axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[1, 2, 3, 4]] * 2
    panels = study.plot.slices().axes
    assert [axes.get_title() for axes in panels[:3]] == ["kp", "ki", "n"] and panels[1].get_xscale() == "log"
    (axes,) = study.plot.designs().axes
    best = [line for line in axes.lines if line.get_linewidth() == 2.6]
    assert len(best) == 1 and best[0].get_ydata()[0] == pytest.approx((study.best_params["kp"] - 0.2) / 2.8)
    (axes,) = study.plot.agreement().axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["anna with all", "bert with all", "anna with bert"]
    assert [text.get_text() for text in axes.texts][-1] == "0 of 1"


def test_without_answers_or_a_library_there_is_a_sentence(monkeypatch):
    study = ks.create_study(SPACE, storage="sqlite://")
    for name in FIGURES:
        with pytest.raises(InvalidValueError, match="nothing to draw: the study 'study' has no answers yet"):
            getattr(study.plot, name)()
    study.tell(study.ask(), "a")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingLibraryError, match=r"`study\.plot` needs the library 'matplotlib\.figure'") as caught:
        study.plot.slices()
    assert install_command("lab") in str(caught.value)


def test_export_writes_the_report(study, tmp_path):
    path = study.export(tmp_path / "x.html")
    assert path.read_text("utf-8").startswith("<!doctype html>") and [path] == list(tmp_path.iterdir())
    with pytest.raises(InvalidValueError, match=r"must end in \.json, \.csv, \.parquet or \.html, but got"):
        study.export(tmp_path / "x.htm")


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("pair", True, "a"), ("pair", False, "b"), ("pair", np.bool_(True), "a"), ("pair", torch.tensor(False), "b"),
        ("pair", "A", "a"), ("pair", "B", "b"), ("pair", "Tie", "tie"), ("rating", "SKIP", "skip"),
        ("order:3", np.array([2, 0, 1]), [2, 0, 1]), ("order:3", torch.tensor([2, 0]), [2, 0]),
        ("order:3", [np.int64(2), np.array([1, 0])], [2, [0, 1]]), ("order:3", pandas.Series([1, 2, 0]), [1, 2, 0]),
        ("choice:3", np.int64(2), 2), ("choice:3", torch.tensor(1), 1), ("slider", np.float32(0.25), 0.25),
        ("rating", np.array(-2), -2),
    ],
)  # fmt: skip
def test_answers_as_programs_give_them(kind, given, stored):
    study = ks.create_study(SPACE, storage="sqlite://")
    told = study.tell(study.ask(kind=kind), given)
    assert told.answer == stored and type(told.answer) is type(stored)
    # The same once more is the same answer, and so is one that is amended.
    assert study.tell(told.pair, given) == told
    study.amend(told.event, given)
    assert study.history.comparisons[told.event].answer == stored


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("rating", True),
        ("choice:3", False),
        ("slider", True),
        ("pair", 1),
        ("pair", np.array([True])),
        ("order:3", "A"),
    ],
)
def test_others_are_refused(kind, given):
    study = ks.create_study(SPACE, storage="sqlite://")
    with pytest.raises(InvalidValueError, match="`answer` to"):
        study.tell(study.ask(kind=kind), given)
