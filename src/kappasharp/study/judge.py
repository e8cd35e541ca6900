"""Judges that are programs: a function or a command answers the questions of a study as a voter, within limits.

Every question is asked twice, the designs the other way round the second time. What was said is an event, so that
nobody pays for it again; an answer is made of both, or the question is left for people.
"""

import json
import math
import shlex
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from kappasharp.engine import engine
from kappasharp.errors import InvalidTypeError, InvalidValueError, JudgeError, KappaSharpError, StalePairError
from kappasharp.journal import events
from kappasharp.journal.events import Judged
from kappasharp.journal.history import History, design_key
from kappasharp.journal.question import StudyQuestion
from kappasharp.processes import run_command
from kappasharp.questions import kind
from kappasharp.questions.kind import SKIP, Answer, Form, Kind
from kappasharp.settings import JUDGE
from kappasharp.space.outcomes import Values
from kappasharp.space.space import Design
from kappasharp.study.study import Study

if TYPE_CHECKING:
    from kappasharp.engine import FittedModel


Unsure = Literal["answer", "leave"]
# The model of people's answers gives what the judge says less than this chance: they are asked themselves.
AGAINST = 0.25
# So many questions, and all of them with two orders that disagree: its answers are about places, not designs.
BY_PLACE = 5
# The longest pause before another try.
LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class JudgeRules:
    """Within which limits a judge is asked, and what becomes of its answers.

    Args:
        twice: whether every question is asked once more with its designs the other way round.
        unsure: where the judge is unsure, "answer" all the same (a pair is then a tie where its two orders
            disagree), or "leave" the question for people.
        confidence: with "leave", the confidence below which it is unsure, if it says one.
        waiting: with "leave", how many questions may wait for people; with so many it stops until they have answered.
        calls: how many calls there may be in all, tries among them; None for any number.
        seconds: after so many no call begins.
        per_minute: how many calls may begin in a minute.
        retries: how often a call that failed is tried again.
        backoff: seconds before the first of these; each further one waits twice as long.
        call_seconds: how long one call may take.
        failures: after so many questions in a row that failed, all tries included, it stops; the last stays open.
    """

    twice: bool = True
    unsure: Unsure = "answer"
    confidence: float = 0.6
    waiting: int = 10
    calls: int | None = None
    seconds: float | None = None
    per_minute: float | None = None
    retries: int = 2
    backoff: float = 1.0
    call_seconds: float | None = 60.0
    failures: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.twice, bool):
            raise InvalidTypeError(f"`twice` must be True or False, but got {self.twice!r}.")
        if self.unsure not in get_args(Unsure):
            raise InvalidValueError(f"`unsure` must be 'answer' or 'leave', but got {self.unsure!r}.")
        events.confidence(self.confidence)
        for name, least in (("calls", 1), ("waiting", 1), ("retries", 0), ("failures", 1)):
            if getattr(self, name) is not None or name != "calls":
                object.__setattr__(self, name, events.whole(name, getattr(self, name), least))
        for name in ("seconds", "per_minute", "backoff", "call_seconds"):
            value = getattr(self, name)
            if value is None and name != "backoff":
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not number or value < 0 or (value == 0 and name != "backoff"):
                raise InvalidValueError(f"`{name}` must be a number above 0, but got {value!r}.")


@dataclass
class JudgeReport:
    """What a judge did: questions, the answers and skips among them, and those left for people; calls, what was known
    already, questions whose two orders disagreed, failed calls, failed questions, and why it ended."""

    questions: int = 0
    answers: int = 0
    skips: int = 0
    left: int = 0
    calls: int = 0
    known: int = 0
    disagreed: int = 0
    failed_calls: int = 0
    failed_questions: int = 0
    ended: str = "questions"

    def __str__(self) -> str:
        asked = (
            f"The judge was asked {self.questions} questions in {self.calls} calls, and {self.answers} have answers."
        )
        trouble = (
            f" {self.failed_calls} calls and {self.failed_questions} questions failed." if self.failed_calls else ""
        )
        return asked + trouble + ("" if self.ended == "questions" else f" It reached its limit: {self.ended}.")


class _Over(Exception):
    """A limit of the whole is reached; the question stays open."""


class Opinion(NamedTuple):
    """What a judge says of a question, both orders considered; the lower confidence of the two."""

    answer: Answer
    confidence: float | None
    agree: bool


# One call of a judge: what it gets, what it must give, and in sentences what may go wrong with it.


@dataclass(frozen=True)
class JudgedDesign:
    """A design as a judge gets it: parameters, outcomes where they are known, and a file with its picture."""

    params: Design
    outcomes: Values | None = None
    picture: str | None = None


@dataclass(frozen=True)
class JudgeQuestion:
    """What a judge gets: the kind of question, its designs in this order, and in words what may be answered."""

    study: str
    kind: str
    answers: str
    designs: tuple[JudgedDesign, ...]


Judge = Callable[[JudgeQuestion], Any]
Draw = Callable[[Design], str | None]
Notice = Callable[[StudyQuestion, Answer, str | None], None]


class Command:
    """A command as a judge: the question as JSON on its standard input, its answer on its standard output."""

    def __init__(self, command: str, environment: Mapping[str, str] | None = None) -> None:
        try:
            self.words = shlex.split(command)
        except ValueError as error:
            raise InvalidValueError(f"The command {command!r} cannot be read: {error}.") from error
        if not self.words or shutil.which(self.words[0]) is None:
            named = self.words[0] if self.words else command
            raise InvalidValueError(
                f"The judge must be a program that can be run, but there is no {named!r} here; a script needs its "
                "interpreter before it ('python judge.py') or a path and the right to run it ('./judge.py')."
            )
        self.environment = environment

    def __call__(self, question: JudgeQuestion, seconds: float | None) -> Any:
        """What it prints, as the value that it stands for."""
        given = json.dumps(asdict(question), ensure_ascii=False).encode()
        try:
            ended = run_command(self.words, given, seconds=seconds, environment=self.environment)
        except OSError as error:
            raise CallFailed(f"The judge could not be started: {error.strerror or error}.", final=True) from error
        if ended.late:
            raise CallFailed(f"The judge must answer within {seconds:g} seconds, but it took longer and was ended.")
        if ended.endless:
            raise CallFailed("The judge must print one answer, but it printed without end; it was ended.")
        if ended.code:
            said = ended.errors.decode("utf-8", "replace").strip().splitlines()
            words = f" It said: {_cut(said[-1])}" if said else ""
            raise CallFailed(f"The judge must end with code 0, but it ended with {ended.code}.{words}")
        return printed(ended.output)


class CallFailed(Exception):
    """A call brought no answer; its sentence says why. One that is `final` would fail again."""

    def __init__(self, sentence: str, *, final: bool = False) -> None:
        super().__init__(sentence)
        self.final = final


class Judging:
    """A judge at work on a study; `report` says what it has done, also after an error or Ctrl-C."""

    def __init__(
        self,
        study: Study,
        judge: Judge | Command,
        rules: JudgeRules | None = None,
        *,
        voter: str = JUDGE,
        about: str | None = None,
        kind: str | None = None,
        draw: Draw | None = None,
        say: Callable[[str], None] = warnings.warn,
        notice: Notice = lambda *_: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        if not callable(judge):
            raise InvalidTypeError(f"`judge` must be a function of a question, or a command, but got {judge!r}.")
        if rules is not None and not isinstance(rules, JudgeRules):
            raise InvalidTypeError(f"`rules` must be a `JudgeRules`, such as JudgeRules(calls=3), but got {rules!r}.")
        self.study, self.judge, self.rules, self.voter = study, judge, rules or JudgeRules(), events.voter(voter)
        self.about = about or _name(judge)
        self.kind, self.draw, self.say, self.notice, self.pause = kind, draw, say, notice, pause
        self.report = JudgeReport()
        self._began = time.monotonic()
        self._last_call: float | None = None
        self._failed_in_a_row = 0
        self._of_people: tuple[Any, FittedModel] | None = None

    def run(self, questions: int) -> JudgeReport:
        """Have so many questions judged; a limit, or too many failures, may end it sooner."""
        self._began = time.monotonic()
        self.study.join_as_program(self.voter, self.about)
        self.report.ended = "interrupted"
        try:
            for _ in range(questions):
                self._one()
            self.report.ended = "questions"
        except _Over as over:
            self.report.ended = str(over)
        except JudgeError:
            self.report.ended = "failures"
            raise
        self._say_if_by_place()
        return self.report

    def _say_if_by_place(self) -> None:
        asked = self.report.questions
        if asked >= BY_PLACE and self.report.disagreed == asked:
            self.say(
                f"The two orders of all {asked} questions disagree: this judge seems to answer by the place of a "
                f"design, not by the design. What was stored of it as {self.voter!r} tells nothing of a taste."
            )

    def _one(self) -> None:
        if self.rules.unsure == "leave":
            waiting = self.study.read(lambda history: sum(one.people for one in history.queue.values()))
            if waiting >= self.rules.waiting:
                # The model learns nothing from a question that waits: more of them would be about the same.
                raise _Over("waiting")
        question = self.study.ask(self.voter, kind=self.kind)
        try:
            opinion = self._opinion(question)
        except CallFailed as failed:
            self._fail(question, failed)
            return
        self._failed_in_a_row = 0
        self.report.disagreed += not opinion.agree
        why = self._doubt(question, opinion) if self.rules.unsure == "leave" else None
        if why is not None:
            self._leave(question, why)
        elif self._has_answered(question):
            self._tell(question, SKIP, "it has answered the same question before")
        else:
            self._tell(question, opinion.answer, None if opinion.agree else "its two orders disagree")

    def _opinion(self, question: StudyQuestion) -> Opinion:
        form, designs = question.form, question.designs
        first = self._verdict(form, designs)
        if not self.rules.twice or first.answer == SKIP:
            return Opinion(first.answer, first.confidence, True)
        second = self._verdict(form, designs[::-1])
        both = kind.together(form, first.answer, kind.turned(form, second.answer))
        sure = [one.confidence for one in (first, second) if one.confidence is not None]
        return Opinion(both.answer, min(sure, default=None), both.agree)

    def _verdict(self, form: Form, designs: Sequence[Design]) -> Judged:
        """What the judge says of these designs in this order, or said before."""
        known = self.study.read(lambda history: history.programs.verdict(self.voter, form, designs))
        if known is not None:
            self.report.known += 1
            return known
        shown = tuple(JudgedDesign(dict(one), self.study.outcomes(one), self._picture(one)) for one in designs)
        began = time.monotonic()
        asked = JudgeQuestion(self.study.name, form.kind.value, kind.allowed(form), shown)
        answer, confidence = self._called(form, asked)
        a, b, *more = designs
        seconds = round(time.monotonic() - began, 3)
        verdict = Judged(a, b, answer, confidence, seconds, question=form.kind.value, more=more)
        self.study.keep_verdict(self.voter, verdict)
        return verdict

    def _picture(self, design: Design) -> str | None:
        return None if self.draw is None else self.draw(design)

    def _called(self, form: Form, asked: JudgeQuestion) -> tuple[Answer, float | None]:
        """The answer to one call, or to one of the tries after it."""
        for tried in range(self.rules.retries + 1):
            self._wait()
            try:
                return understood(form, self._given(asked))
            except CallFailed as failed:
                self.report.failed_calls += 1
                if failed.final or tried == self.rules.retries:
                    raise
                pause = min(self.rules.backoff * 2**tried, LONGEST_PAUSE)
                self.say(f"{failed} It is tried again in {pause:g} seconds.")
                self.pause(pause)
        raise AssertionError("a try returns or raises")

    def _given(self, asked: JudgeQuestion) -> Any:
        limit = self.rules.call_seconds
        if isinstance(self.judge, Command):
            return self.judge(asked, limit)
        return in_time(self.judge, asked, limit)

    def _wait(self) -> None:
        """Until a call may begin; no longer than all may take."""
        rules, now = self.rules, time.monotonic()
        if rules.calls is not None and self.report.calls >= rules.calls:
            raise _Over("calls")
        wait = 0.0
        if rules.per_minute is not None and self._last_call is not None:
            wait = max(self._last_call + 60.0 / rules.per_minute - now, 0.0)
        if rules.seconds is not None and now + wait - self._began > rules.seconds:
            raise _Over("seconds")
        if wait:
            self.pause(wait)
        self._last_call = now + wait
        self.report.calls += 1

    def _fail(self, question: StudyQuestion, failed: CallFailed) -> None:
        """Go on with the next question, or stop with this one open."""
        self.report.failed_questions += 1
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= self.rules.failures:
            raise JudgeError(
                f"{failed} No answer came to question {question.number}, which stays open for {self.voter!r}; all "
                "before it is stored, and the same call goes on from here."
            )
        self.say(f"{failed} Question {question.number} has no answer of {self.voter!r}.")
        if self.rules.unsure == "leave":
            self._leave(question, "it failed")
        else:
            self._tell(question, SKIP, "it failed")

    def _leave(self, question: StudyQuestion, why: str) -> None:
        """Have people asked, then skip it: in this order nothing is lost, whatever happens between the two."""
        if not self.study.read(lambda history: _waits_for_people(history, question)):
            self.study.enqueue(*question.designs, kind=question.kind, people=True, voter=self.voter)
        self.report.left += 1
        self._tell(question, SKIP, f"left for people: {why}")

    def _tell(self, question: StudyQuestion, answer: Answer, why: str | None) -> None:
        try:
            # Without seconds: how long a program takes says nothing of how clear a question is.
            self.study.tell(question, answer)
        except StalePairError as stale:
            self.say(f"{stale} Somebody else answers as {self.voter!r} too, or what may be asked was changed.")
            return
        self.report.questions += 1
        self.report.skips += answer == SKIP
        self.report.answers += answer != SKIP
        self.notice(question, answer, why)

    def _has_answered(self, question: StudyQuestion) -> bool:
        """Whether the same answer of this judge counts already: counted twice it would seem surer than it is."""
        wanted = {design_key(design) for design in question.designs}

        def same(history: History) -> bool:
            asked = (history.asked[one.pair][0] for one in history.counted() if one.pair and one.voter == self.voter)
            return any(one.form == question.form and {design_key(d) for d in one.designs} == wanted for one in asked)

        return self.study.read(same)

    def _doubt(self, question: StudyQuestion, opinion: Opinion) -> str | None:
        """Why people had better be asked; None where the judge's answer will do."""
        if opinion.answer == SKIP and opinion.agree:
            return "it does not know"
        if not opinion.agree:
            return "its two orders disagree"
        if opinion.confidence is not None and opinion.confidence < self.rules.confidence:
            return f"its confidence is {opinion.confidence:g}"
        chance = self._chance_among_people(question, opinion.answer)
        return None if chance is None or chance >= AGAINST else f"people would say so with a chance of {chance:.0%}"

    def _chance_among_people(self, question: StudyQuestion, answer: Answer) -> float | None:
        """What the model of people's answers alone gives an answer, its least likely part; None before it can tell."""
        model = self._people_model()
        pairs = _better_and_other(question, answer)
        if model is None or not pairs:
            return None
        return min(engine().predict(self.study.definition, model, better, other) for better, other in pairs)

    def _people_model(self) -> "FittedModel | None":
        now = self.study.moment()
        people = {event: one for event, one in now.history.comparisons.items() if not one.program}
        history = replace(now.history, comparisons=people)
        counted = history.counted()
        if len(counted) < max(now.definition.first_pairs, 1):
            return None
        key = (now.space, [(one.event, one.answer) for one in counted])
        if self._of_people is None or self._of_people[0] != key:
            self._of_people = (key, engine().fit(now.definition, history))
        return self._of_people[1]


def _name(judge: Any) -> str:
    """What is stored of a judge: never its words, which may hold keys."""
    if isinstance(judge, Command):
        # Of an interpreter with a script, the script.
        script = next((word for word in judge.words[1:2] if Path(word).is_file()), judge.words[0])
        return Path(script).name
    return str(getattr(judge, "__qualname__", type(judge).__name__))


def _waits_for_people(history: History, question: StudyQuestion) -> bool:
    same = (question.form, question.designs)
    return any(one.people and (one.form, one.designs) == same for one in history.queue.values())


def _better_and_other(question: StudyQuestion, answer: Answer) -> list[tuple[Design, Design]]:
    """What an answer says of two designs, the better first; of a slider, of where it was left and its designs."""
    if answer == SKIP:
        return []
    if question.form.kind is Kind.SLIDER:
        chosen = question.at(float(answer))  # type: ignore[arg-type]
        return [(chosen, one) for one in question.designs if design_key(one) != design_key(chosen)]
    said, designs = kind.said(question.form, answer), question.designs
    return [(designs[i], designs[j]) for (i, j), tie in zip(said.pairs, said.ties, strict=True) if not tie]


# Letters of a program's own words in a sentence.
LONGEST_WORDS = 200


def printed(output: bytes) -> Any:
    """The one answer that a program printed: a word, or JSON."""
    try:
        text = output.decode().strip()
    except UnicodeDecodeError as error:
        raise CallFailed("The judge must print text, but it printed bytes that are none.") from error
    if not text:
        raise CallFailed("The judge must print one answer, but it printed nothing.")
    try:
        return json.loads(text, object_pairs_hook=_table)
    except (ValueError, RecursionError):
        lines = len(text.splitlines())
        if lines > 1:
            raise CallFailed(f"The judge must print one answer, but it printed {lines} lines: {_cut(text)}") from None
        return text


def _table(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of JSON; of an entry that stands there twice nobody can say which is meant."""
    found: dict[str, Any] = {}
    for name, value in entries:
        if name in found:
            both = f"{name}: {found[name]!r}, {name}: {value!r}"
            raise CallFailed(f"The judge must give every entry of its answer once, but gave {_cut(both)}")
        found[name] = value
    return found


def _cut(text: str) -> str:
    words = repr(text)
    return f"{words[:LONGEST_WORDS]}..." if len(words) > LONGEST_WORDS else f"{words}."


def understood(form: Form, given: Any) -> tuple[Answer, float | None]:
    """The answer that a judge gave, and how sure it is where it says so."""
    confidence = None
    if isinstance(given, Mapping):
        unknown = given.keys() - {"answer", "confidence"}
        if unknown or "answer" not in given:
            raise CallFailed(f"The judge must give `answer`, with or without `confidence`, but gave {_cut(str(given))}")
        given, confidence = given["answer"], given.get("confidence")
    try:
        return kind.given(form, given), events.confidence(confidence)
    except KappaSharpError as error:
        raise CallFailed(f"The judge's answer cannot be taken: {error}") from error


def in_time(judge: Callable[[JudgeQuestion], Any], question: JudgeQuestion, seconds: float | None) -> Any:
    """What a function answers; one that takes longer is left behind in its thread, for nothing can end it."""
    results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            results.put((judge(question), None))
        except BaseException as error:
            results.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        found, error = results.get(timeout=seconds)
    except Empty:
        raise CallFailed(f"The judge must answer within {seconds:g} seconds, but it was still running.") from None
    if error is None:
        return found
    raise CallFailed(f"The judge raised {type(error).__name__}: {_cut(str(error))}") from error
