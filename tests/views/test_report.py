"""The HTML report: self-contained, safe with hostile names, and its pictures hold what the study holds."""

import json
import math
import re
from base64 import b64encode
from html import unescape
from html.parser import HTMLParser
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

import kappasharp as ks
from kappasharp.findings import best
from kappasharp.questions import kind as questions_kind
from kappasharp.views import charts, report

EVIL = "<script>alert('x')</script>&\"q\""
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """A page's tags, its text, and whether every tag is closed in its turn."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.cells = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.cells += [""] if tag in ("td", "th") else []
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if {"td", "th"} & {*self.open}:
            self.cells[-1] += data


def pictures(text):
    """Every SVG by its label, read as XML: anything that is not well-formed fails."""
    found = [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    return {one.get("aria-label"): one for one in found}


def marked(picture, kind):
    """Elements with that word in their class."""
    return [one for one in picture.iter() if kind in (one.get("class") or "").split()]


def study_of(space, answers, *, name="s", voter="me", **options):
    study = ks.create_study(space, storage="sqlite://", study_name=name, **options)
    for word in answers:
        study.tell(study.ask(voter), word)
    return study


@pytest.fixture(scope="module")
def mixed():
    space = {"kp": (0.2, 3.0), "ki": ks.Float(1e-3, 2.0, log=True), "n": ks.Int(1, 4), "mode": ["a", "b", "c"], "c": 7}
    space["c"] = ks.Fixed(7)
    return study_of(space, ["a", "b", "tie", "skip", "a", "b", "a", "tie"])


@pytest.fixture(scope="module")
def text(mixed):
    return report.html(mixed.moment())


def test_the_page_needs_nothing_else(text):
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(page.tags)
    assert "http" not in text and "url(" not in text and "@import" not in text and "javascript:" not in text
    assert not [name for _, name, _ in page.attributes if name in ("src", "href", "style") or name.startswith("on")]
    assert text.startswith("<!doctype html>") and '<meta charset="utf-8">' in text


def test_it_says_what_the_study_says(mixed, text):
    page, best = Page(text), mixed.best
    assert f"{best.beats_random:.0%}" in page.text and f"{best.room_left:.0%}" in page.text
    assert str(best.advice) in page.text
    head = "Up to answer 8 (event 16); answers that count: 7. Method baseline, preset modern, seed 0"
    assert head in page.text
    for sentence in str(mixed.diagnostics()).splitlines():
        assert sentence in page.text
    at = page.cells.index("kp")
    assert page.cells[at : at + 10 : 2] == ["kp", "ki", "n", "mode", "c"]
    assert page.cells[at + 1] == f"{best.params['kp']:.5g}" and page.cells[at + 9] == "7"


def test_every_answer_has_a_row(mixed, text):
    rows = text.split("class='answers'")[-1]
    given = [questions_kind.in_words(one.form, one.answer) for one in mixed.history.comparisons.values()]
    assert [unescape(said) for said in re.findall(r"<td>([^<]*)</td></tr>", rows)] == given


def along(text, name):
    """The slice of that parameter."""
    return next(one for label, one in pictures(text).items() if label.startswith(f"Utility along {name}, from"))


def test_a_slice_for_each_tuned_parameter(mixed, text):
    labels = [label for label in pictures(text) if label.startswith("Utility")]
    assert [label.split(",")[0] for label in labels] == [f"Utility along {n}" for n in ("kp", "ki", "n", "mode")]
    best = mixed.best.params
    for name, ends in (("kp", ["0.2", "3"]), ("ki", ["0.001", "2"]), ("n", ["1", "4"])):
        picture = along(text, name)
        assert [len(marked(picture, kind)) for kind in ("band", "first", "ring")] == [1, 1, 1]
        assert [one.text for one in marked(picture, "axis")] == ends
        count = 4 if name == "n" else 41
        assert marked(picture, "band")[0].get("d").count("L") == 2 * count - 1
        assert marked(picture, "first")[0].get("d").count("L") == count - 1
    choices = along(text, "mode")
    assert [len(marked(choices, kind)) for kind in ("whisker", "ring", "end")] == [3, 1, 2]
    assert [written(one) for one in marked(choices, "axis")] == ["a", "b", "c"]
    here = [one.get("cx") for one in marked(choices, "ring")]
    assert here == [one.get("x") for one in marked(choices, "axis") if written(one) == best["mode"]]


def written(element):
    """The words of an element, without the title that only the pointer brings up."""
    return "".join(element.itertext()).removeprefix(element.findtext("title") or "")


def test_the_ring_is_where_the_best_design_is_on_a_logarithmic_axis_too(mixed, text):
    for name, low, high, of in (("kp", 0.2, 3.0, float), ("ki", 1e-3, 2.0, math.log)):
        across = charts.Box(280, 150, of(low), of(high), 0, 1, left=12, right=12)
        step = (across.x(of(high)) - across.x(of(low))) / 40
        ring = float(marked(along(text, name), "ring")[0].get("cx"))
        # The nearest value, which on a logarithmic axis may be a step away.
        assert abs(ring - across.x(of(mixed.best.params[name]))) <= step + 0.1


def test_all_slices_have_one_scale(text):
    """The line of the best design's own utility is at one height in all."""
    heights = {marked(along(text, name), "grid")[0].get("y1") for name in ("kp", "ki", "n", "mode")}
    assert len(heights) == 1


def test_the_graph_holds_every_design_and_every_answer(mixed, text):
    picture = graph_in(text)
    counted = mixed.history.counted()
    designs = {number for one in counted for number in one.options}
    nodes = marked(picture, "node")
    assert len(nodes) == len(designs) and len(marked(picture, "best")) == 1
    assert len(marked(picture, "edge")) == len(counted) == 7
    assert len(marked(picture, "tie")) == 2 and len(marked(picture, "arrow")) == 5
    titles = [one.findtext("title") for one in nodes]
    assert sorted(int(re.match(r"Design (\d+),", one)[1]) for one in titles) == sorted(designs)
    best = marked(picture, "best")[0].findtext("title")
    assert best.startswith(f"Design {mixed.best.option},") and best.endswith("the best")
    groups = len(mixed.diagnostics().groups)
    coloured = {one.get("class").split()[1] for one in nodes}
    assert f"{groups} groups, told by colours;" in text and len(coloured) == groups


def graph_in(text):
    return next(one for label, one in pictures(text).items() if label.startswith("The comparison graph"))


def test_an_arrow_points_to_the_loser():
    chart = charts.graph(
        [charts.Node(0, 1.0, 0, True), charts.Node(1, 0.0, 0, False)], [charts.Edge(0, 1, False)], label=""
    )
    (arrow,) = [one for one in chart.marks if one.kind == "arrow"]
    _, (x, y), _ = [[float(v) for v in one.split(",")] for one in re.findall(r"[\d.]+,[\d.]+", arrow.at["d"])]
    loser = chart.marks[-2].at
    assert math.hypot(x - loser["cx"], y - loser["cy"]) == pytest.approx(loser["r"], abs=0.1)


def test_certainty_over_time_ends_where_the_study_stands(mixed, text):
    found = report.past(mixed.moment())
    assert [one.answers for one in found] == [1, 2, 3, 4, 5, 6, 7]
    best = mixed.best
    assert found[-1].preferred == pytest.approx(best.beats_random, abs=1e-12)
    assert found[-1].room == pytest.approx(best.room_left, abs=1e-12)
    picture = pictures(text)["Certainty over the number of answers"]
    for kind, share in (("first", best.beats_random), ("second", best.room_left)):
        (line,) = [one for one in marked(picture, kind) if one.tag == "path"]
        (end,) = [one for one in marked(picture, kind) if one.tag == "circle"]
        assert line.get("d").count("L") == 6
        assert float(end.get("cy")) == pytest.approx(charts.Box(560, 220, 1, 7, 0, 1).y(share), abs=0.1)


def test_what_was_undone_or_amended_counts_as_it_reads_now():
    study = study_of({"x": (0.0, 1.0)}, ["a", "a", "a"])
    study.undo()
    study.tell(study.ask(), "b")
    study.amend(next(iter(study.history.comparisons)), "b")
    found = report.past(study.moment())
    assert found[-1].answers == 3 and found[-1].preferred == pytest.approx(study.best.beats_random, abs=1e-12)
    assert "B is better (amended)" in report.html(study.moment())


def test_a_long_past_is_thinned(monkeypatch):
    monkeypatch.setattr(best, "CHECKPOINTS", 4)
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    for i in range(10):
        study.add_comparison({"x": 0.01 + 0.08 * i}, {"x": 0.02 + 0.08 * i})
    assert [one.answers for one in report.past(study.moment())] == [1, 4, 7, 10]
    assert "colours (which come again after 8)" in report.html(study.moment())


def test_hostile_names_stay_text():
    space = {EVIL: (0.0, 1.0), "choice": [EVIL, "b", "c"], "fixed": ks.Fixed(EVIL)}
    study = study_of(space, ["a", "b", "a"], name=EVIL, voter=EVIL)
    text = report.html(study.moment())
    page = Page(text)
    assert "script" not in page.tags and "<script" not in text
    assert page.text.count(EVIL) >= 5 and EVIL in page.cells
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert along(text, EVIL) is not None


def test_one_answer_is_enough():
    text = report.html(study_of({"x": (0.0, 1.0)}, ["a"]).moment())
    Page(text)
    picture = pictures(text)["Certainty over the number of answers"]
    assert len(marked(picture, "end")) == 2
    assert "Up to answer 1 (event 2); answers that count: 1." in text and "All designs are linked by answers" in text


@pytest.mark.parametrize("words", [["tie", "tie"], ["skip", "a", "skip"], ["tie", "skip"]])
def test_ties_and_skips(words):
    text = report.html(study_of({"x": (0.0, 1.0), "y": (0.0, 1.0)}, words).moment())
    Page(text)
    graph = graph_in(text)
    assert len(marked(graph, "edge")) == sum(word != "skip" for word in words)
    assert len(marked(graph, "tie")) == words.count("tie")


def test_choices_only():
    text = report.html(study_of({"flag": [True, False], "size": [10, 1, 5]}, ["a", "b", "a", "a"]).moment())
    Page(text)
    for name, labels in (("flag", ["true", "false"]), ("size", ["10", "1", "5"])):
        picture = along(text, name)
        assert [written(one) for one in marked(picture, "axis")] == labels
        assert len(marked(picture, "whisker")) == len(labels) and not marked(picture, "band")


def test_a_choice_of_true_and_one_has_one_ring():
    picture = along(report.html(study_of({"x": [True, 1, "one"]}, ["a"]).moment()), "x")
    assert len(marked(picture, "ring")) == 1 and len(marked(picture, "end")) == 2


def test_a_study_without_answers_is_refused_in_words():
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    with pytest.raises(ks.KappaSharpError, match="has no answers yet"):
        report.html(study.moment())


def test_names_of_choices_fit():
    assert charts.cut("abcdef", 4 * charts.LETTER) == "abc…" and charts.cut("abcd", 4 * charts.LETTER) == "abcd"
    many = [f"choice {i}" for i in range(30)]
    picture = along(report.html(study_of({"x": many}, ["a"]).moment()), "x")
    assert len(marked(picture, "axis")) == 1 and len(marked(picture, "whisker")) == 30


def test_the_page_gets_the_same_marks_as_the_report():
    """One geometry: every number of the plain data stands in the SVG, and nothing else does."""
    curve = charts.Curve("<b>", "first", [(1, 0.5), (2, 0.75)])
    chart = charts.curves([curve], charts.shares(), label='"', across="answers", shaded={2: "acted"})
    plain = json.loads(json.dumps(charts.plain(chart)))
    picture = pictures(charts.html(chart))['"']
    shapes, strips = picture[: len(plain["marks"])], picture[len(plain["marks"]) :]
    # What the page says at the pointer, the report has as titles.
    said = ["1 answer: <b> 50 %", "2 answers: <b> 75 %"]
    assert [one.findtext("title") for one in strips] == said == [one["words"] for one in plain["readings"]]
    for element, mark in zip(shapes, plain["marks"], strict=True):
        at = {name: str(value) for name, value in mark["at"].items()}
        assert (element.tag, element.attrib) == (mark["tag"], at | {"class": mark["kind"]})
        assert (written(element), element.findtext("title") or "") == (mark["words"], mark["title"])
    assert plain["caption"] == [{"words": "<b>", "kind": "key first"}] and "<b>" not in charts.html(chart)


@pytest.mark.parametrize(
    ("low", "high", "count", "found"),
    [(0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]), (1, 18, 6, [5, 10, 15]), (3, 3, 6, [3]), (-0.3, 7.1, 5, [0, 2, 4, 6])],
)
def test_ticks_are_round(low, high, count, found):
    assert charts.ticks(low, high, count) == found


def test_powers_of_ten_have_names():
    assert [name for _, name in charts.powers([-1.0, 2.5]).levels] == ["10⁻¹", "10⁰", "10¹", "10²"]
    assert [name for _, name in charts.powers([0.0, 1.0]).levels] == ["10⁰", "10⁰·⁵", "10¹"]


class Shown(NamedTuple):
    kind: str
    type: str = ""
    body: bytes = b""
    sentence: str = ""


def test_the_designs_are_shown_as_people_saw_them(mixed, monkeypatch):
    """In the file itself; nothing in a picture runs, and what is too large, or a page of HTML, is a sentence."""
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    options = list(report.pictured(mixed.moment()))
    assert options[0] == mixed.best.option and len(options) == len(set(options)) == len(mixed.model().options)
    kinds = [
        Shown("image", "image/svg+xml", svg),
        Shown("html", "text/html", b"<script>1</script>"),
        Shown("failed", sentence="No <licence>."),
        Shown("audio", "audio/wav", b"RIFF"),
        Shown("image", "image/png", bytes(report.PICTURE_BYTES + 1)),
    ]
    text = report.html(mixed.moment(), pictures=dict(zip(options, kinds, strict=False)))
    page = Page(text)
    (source,) = [value for tag, name, value in page.attributes if (tag, name) == ("img", "src")]
    assert source == f"data:image/svg+xml;base64,{b64encode(svg).decode()}" and "script" not in page.tags
    assert report.NO_PAGES in page.text and "No <licence>." in page.text and report.TOO_LARGE in page.text
    assert ("audio", "src", f"data:audio/wav;base64,{b64encode(b'RIFF').decode()}") in page.attributes
    assert f"{len(options) - len(kinds)} other designs can be seen on the page" in page.text
    monkeypatch.setattr(report, "ALL_BYTES", 10)
    assert "<img" not in report.html(mixed.moment(), pictures={options[0]: kinds[0]})


def test_several_voters_have_a_section_of_their_own():
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    for voter in ("anna", EVIL):
        for _ in range(2):
            pair = study.ask(voter=voter)
            study.tell(pair, "a" if pair.a["x"] > pair.b["x"] else "b")
        one = report.html(study.moment())
        assert ("What the voters have in common" in one) == (voter == EVIL)
    found = Page(one)
    assert "Too few answers to tell who agrees with whom" in found.text and "script" not in found.tags
    assert found.cells.count("anna") and sum(tag == "circle" for tag in found.tags) >= 2


def test_designs_are_called_as_the_answers_call_them(tmp_path):
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    chosen = study.ask(kind="choice", designs=3)
    study.tell(chosen, 1)
    study.tell(study.ask(kind="order", designs=3), [2, 0, 1])
    study.tell(study.ask(kind="rating"), 2)
    study.tell(study.ask(), "a")
    study.export(tmp_path / "report.html")
    cells = [cell.split("</td>")[0] for cell in (tmp_path / "report.html").read_text("utf-8").split("<td>")]
    choice, order, rating, pair = (cells[cells.index(form) + 1] for form in ("choice:3", "order:3", "rating", "pair"))
    names = [re.findall(r"(?:^|<br>)(.): ", one) for one in (choice, order, rating, pair)]
    assert names == [["1", "2", "3"], ["1", "2", "3"], ["A", "B"], ["A", "B"]]
    assert f"2: <b>{study.history.option(chosen.designs[1])}</b>" in choice and "2 is the best" in cells
    assert {"3 &gt; 1 &gt; 2", "A is better"} <= set(cells)
