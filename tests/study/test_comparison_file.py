"""Past comparisons from CSV: what export writes comes back, spreadsheets' habits are met, bad lines are named."""

import pytest

import kappasharp as ks
from kappasharp.errors import InvalidValueError, KappaSharpError
from tests.study.test_parameters import answered, say

ODD = {"x": (0.0, 1.0), "=how": ["=A1", "+b", "plain", None, True, 3], "maker": {"value": "-us"}}


def pairs(study):
    return [
        (study.history.options[one.better], study.history.options[one.other], one.tie)
        for answer in study.history.counted()
        for one in answer.edges
    ]


def test_what_was_exported_comes_back(tmp_path):
    """Defused cells, an empty choice, ties and skips among it; who answered is kept."""
    study = ks.create_study(ODD, storage="sqlite://")
    for turn, answer in enumerate(["a", "b", "tie", "skip", "a", "b"]):
        study.tell(study.ask("ann" if turn % 2 else "me"), answer)
    study.add_comparison({"x": 0.1, "=how": None}, {"x": 0.1, "=how": "=A1"})
    path = study.export(tmp_path / "past.csv")
    assert "'=A1" in path.read_text()
    copy = ks.create_study(ODD, storage="sqlite://")
    assert copy.import_csv(path) == (6, 6, 1)
    assert pairs(copy) == pairs(study)
    voters = [one.voter for one in study.history.counted()]
    assert [one.voter for one in copy.history.counted()] == voters


def test_other_kinds_are_taken_as_the_comparisons_that_they_say(tmp_path):
    study = answered(0)
    for kind in ("choice", "order", "rating", "slider", "pair", "order"):
        question = study.ask(kind=kind, designs=3 if kind in ("choice", "order") else None)
        study.tell(question, [0, [1, 2]] if kind == "order" else say(question))
    path = study.export(tmp_path / "past.csv")
    copy = answered(0)
    found = copy.import_csv(path)
    slider = next(one for one in study.history.counted() if one.kind == "slider")
    left = study.history.options[slider.options[0]]
    said = [pair for pair in pairs(copy) if left not in pair[:2]]
    assert said == pairs(study) and found.answers == 6 and any(pair[0] == left for pair in pairs(copy))


@pytest.mark.parametrize(
    "text",
    [
        "a.x,a.n,b.x,b.n,answer\n0.5,1,0.25,3,a\n",
        "\ufeffa.x;a.n;b.x;b.n;answer;remark\r\n0,5;1;0,25;3;A;so, so\r\n\r\n",
        "winner.x\tloser.x\twinner.n\tloser.n\n0.5\t0.25\t1\t3\n",
        '"b_params_x","b_params_n","a_params_x","a_params_n","answer"\n"0.5","1","0.25","3.0","b"\n',
    ],
)
def test_as_spreadsheets_write_it(text, tmp_path):
    (tmp_path / "past.csv").write_bytes(text.encode())
    study = ks.create_study({"x": (0.0, 1.0), "n": ks.Int(1, 4)}, storage="sqlite://")
    study.import_csv(tmp_path / "past.csv", voter="ann")
    assert pairs(study) == [({"x": 0.5, "n": 1}, {"x": 0.25, "n": 3}, False)]
    assert [one.voter for one in study.history.counted()] == ["ann"]


def test_every_bad_line_is_named_and_nothing_is_stored():
    study = ks.create_study({"x": (0.0, 1.0), "m": ["oak", "elm"]}, storage="sqlite://")
    lines = [
        "0,oak,1,oak,a",
        "0,oak,2,oak,a",
        "0,ash,1,oak,a",
        "0,oak,1,oak,left",
        "zero,oak,1,oak,a",
        "0,oak,0,oak,a",
        "0,oak,1",
    ]
    with pytest.raises(KappaSharpError) as error:
        study.import_text("a.x,a.m,b.x,b.m,answer\n" + "\n".join(lines), "me")
    said = str(error.value)
    for part in (
        "6 lines of the file",
        "line 3: `x` must be from 0 to 1, but got 2",
        "line 4: `a.m` must be one of ['oak', 'elm'], but got 'ash'",
        "line 5: `answer` must be a, b, tie or skip, but got 'left'",
        "line 6: `a.x` must be a number, but got 'zero'",
        "line 7: the designs of an answer must differ",
        "line 8: `b.m` must be one of",
        "Nothing was stored",
    ):
        assert part in said, said
    assert study.history.number == 0


@pytest.mark.parametrize("cell", ["", "nan", "0 >", "left", "[[["])
@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        (
            "order",
            "an order of 3 must be numbers from 0 to 2, best first with > and = between them ('2 > 0 = 1'), or 'skip'",
        ),
        ("choice", "a choice of 3 must be the best design's number, 0 to 2, or 'skip'"),
        ("slider", "a slider through 3 must be a number from 0 to 1, or 'skip'"),
        ("rating", "a rating must be a whole number from -3 to 3, or 'skip'"),
    ],
)
def test_an_answer_that_is_none_is_told_what_its_kind_needs(kind, needs, cell):
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    with pytest.raises(KappaSharpError) as error:
        study.import_text(f"a.x,b.x,c.x,kind,answer\n0,1,0.5,{kind},{cell}\n", "me")
    assert f"line 2: `answer` to {needs}, but got {cell!r}." in str(error.value)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("0.1,,0.3,0.4,,,,slider,0.5", "without a gap"),
        ("0.1,0.2,0.3,0.4,0.5,0.6,0.7,slider,0.5", "must have 2 to 6 designs, but got 7"),
        ("0.1,0.2,,,,,,choice,0", "must have 3 to 9 designs, but got 2"),
    ],
)
def test_an_answer_has_as_many_designs_as_its_kind(row, why):
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    with pytest.raises(KappaSharpError, match=why):
        study.import_text(f"a.x,b.x,c.x,d.x,e.x,f.x,g.x,kind,answer\n{row}\n", "me")
    assert study.history.number == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("a.x,answer\n0,a\n", "b.x is missing"),
        ("a.x,b.x\n0,1\n", "answer is missing"),
        ("a.x,b.x,answer\n", "must hold a comparison"),
        ("a.x,b.x,answer\n0,1,skip\n", "must hold a comparison"),
        ('a.x,b.x,answer\n0,"1,a\n', "line"),
        ("a.x,b.x,answer\n0,1,[[[[[\n", "`answer` must be"),
        ("a.x,b.x,answer\n0,1e999,a\n", "finite"),
        ("a.x,b.x,answer,voter\n0,1,a,\x07\n", "printable"),
    ],
)
def test_files_that_are_none(text, why):
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    with pytest.raises(KappaSharpError, match=why):
        study.import_text(text, "me")
    assert study.history.number == 0


def test_measured_outcomes_come_back_where_none_are_known(tmp_path):
    space, outcomes = {"width": (10.0, 60.0)}, ["mass", "comfort"]
    study = ks.create_study(space, storage="sqlite://", outcomes=outcomes)
    for number in range(4):
        pair = study.ask()
        study.record(pair.a, {"mass": 3.5 + number, "comfort": 0.25})
        study.record(pair.b, {"mass": 7.0})
        study.tell(pair, "a")
    path = study.export(tmp_path / "past.csv")
    copy = ks.create_study(space, storage="sqlite://", outcomes=outcomes)
    first = study.history.options[0]
    copy.record(first, {"mass": 1.0})
    copy.import_csv(path)
    known = {str(design): study.outcomes(design) for design in study.history.options}
    for design in copy.history.options:
        assert copy.outcomes(design) == ({"mass": 1.0} if design == first else known[str(design)])
    text = path.read_text().replace("7.0", "heavy")
    with pytest.raises(InvalidValueError, match="the outcome mass must be a number, but got 'heavy'"):
        copy.import_text(text, "me")
    plain = ks.create_study(space, storage="sqlite://")
    assert plain.import_csv(path).answers == 4
