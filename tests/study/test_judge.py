"""Judges that are functions: both orders, limits, what is known already, what is left for people, what is stored."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import kappasharp as ks
from kappasharp.acquisition import line
from kappasharp.errors import CorruptedError, InvalidTypeError, InvalidValueError, JudgeError
from kappasharp.exchange import study_json
from kappasharp.questions import kind as questions_kind
from kappasharp.questions.kind import parse
from kappasharp.study import judge as study_judge
from kappasharp.study.judge import JudgeReport, Judging

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def new(**options):
    return ks.create_study(SPACE, storage="sqlite://", **options)


def away(params, ideal=0.3):
    return abs(params["x"] - ideal) + 0.01 * params["y"]


def near(question):
    """A judge of every kind with one taste."""
    far = [away(one.params) for one in question.designs]
    order = sorted(range(len(far)), key=far.__getitem__)
    along = line.at(torch.tensor([list(one.params.values()) for one in question.designs]), torch.linspace(0, 1, 301))
    return {
        "pair": "abcd"[order[0]],
        "choice": order[0],
        "order": order,
        "rating": 2 if far[0] < far[1] else -2,
        "slider": min(range(301), key=lambda i: away(dict(zip("xy", along[i].tolist(), strict=True)))) / 300,
    }[question.kind]


def first(question):
    """A judge that only looks at the order."""
    return {"pair": "a", "choice": 0, "order": list(range(len(question.designs))), "rating": 3, "slider": 0.0}[
        question.kind
    ]


class Calls:
    """A judge that counts, with pauses that are told and not made."""

    def __init__(self, judge, study, **rules):
        self.judge, self.study, self.rules = judge, study, ks.JudgeRules(**rules)
        self.asked, self.paused, self.said = [], [], []

    def __call__(self, question):
        self.asked.append(question)
        return self.judge(question)

    def run(self, questions, voter="judge") -> JudgeReport:
        self.judging = Judging(
            self.study, self, self.rules, voter=voter, say=self.said.append, pause=self.paused.append
        )
        return self.judging.run(questions)


@pytest.mark.parametrize("question", ["pair", "choice:3", "order:4", "rating", "slider"])
def test_every_kind_is_asked_in_both_orders(question):
    study = new(question=question)
    judge = Calls(near, study)
    report = judge.run(4)
    assert (report.answers, report.skips, report.calls, report.disagreed) == (4, 0, 8, 0)
    for one, other in zip(judge.asked[::2], judge.asked[1::2], strict=True):
        assert one.designs == other.designs[::-1] and one.designs != other.designs
    biased = Calls(first, study)
    report = biased.run(2, voter="biased")
    assert report.disagreed == 2
    told = [one.answer for one in study.history.comparisons.values() if one.voter == "biased"]
    expected = {"pair": "tie", "choice:3": "skip", "order:4": [[0, 1, 2, 3]], "rating": 0, "slider": "skip"}
    assert told == [expected[question]] * 2


def test_who_looks_at_places_alone_is_told_of():
    fair, biased = Calls(near, new()), Calls(first, new())
    assert fair.run(study_judge.BY_PLACE).disagreed == 0 and not fair.said
    assert biased.run(study_judge.BY_PLACE).disagreed == study_judge.BY_PLACE
    (told,) = biased.said
    assert told.startswith("The two orders of all 5 questions disagree") and "as 'judge' tells nothing" in told


def test_what_two_answers_say_together():
    pair, rating, slider, order = (parse(name) for name in ("pair", "rating", "slider:2", "order:4"))
    assert questions_kind.together(pair, "a", "a") == ("a", True) and questions_kind.together(pair, "a", "tie") == (
        "tie",
        False,
    )
    assert questions_kind.together(pair, "a", "skip") == ("skip", False)
    assert questions_kind.together(rating, 3, 1) == (1, True) and questions_kind.together(rating, 3, 0) == (0, False)
    assert questions_kind.together(slider, 0.25, 0.375) == (0.3125, True)
    # The same distance is three times as long on a line through four designs.
    assert questions_kind.together(parse("slider:4"), 0.25, 0.375) == ("skip", False)
    assert questions_kind.together(parse("slider:4"), 0.25, 0.3125) == (0.28125, True)
    # Neither names the last: nothing is said of it but that it comes last.
    assert questions_kind.together(order, [2, 0, 1], [2, 1, 0]) == ([2, [0, 1]], True)
    assert questions_kind.together(order, [2], [2]) == ([2], True) and questions_kind.together(order, [0], [1]) == (
        [[0, 1]],
        False,
    )
    for form, answer in ((pair, "a"), (rating, -2), (slider, 0.25), (order, [2, [0, 3], 1]), (parse("choice:4"), 1)):
        assert (
            questions_kind.turned(form, questions_kind.turned(form, answer))
            == answer
            != questions_kind.turned(form, answer)
        )


def test_nothing_is_paid_for_twice_and_a_limit_leaves_the_question_open():
    study = new()
    judge = Calls(near, study, calls=5)
    report = judge.run(10)
    assert (report.ended, report.calls, report.answers) == ("calls", 5, 2)
    waiting = study.history.open_pair("judge")
    # Another start: the open question, of which one order is known.
    again = Calls(near, ks.import_json(_exported(study), storage="sqlite://"), calls=5)
    report = again.run(1)
    assert (report.calls, report.known, report.answers) == (1, 1, 1)
    assert [one.params for one in again.asked[0].designs] == [waiting.b, waiting.a]
    # Asked again it would say the same: a repeat waits for people, and the same pair taken back costs nothing.
    again.study.ask_again(waiting.number)
    again.study.undo("judge")
    report = again.run(1)
    assert (report.calls, report.known, report.answers) == (0, 2, 1)
    assert len(again.study.history.queue) == 1
    again.run(1)
    assert len(again.study.history.queue) == 1 and again.study.ask("anna").origin == "again"


def _exported(study):
    return study.export(_exported.folder / f"{study.stored.uid}.json")


@pytest.fixture(autouse=True)
def folder(tmp_path):
    _exported.folder = tmp_path


def test_the_same_answer_does_not_count_twice():
    study = ks.create_study({"c": ["p", "q"]}, storage="sqlite://")
    report = Calls(lambda question: "tie", study).run(3)
    assert (report.answers, report.skips, report.calls) == (1, 2, 2)


def test_rate_and_time(monkeypatch):
    study = new()
    clock = itertools.count(step=0.125)  # it is looked at three times from one call to the next
    monkeypatch.setattr(study_judge, "time", SimpleNamespace(monotonic=clock.__next__))
    judge = Calls(near, study, per_minute=60, twice=False)
    assert judge.run(3).calls == 3
    # The pauses are not made here: the second is counted from when the first would have ended.
    assert judge.paused == [1.0 - 0.375, 2.0 - 0.75]
    report = Calls(near, study, per_minute=1, seconds=20, twice=False).run(5)
    assert (report.ended, report.calls) == ("seconds", 1)


def test_failures_are_tried_again_counted_and_told():
    study = new()
    troubles = iter([ValueError("no money"), "rubbish", None, {"answer": "a", "sure": 1}])

    def sometimes(question):
        trouble = next(troubles, None)
        if isinstance(trouble, Exception):
            raise trouble
        return trouble or near(question)

    judge = Calls(sometimes, study, retries=2, backoff=2.0)
    report = judge.run(2)
    assert (report.answers, report.failed_calls, report.failed_questions, report.calls) == (2, 3, 0, 7)
    assert judge.paused == [2.0, 4.0, 2.0]
    raised, rubbish, unknown = judge.said
    assert "raised ValueError: 'no money'" in raised and "must be 'a', 'b', 'tie' or 'skip'" in rubbish
    assert "must give `answer`" in unknown and all("tried again in" in one for one in judge.said)


def test_too_many_failures_stop_it_with_the_question_open():
    study = new()
    judge = Calls(lambda question: 1 / 0, study, retries=0, failures=3)
    with pytest.raises(JudgeError, match=r"ZeroDivisionError.*stays open for 'judge'"):
        judge.run(9)
    report = judge.judging.report
    assert (report.ended, report.failed_questions, report.skips, len(judge.said)) == ("failures", 3, 2, 2)
    assert study.history.open_pair("judge") is not None and not study.history.counted()
    # It goes on from there.
    assert Calls(near, study).run(1).answers == 1
    with pytest.raises(JudgeError, match=r"within 0\.05 seconds"):
        Calls(lambda question: __import__("threading").Event().wait(60), study, retries=0, call_seconds=0.05).run(1)


def test_ctrl_c_leaves_a_study_that_goes_on():
    study = new()

    def interrupted(seconds):
        raise KeyboardInterrupt

    judge = Calls(near, study, per_minute=1)
    judge.paused = type("Pauses", (), {"append": staticmethod(interrupted)})
    with pytest.raises(KeyboardInterrupt):
        judge.run(3)
    report = judge.judging.report
    assert (report.ended, report.calls, report.answers) == ("interrupted", 1, 0)
    assert Calls(near, study).run(1).known == 1 and len(study.history.counted()) == 1


class TestLeftForPeople:
    def left(self, judge, study, voter="judge"):
        report = Calls(judge, study, unsure="leave").run(1, voter)
        return report.left

    def test_where_it_is_unsure(self):
        study = new()
        assert self.left(lambda question: {"answer": near(question), "confidence": 0.9}, study) == 0
        assert self.left(lambda question: {"answer": near(question), "confidence": 0.4}, study) == 1
        assert self.left(first, study) == 1 and self.left(lambda question: "skip", study) == 1
        queue = [one for one in study.history.queue.values() if one.people]
        assert len(queue) == 3
        # No program is asked what was left, another neither; people are, first.
        assert self.left(near, study, "other") == 0 and len(study.history.queue) == 3
        pair = study.ask("anna")
        assert (pair.origin, pair.designs) == ("queue", queue[0].designs) and len(study.history.queue) == 2

    def test_no_more_than_people_can_answer(self):
        study = new()
        report = Calls(first, study, unsure="leave", waiting=3).run(9)
        assert (report.ended, report.left, report.questions) == ("waiting", 3, 3)
        study.ask("anna")
        assert Calls(first, study, unsure="leave", waiting=3).run(9).left == 1

    def test_where_people_would_say_otherwise(self):
        study = new()

        def opposite(question):
            return "b" if near(question) == "a" else "a"

        assert self.left(opposite, study) == 0  # nobody can tell yet
        for _ in range(14):
            pair = study.ask("anna")
            study.tell(pair, "a" if away(pair.a) < away(pair.b) else "b")
        far = [{"x": 0.3, "y": 0.5}, {"x": 0.95, "y": 0.5}]
        study.enqueue(*far)
        assert self.left(opposite, study) == 1
        study.enqueue(far[0], {"x": 0.9, "y": 0.4}, people=False)
        assert Calls(near, study, unsure="leave").run(2).left <= 1  # the first of them waits for people
        with pytest.raises(InvalidTypeError, match="`people` must be True or False"):
            study.enqueue(*far, people=1)

    def test_of_every_kind(self):
        for question in ("choice:3", "order:3", "slider", "rating"):
            study = new(question=question)
            assert self.left(first, study) == 1
            again = ks.import_json(_exported(study), storage="sqlite://")
            assert again.ask("anna").form == parse(question)


def test_a_program_is_marked_everywhere_and_old_studies_are_as_they_were(tmp_path):
    study = new(study_name="s")
    for _ in range(4):
        pair = study.ask("anna")
        study.tell(pair, "a" if away(pair.a) < away(pair.b) else "b")
    before = study.plain()
    assert before["version"] == study_json.PAIRS_VERSION and "program" not in study.rows("comparisons")[0]
    assert ks.optimize(study, judge=near, n=4) is study
    assert [row["program"] for row in study.rows("comparisons")] == [False] * 4 + [True] * 4
    assert {one.voter: one.program for one in study.agreement().voters} == {"anna": False, "judge": True}
    assert study.history.programs.about == {"judge": "near"}
    (listed,) = ks.list_studies(storage=study.storage)
    assert (listed.voters, listed.programs) == (2, 1)
    after = study.plain()
    assert (
        after["version"] == study_json.PROGRAMS_VERSION == 6
        and after["events"][: len(before["events"])] == before["events"]
    )
    with pytest.raises(InvalidValueError, match="a person has answered as 'anna'"):
        ks.optimize(study, judge=near, n=1, voter="anna")
    # A table of answers says it too, and who reads it hears it.
    copy, path = new(study_name="copy"), study.export(tmp_path / "answers.csv")
    copy.import_csv(path)
    assert [row["program"] for row in copy.rows("comparisons")] == [False] * 4 + [True] * 4
    ks.optimize(copy, judge=near, n=1)
    copy.import_csv(path)
    assert copy.history.programs.about == {"judge": "near"} and len(copy.history.counted()) == 17
    copy.tell(copy.ask("bo"), "a")
    number = copy.history.number
    with pytest.raises(InvalidValueError, match="a person has answered as 'bo'"):
        copy.import_text(path.read_text().replace("judge", "bo"), "me")
    assert copy.history.number == number
    self_made = {"judged": {"confidence": 2}, "joined": {"about": ""}}
    for kind, change in self_made.items():
        number = next(i for i, one in enumerate(after["events"]) if one["kind"] == kind)
        events = [dict(one) for one in after["events"]]
        events[number] = events[number] | {"body": events[number]["body"] | change}
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps(study_json.sealed(after | {"events": events})))
        with pytest.raises(CorruptedError, match=f"event {number + 1} could not have happened"):
            ks.import_json(path, storage="sqlite://")


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"unsure": "ask"}, "'answer' or 'leave'"),
        ({"confidence": 2}, "`confidence` must be from 0 to 1"),
        ({"retries": -1}, "`retries` must be from 0"),
        ({"calls": 0}, "`calls` must be from 1"),
        ({"per_minute": 0}, "`per_minute` must be a number above 0"),
        ({"call_seconds": float("nan")}, "`call_seconds` must be"),
        ({"twice": 1}, "`twice` must be True or False"),
    ],
)
def test_bad_rules(rules, words):
    with pytest.raises((InvalidValueError, InvalidTypeError), match=words):
        replace(ks.JudgeRules(), **rules)


def test_rules_keep_pythons_own_numbers():
    assert type(ks.JudgeRules(calls=np.int64(5)).calls) is int


def test_optimize_takes_one_of_the_two():
    with pytest.raises(InvalidValueError, match="`prefer`, or `judge`"):
        ks.optimize(SPACE)
    with pytest.raises(InvalidTypeError, match="a function of a question, or a command"):
        ks.optimize(SPACE, judge=3)
    with pytest.raises(InvalidTypeError, match=r"`rules` must be a `JudgeRules`"):
        ks.optimize(SPACE, judge=near, n=1, rules={"calls": 3})
    with pytest.warns(UserWarning, match="2 have answers. It reached its limit: calls"):
        ks.optimize(SPACE, judge=near, n=9, rules=ks.JudgeRules(calls=5))
    study = ks.optimize(SPACE, judge=near, n=3)
    assert len(study.history.counted()) == 3
    assert len(ks.optimize(study, lambda a, b: away(a) < away(b), 2).history.counted()) == 5


@pytest.mark.parametrize(
    "given",
    [{"storage": "sqlite:///x.db"}, {"study_name": "x"}, {"seed": 1}, {"method": "adaptive"}, {"preset": "paper"},
     {"first_pairs": 3}, {"load_if_exists": True}],
)  # fmt: skip
def test_what_makes_a_study_is_refused_of_one_that_goes_on(given):
    study = ks.create_study(SPACE, storage="sqlite://")
    with pytest.raises(InvalidValueError, match=f"`{next(iter(given))}` must be left out for a study that goes on"):
        ks.optimize(study, judge=near, n=1, **given)
    assert not study.history.counted()
