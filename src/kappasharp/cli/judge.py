"""`kappasharp judge`: a program answers as a voter. What computes is imported where it is used."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kappasharp.cli.output import REFUSED, in_format, in_words, say, show
from kappasharp.cli.studies import opened, outcomes_option, question_option, storage_option, study_argument
from kappasharp.errors import InvalidValueError, JudgeError
from kappasharp.messages.message import count
from kappasharp.settings import JUDGE, JUDGED_QUESTIONS

if TYPE_CHECKING:
    from kappasharp.journal.question import StudyQuestion
    from kappasharp.questions.kind import Answer
    from kappasharp.space.space import Design
    from kappasharp.study.judge import JudgeReport, Judging
    from kappasharp.study.study import Study

# What the file of a picture is called at its end.
ENDINGS = {"image/svg+xml": ".svg", "image/jpeg": ".jpg", "audio/mpeg": ".mp3", "text/html; charset=utf-8": ".html"}
ENDED = {
    "questions": "All questions were judged.",
    "calls": "Stopped: no calls are left; the open question waits.",
    "seconds": "Stopped: the time is over; the open question waits.",
    "waiting": "Stopped: enough questions wait for people; once they have answered, the same command goes on.",
    "failures": "Stopped: it failed; the open question waits.",
    "interrupted": "Stopped; what was answered is stored, the open question waits.",
}
COUNTED = ("questions", "answers", "left", "skips", "calls", "known", "disagreed", "failed_calls", "failed_questions")


@click.command()
@study_argument
@click.option("--command", required=True, help="The program: a question comes as JSON on its stdin, it prints a, b …")
@click.option("--questions", default=JUDGED_QUESTIONS, show_default=True, type=click.IntRange(1), help="How many.")
@question_option
@click.option("--voter", default=JUDGE, show_default=True, help="The program's name; another program takes another.")
@click.option("--about", help="A line that says which program it is.  [default: the program's file name]")
@click.option("--once", is_flag=True, help="Ask once, and not once more with the designs the other way round.")
@click.option(
    "--unsure", type=click.Choice(["answer", "leave"]), default="answer", show_default=True,
    help="Where it is unsure: take a tie, or leave the question for people.",
)  # fmt: skip
@click.option("--confidence", default=0.6, show_default=True, help="Below this it is unsure, if it says how sure.")
@click.option(
    "--waiting", default=10, show_default=True, type=click.IntRange(1),
    help="Stop while this many questions wait for people.",
)  # fmt: skip
@click.option("--calls", type=click.IntRange(1), help="Stop after this many calls of the program.")
@click.option("--seconds", type=float, help="Begin no call after this many seconds.")
@click.option("--per-minute", type=float, help="Begin no more calls than this in a minute.")
@click.option("--retries", default=2, show_default=True, type=click.IntRange(0), help="Tries after a failed call.")
@click.option("--backoff", default=1.0, show_default=True, help="Seconds before the first of them; then twice as long.")
@click.option("--call-seconds", default=60.0, show_default=True, help="End a call that takes longer.")
@click.option(
    "--failures", default=1, show_default=True, type=click.IntRange(1),
    help="Stop after this many questions in a row that failed.",
)  # fmt: skip
@click.option("--render", metavar="MODULE:FUNCTION", help="What draws the designs: the program gets paths of pictures.")
@outcomes_option
@in_format
@storage_option
def judge(
    storage: str | None,
    study: str,
    command: str,
    style: str,
    *,
    questions: int,
    question: str | None,
    voter: str,
    about: str | None,
    once: bool,
    render: str | None,
    outcomes: str | None,
    **limits: Any,
) -> None:
    """Have a program answer as a voter: a script that asks a vision or language model, or computes.

    Each question comes as JSON on its standard input; it prints a, b, tie or skip, or what `tell -f json` takes for
    other kinds. Its answers are marked as a program's. Ctrl-C leaves, the same command goes on.

    \b
    kappasharp judge chair --command "python look.py" --render pictures:draw
    kappasharp judge chair --command "python look.py" --unsure leave --per-minute 20
    """
    from kappasharp.study.judge import Command, JudgeRules, Judging

    with in_words():
        rules = JudgeRules(twice=not once, **limits)
        # One thread is this command's own choice, not the program's.
        program = Command(command, {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"})
        found = opened(study, storage, outcomes=outcomes)
        drawn = render or (found.definition.render if study.endswith(".toml") else None)
        with _drawing(drawn) as draw:
            judging = Judging(
                found, program, rules, voter=voter, about=about, kind=question, draw=draw,
                say=_warn, notice=_notice,
            )  # fmt: skip
            failed = _run(judging, questions)
        _tell(found, voter, judging.report, style)
    if failed:
        raise click.exceptions.Exit(REFUSED)


def _run(judging: "Judging", questions: int) -> bool:
    """Whether it ended otherwise than it should."""
    say(f"{judging.about} answers as {judging.voter!r}; Ctrl-C leaves.")
    try:
        with _ended_as_by_keys():
            judging.run(questions)
    except JudgeError as error:
        _warn(str(error))
        return True
    except KeyboardInterrupt:
        click.echo(err=True)
        return True
    return False


@contextmanager
def _ended_as_by_keys() -> Iterator[None]:
    """Who ends this command by a signal ends the program too, as with Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _warn(sentence: str) -> None:
    click.echo(click.style(f"Note: {sentence}", fg="yellow"), err=True)


def _notice(question: "StudyQuestion", answer: "Answer", why: str | None) -> None:
    from kappasharp.questions import kind

    words = kind.in_words(question.form, answer)
    reason = "" if why is None else click.style(f" ({why})", dim=True)
    click.echo(f"{question.kind} {question.number}: {words}{reason}", err=True)


def _tell(study: "Study", voter: str, report: "JudgeReport", style: str) -> None:
    say(ENDED[report.ended])
    if report.left:
        say(f"{count(report.left, 'question')} left for people: they are asked next.")
    width = max(map(len, COUNTED))
    found = asdict(report)
    lines = [f"{name.replace('_', ' '):<{width}}  {found[name]}" for name in COUNTED]
    taste = _beside_people(study, voter)
    if taste:
        lines.append(f"{'consistency':<{width}}  {taste['consistency']:.2f}")
        lines += [f"like {name:<{width - 5}}  {alike:.2f}" for name, alike in taste["alike"].items()]
    show(style, {"study": study.name, "voter": voter} | found | {"beside_people": taste}, lines)


def _beside_people(study: "Study", voter: str) -> dict[str, Any] | None:
    """How consistent the judge is beside the others, and how alike its taste and each person's; None before both."""
    now = study.moment()
    answered = {one.voter: one.program for one in now.history.counted()}
    if voter not in answered or all(answered.values()):
        return None
    try:
        found = now.agreement()
    except InvalidValueError as error:
        say(f"Note: how far it agrees with people is not known. {error}")
        return None
    own = [one.voter for one in found.voters].index(voter)
    alike = {
        one.voter: found.alike[own][i] for i, one in enumerate(found.voters) if not one.program and not one.predicted
    }
    return {"consistency": found.voters[own].consistency, "alike": alike}


@contextmanager
def _drawing(renderer: str | None) -> Iterator["Callable[[Design], str | None] | None"]:
    """What draws a design into a file that is there as long as the command runs; None without a renderer."""
    if renderer is None:
        yield None
        return
    from kappasharp.study.judge import CallFailed
    from kappasharp.web import pictures

    pictures.load(renderer)
    with tempfile.TemporaryDirectory(prefix="kappasharp-judge-") as folder:
        kept: dict[str, str | None] = {}

        def draw(design: "Design") -> str | None:
            key = repr(sorted(design.items()))
            if key not in kept:
                card = pictures.draw(renderer, design)
                if card.kind == "failed":
                    raise CallFailed(card.sentence)
                path = Path(folder) / f"{len(kept)}{ENDINGS.get(card.type) or '.' + card.type.rpartition('/')[2]}"
                path.write_bytes(card.body)
                kept[key] = None if card.kind == "none" else str(path)
            return kept[key]

        yield draw
