"""`kappasharp tune`: a study in the terminal, answered by keys."""

import sys
import time
from typing import TYPE_CHECKING

import click

from kappasharp.cli.output import best_table, in_words, question_table, say_failures, say_limits, typed
from kappasharp.cli.studies import (
    opened,
    outcomes_option,
    question_option,
    storage_option,
    study_argument,
    voter_option,
)
from kappasharp.errors import InvalidValueError, StalePairError
from kappasharp.messages.message import count
from kappasharp.settings import DUELS

if TYPE_CHECKING:
    from kappasharp.cli.answer_keys import Pressed
    from kappasharp.journal.question import StudyQuestion
    from kappasharp.study.study import Study


@click.command()
@study_argument
@click.option("--questions", type=click.IntRange(1), help="Stop after this many answers.")
@click.option("--settle", is_flag=True, help=f"Ask {DUELS} questions about designs already seen, then stop.")
@question_option
@voter_option
@outcomes_option
@storage_option
def tune(
    storage: str | None,
    study: str,
    questions: int | None,
    *,
    settle: bool,
    question: str | None,
    voter: str,
    outcomes: str | None,
) -> None:
    """Answer in the terminal, pairs with the arrow keys. STUDY is a name, or a TOML file; q leaves, tune goes on."""
    if not _is_terminal():
        raise click.UsageError("`kappasharp tune` needs a terminal; `ask` and `tell` do without.")
    with in_words():
        found = opened(study, storage, outcomes=outcomes)
        if settle:
            found.settle(question=question or "pair", voter=voter)
            question = None
            # A pair that is open already comes first.
            waiting = found.history.open_pair(voter) is not None
            questions = DUELS + waiting if questions is None else questions
        say_limits(found)
        try:
            _converse(found, voter, questions, question)
        except KeyboardInterrupt:
            # Pressed while the next pair was computed; what was answered is stored.
            click.echo()
        _leave(found)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _converse(study: "Study", voter: str, questions: int | None, kind: str | None) -> None:
    """Ask until there were enough answers, or q."""
    from kappasharp.cli import answer_keys

    answered, reopened = 0, set[int]()
    while questions is None or answered < questions:
        waiting = study.history.open.get(voter)
        # To ask for a kind would withdraw a question of another kind that undo has just opened again.
        pair = study.ask(voter) if kind is None or waiting in reopened else study.ask(voter, kind=kind)
        _show(study, pair)
        begun = time.monotonic()
        pressed = answer_keys.read(pair)
        if pressed.command == "quit":
            return
        if pressed.command == "undo":
            answered -= _undo(study, voter, reopened)
        else:
            answered += _tell(study, pair, pressed, time.monotonic() - begun)


def _show(study: "Study", pair: "StudyQuestion") -> None:
    from kappasharp.cli import answer_keys

    counted = count(len(study.history.counted()), "answer")
    click.echo(f"\n{click.style(study.name, bold=True)}  {pair.kind} {pair.number}, after {counted}{_progress(study)}")
    for line in question_table(pair, study):
        differs = line.startswith("≠")
        click.echo(click.style(line, fg="cyan") if differs else line)
    say_failures(study, pair.designs)
    click.echo(click.style(answer_keys.HELP[pair.form.kind], dim=True))


def _progress(study: "Study") -> str:
    now = study.moment()
    if len(now.history.counted()) < now.definition.first_pairs:
        return ""
    best = now.best
    return f"; the best so far beats {best.beats_random:.0%} of designs, {best.room_left:.0%} of the way up is left"


def _undo(study: "Study", voter: str, reopened: set[int]) -> int:
    """Take the last answer back and note its question; how many answers that takes."""
    try:
        question = study.undo(voter)
    except InvalidValueError as error:
        # There is nothing to undo.
        click.echo(str(error))
        return 0
    reopened |= set() if question is None else {question.number}
    click.echo("Taken back.")
    return 1


def _tell(study: "Study", pair: "StudyQuestion", pressed: "Pressed", seconds: float) -> int:
    """Store the answer; how many answers that adds."""
    from kappasharp.questions import kind

    try:
        study.tell(pair, pressed.answer, seconds=round(seconds, 3))
    except (InvalidValueError, StalePairError) as error:
        # The same voter has answered elsewhere: the next pair is the one that is open.
        click.echo(str(error))
        return 0
    click.echo(f"Saved: {kind.in_words(pair.form, pressed.answer)}. u undoes it.")
    return 1


def _leave(study: "Study") -> None:
    now = study.moment()
    if not now.history.counted():
        return
    best = now.best
    click.echo("\nBest so far")
    for line in best_table(best):
        click.echo(f"  {line}".rstrip())
    for note in best.notes:
        click.echo(f"Note: {typed(str(note))}")
