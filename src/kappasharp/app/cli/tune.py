"""`kappasharp tune`: a study in the terminal, answered with the arrow keys."""

import sys
import time

import click

from kappasharp.app.cli.output import best_table, in_words, pair_table
from kappasharp.app.cli.studies import opened, storage_option, study_argument, voter_option
from kappasharp.app.report import count
from kappasharp.errors import InvalidValueError, StalePairError
from kappasharp.study.history import StudyQuestion
from kappasharp.study.questions import DUELS
from kappasharp.study.study import Study

# What a terminal sends, and Windows' console: arrows, and letters for those without.
KEYS = {
    "\x1b[D": "a", "\x1bOD": "a", "\xe0K": "a", "\x00K": "a", "a": "a",
    "\x1b[C": "b", "\x1bOC": "b", "\xe0M": "b", "\x00M": "b", "b": "b",
    "\x1b[B": "tie", "\x1bOB": "tie", "\xe0P": "tie", "\x00P": "tie", "t": "tie",
    "s": "skip", "u": "undo", "\x7f": "undo", "\x08": "undo", "q": "quit", "\x03": "quit", "\x04": "quit",
}  # fmt: skip
HELP = "← A is better   → B is better   ↓ can't tell   s skip   u undo   q quit"
SAID = {"a": "A is better", "b": "B is better", "tie": "can't tell", "skip": "skipped"}


@click.command()
@study_argument
@click.option("--questions", type=click.IntRange(1), help="Stop after this many answers.")
@click.option("--settle", is_flag=True, help=f"Ask {DUELS} duels between designs already seen, then stop.")
@voter_option
@storage_option
def tune(storage: str | None, study: str, questions: int | None, *, settle: bool, voter: str) -> None:
    """Compare pairs in the terminal with the arrow keys. STUDY is a name, or a TOML file; q leaves, tune goes on."""
    if not _is_terminal():
        raise click.UsageError("`kappasharp tune` needs a terminal; `ask` and `tell` do without.")
    with in_words():
        found = opened(study, storage)
        if settle:
            found.settle(voter=voter)
            # A pair that is open already comes first.
            waiting = found.history.open_pair(voter) is not None
            questions = DUELS + waiting if questions is None else questions
        try:
            _converse(found, voter, questions)
        except KeyboardInterrupt:
            # Pressed while the next pair was computed; what was answered is stored.
            click.echo()
        _leave(found)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _converse(study: Study, voter: str, questions: int | None) -> None:
    """Ask until there were enough answers, or q."""
    answered = 0
    while questions is None or answered < questions:
        pair = study.ask(voter)
        _show(study, pair)
        begun = time.monotonic()
        word = _key()
        if word == "quit":
            return
        answered += _act(study, pair, word, time.monotonic() - begun)


def _show(study: Study, pair: StudyQuestion) -> None:
    counted = count(len(study.history.counted()), "answer")
    click.echo(f"\n{click.style(study.name, bold=True)}  pair {pair.number}, after {counted}{_progress(study)}")
    for line in pair_table(pair):
        differs = line.startswith("≠")
        click.echo(click.style(line, fg="cyan") if differs else line)
    click.echo(click.style(HELP, dim=True))


def _progress(study: Study) -> str:
    if len(study.history.counted()) < study.definition.first_pairs:
        return ""
    best = study.best
    return f"; the best so far beats {best.beats_random:.0%} of designs, {best.room_left:.0%} of the way up is left"


def _key() -> str:
    """The next key that means something."""
    while True:
        try:
            key = click.getchar()
        except (KeyboardInterrupt, EOFError):
            return "quit"
        word = KEYS.get(key, KEYS.get(key.lower()))
        if word is not None:
            return word


def _act(study: Study, pair: StudyQuestion, word: str, seconds: float) -> int:
    """Do what the key says; how many answers that adds."""
    try:
        if word == "undo":
            study.undo(pair.voter)
            click.echo("Taken back.")
            return -1
        study.tell(pair, word, seconds=round(seconds, 3))
    except (InvalidValueError, StalePairError) as error:
        # Nothing to undo, or the same voter has answered elsewhere: the next pair is the one that is open.
        click.echo(str(error))
        return 0
    click.echo(f"Saved: {SAID[word]}. u undoes it.")
    return 1


def _leave(study: Study) -> None:
    if not study.history.counted():
        return
    click.echo("\nBest so far")
    for line in best_table(study.best):
        click.echo(f"  {line}".rstrip())
