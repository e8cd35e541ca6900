"""One call of a judge: what it gets, what it must give, and in sentences what may go wrong with it."""

import json
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from queue import Empty, SimpleQueue
from typing import Any

from kappasharp.errors import InvalidValueError, KappaSharpError
from kappasharp.processes import run_command
from kappasharp.study import events, kinds
from kappasharp.study.kinds import Answer, Form
from kappasharp.study.outcomes import Values
from kappasharp.study.space import Design

# Letters of a program's own words in a sentence.
LONGEST_WORDS = 200


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


class CallFailed(Exception):
    """A call brought no answer; its sentence says why. One that is `final` would fail again."""

    def __init__(self, sentence: str, *, final: bool = False) -> None:
        super().__init__(sentence)
        self.final = final


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
        return kinds.given(form, given), events.confidence(confidence)
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
