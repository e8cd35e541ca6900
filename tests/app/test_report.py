"""The HTML report: self-contained, safe with hostile names, and its pictures hold what the study holds."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import kappasharp as ks
from kappasharp.app import charts, report

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
    return report.html(mixed)


def test_the_page_needs_nothing_else(text):
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(page.tags)
    assert "http" not in text and "url(" not in text and "@import" not in text and "javascript:" not in text
    assert not [name for _, name, _ in page.attributes if name in ("src", "href", "style") or name.startswith("on")]
    assert text.startswith("<!doctype html>") and '<meta charset="utf-8">' in text


def test_it_says_what_the_study_says(mixed, text):
    page, best = Page(text), mixed.best
    assert f"{best.beats_random:.0%}" in page.text and f"{best.room_left:.0%}" in page.text
    assert str(best.advice) in page.text and "7 answers, 16 events. Method baseline, preset modern, seed 0" in page.text
    for sentence in str(mixed.diagnostics()).splitlines():
        assert sentence in page.text
    at = page.cells.index("kp")
    assert page.cells[at : at + 10 : 2] == ["kp", "ki", "n", "mode", "c"]
    assert page.cells[at + 1] == f"{best.params['kp']:.5g}" and page.cells[at + 9] == "7"


def test_every_answer_has_a_row(mixed, text):
    rows = text.split("class='answers'")[1]
    given = [one.answer for one in mixed.history.comparisons.values()]
    assert re.findall(r"<td>(a|b|tie|skip)</td></tr>", rows) == given


def test_a_slice_for_each_tuned_parameter(mixed, text):
    found = pictures(text)
    assert [label for label in found if label.startswith("Utility")] == [
        f"Utility along {n}" for n in ("kp", "ki", "n", "mode")
    ]
    best = mixed.best.params
    for name, ends in (("kp", ["0.2", "3"]), ("ki", ["0.001", "2"]), ("n", ["1", "4"])):
        picture = found[f"Utility along {name}"]
        assert [len(marked(picture, kind)) for kind in ("band", "first", "here")] == [1, 1, 1]
        assert [one.text for one in marked(picture, "axis")] == ends
        count = 4 if name == "n" else 41
        assert len(marked(picture, "band")[0].get("points").split()) == 2 * count
        assert marked(picture, "first")[0].get("d").count("L") == count - 1
    choices = found["Utility along mode"]
    assert [len(marked(choices, kind)) for kind in ("whisker", "here", "dot")] == [3, 1, 2]
    assert [one.text for one in marked(choices, "axis")] == ["a", "b", "c"]
    here = [one.get("cx") for one in marked(choices, "here")]
    assert here == [one.get("x") for one in marked(choices, "axis") if one.text == best["mode"]]


def test_the_ring_is_where_the_best_design_is(mixed, text):
    picture, best = pictures(text)["Utility along kp"], mixed.best.params["kp"]
    across = charts.Box(300, 170, 0.2, 3.0, 0, 1, left=14.0)
    step = across.x(0.2 + 2.8 / 40) - across.x(0.2)
    assert abs(float(marked(picture, "here")[0].get("cx")) - across.x(best)) <= step / 2 + 0.1


def test_the_graph_holds_every_design_and_every_answer(mixed, text):
    picture = pictures(text)["The comparison graph: designs by age and utility, a line for every answer"]
    counted = mixed.history.counted()
    designs = {number for one in counted for number in one.options}
    assert len(picture.findall("circle")) == len(designs) and len(marked(picture, "here")) == 1
    assert len(marked(picture, "answer")) == len(counted) == 7
    assert len(marked(picture, "tie")) == 2
    titles = [one.findtext("title") for one in picture.findall("circle")]
    assert [int(re.match(r"option (\d+),", one)[1]) for one in titles] == sorted(designs)
    best = marked(picture, "here")[0].findtext("title")
    assert best.startswith(f"option {mixed.best.option},")
    groups = len(mixed.diagnostics().groups)
    coloured = {one.get("class") for one in picture.findall("circle")} - {"here"}
    assert f"{groups} groups, told by colours;" in text and len(coloured) in (groups, groups - 1)


def test_certainty_over_time_ends_where_the_study_stands(mixed, text):
    moments = report.past(mixed)
    assert [one.answers for one in moments] == [1, 2, 3, 4, 5, 6, 7]
    best = mixed.best
    assert moments[-1].preferred == pytest.approx(best.beats_random, abs=1e-12)
    assert moments[-1].room == pytest.approx(best.room_left, abs=1e-12)
    picture = pictures(text)["Certainty over the number of answers"]
    for kind, share in (("first", best.beats_random), ("second", best.room_left)):
        (line,) = [one for one in marked(picture, kind) if one.tag == "path"]
        (end,) = [one for one in marked(picture, kind) if one.tag == "circle"]
        assert line.get("d").count("L") == 6
        assert float(end.get("cy")) == pytest.approx(charts.Box(640, 240, 0, 7, 0, 1).y(share), abs=0.1)


def test_what_was_undone_or_amended_counts_as_it_reads_now():
    study = study_of({"x": (0.0, 1.0)}, ["a", "a", "a"])
    study.undo()
    study.tell(study.ask(), "b")
    study.amend(next(iter(study.history.comparisons)), "b")
    moments = report.past(study)
    assert moments[-1].answers == 3 and moments[-1].preferred == pytest.approx(study.best.beats_random, abs=1e-12)
    assert "b (amended)" in report.html(study)


def test_a_long_past_is_thinned(monkeypatch):
    monkeypatch.setattr(report, "CHECKPOINTS", 4)
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    for i in range(10):
        study.add_comparison({"x": 0.01 + 0.08 * i}, {"x": 0.02 + 0.08 * i})
    moments = report.past(study)
    assert [one.answers for one in moments] == [1, 4, 7, 10]
    assert "colours (which come again after 8)" in report.html(study)


def test_hostile_names_stay_text():
    space = {EVIL: (0.0, 1.0), "choice": [EVIL, "b", "c"], "fixed": ks.Fixed(EVIL)}
    study = study_of(space, ["a", "b", "a"], name=EVIL, voter=EVIL)
    text = report.html(study)
    page = Page(text)
    assert "script" not in page.tags and "<script" not in text
    assert page.text.count(EVIL) >= 5 and EVIL in page.cells
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert f"Utility along {EVIL}" in pictures(text)


def test_one_answer_is_enough():
    text = report.html(study_of({"x": (0.0, 1.0)}, ["a"]))
    Page(text)
    picture = pictures(text)["Certainty over the number of answers"]
    assert len(marked(picture, "end")) == 2
    assert "1 answer, 2 events." in text and "All designs are linked by answers" in text


@pytest.mark.parametrize("words", [["tie", "tie"], ["skip", "a", "skip"], ["tie", "skip"]])
def test_ties_and_skips(words):
    text = report.html(study_of({"x": (0.0, 1.0), "y": (0.0, 1.0)}, words))
    Page(text)
    graph = next(one for label, one in pictures(text).items() if label.startswith("The comparison graph"))
    assert len(marked(graph, "answer")) == sum(word != "skip" for word in words)
    assert len(marked(graph, "tie")) == words.count("tie")


def test_choices_only():
    text = report.html(study_of({"flag": [True, False], "size": [10, 1, 5]}, ["a", "b", "a", "a"]))
    Page(text)
    found = pictures(text)
    for name, labels in (("flag", ["True", "False"]), ("size", ["10", "1", "5"])):
        picture = found[f"Utility along {name}"]
        assert [one.text for one in marked(picture, "axis")] == labels
        assert len(marked(picture, "whisker")) == len(labels) and not marked(picture, "band")


def test_a_choice_of_true_and_one_has_one_ring():
    picture = pictures(report.html(study_of({"x": [True, 1, "one"]}, ["a"])))["Utility along x"]
    assert len(marked(picture, "here")) == 1 and len(marked(picture, "dot")) == 2


def test_a_study_without_answers_is_refused_in_words():
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    with pytest.raises(ks.KappaSharpError, match="has no answers yet"):
        report.html(study)


def test_labels_keep_apart_and_fit():
    assert charts._apart([100.0, 20.0, 101.0]) == [100.0, 20.0, 115.0]
    assert charts._apart([50.0, 50.0]) == [50.0, 65.0]
    assert charts.cut("abcdef", 4 * charts.LETTER) == "abc…" and charts.cut("abcd", 4 * charts.LETTER) == "abcd"
    many = [f"choice {i}" for i in range(30)]
    picture = pictures(report.html(study_of({"x": many}, ["a"])))["Utility along x"]
    assert len(marked(picture, "axis")) == 1 and len(marked(picture, "whisker")) == 30
