"""The commands that ask and take answers, and outcomes: ask, tell, undo, record."""

import json
from typing import TYPE_CHECKING, Any

import click

from kappasharp.cli.output import as_voter, in_format, in_words, question_table, say, say_failures, say_limits, show
from kappasharp.cli.studies import (
    opened,
    outcomes_option,
    question_option,
    shell_words,
    storage_option,
    study_argument,
    voter_option,
)
from kappasharp.errors import InvalidValueError, StalePairError
from kappasharp.messages.message import text
from kappasharp.questions.kind import WORDS
from kappasharp.settings import DEFAULT_VOTER

if TYPE_CHECKING:
    from kappasharp.journal.history import Known
    from kappasharp.journal.question import StudyQuestion
    from kappasharp.questions.kind import Answer, Form
    from kappasharp.study.study import Study

# An answer to each kind of question, as a person types it.
EXAMPLES = {"pair": "a", "choice": "2", "order": "3 1=2", "slider": "0.35", "rating": "2"}


def _as(voter: str) -> tuple[str, ...]:
    return () if voter == DEFAULT_VOTER else ("--voter", voter)


def pair_data(pair: "StudyQuestion") -> dict[str, Any]:
    """A question as plain data."""
    sides = {"a": pair.a, "b": pair.b} if not pair.more else {}
    head = {"pair": pair.number, "voter": pair.voter, "kind": pair.kind}
    return head | sides | {"designs": pair.designs, "origin": pair.origin}


@click.command()
@study_argument
@question_option
@click.option("--place", type=float, help="Of a slider: the design at this place, from 0 to 1, too.")
@voter_option
@outcomes_option
@in_format
@storage_option
def ask(
    storage: str | None,
    study: str,
    voter: str,
    style: str,
    *,
    question: str | None,
    place: float | None,
    outcomes: str | None,
) -> None:
    """The question to answer: the same again until it is answered. `--question` asks another kind."""
    with in_words():
        found = opened(study, storage, outcomes=outcomes)
        if place is not None:
            _check_place(found, voter, question)
        pair = found.ask(voter) if question is None else found.ask(voter, kind=question)
        there = None if place is None else pair.at(place)
    example = shell_words("tell", study, EXAMPLES[pair.kind], *_as(voter))
    others = "b, tie, skip" if pair.form.is_pair else "skip"
    say(f"{pair.kind.capitalize()} {pair.number}. {example}, or {others}, answers it.")
    say_failures(found, pair.designs)
    say_limits(found)
    data = pair_data(pair) | ({} if there is None else {"at": {"place": place, "params": there}})
    if found.definition.outcomes is not None:
        data["outcomes"] = [found.outcomes(design) for design in pair.designs]
        if there is not None:
            data["at"]["outcomes"] = found.outcomes(there)
    show(style, data, question_table(pair, found, place))


def _check_place(found: "Study", voter: str, question: str | None) -> None:
    """A place is one of a slider; said before anything is asked."""
    waiting = found.history.open_pair(voter)
    usual = found.definition.form if waiting is None else waiting.form
    form = found.definition.wanted(question) or usual
    if form.kind.value != "slider":
        raise InvalidValueError(
            f"`--place` needs a slider, but the question is {form.words}; `--question slider` asks one."
        )


def _given(form: "Form", answer: str, style: str) -> "Answer":
    """The answer that a person typed, or a program wrote as JSON."""
    from kappasharp.cli import answer_keys

    if style != "json" or answer.lower() in WORDS:
        return answer_keys.spoken(form, answer)
    try:
        found: Answer = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"ANSWER must be JSON where `-f json` is asked for, but got {answer!r}.") from error
    return found


def _words(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [word for word in WORDS if word.startswith(incomplete)]


@click.command(context_settings={"ignore_unknown_options": True})
@study_argument
@click.argument("answer", shell_complete=_words)
@click.option("--pair", type=int, help="The question's number; by default the one that is open for the voter.")
@click.option(
    "--voter",
    callback=as_voter,
    help=f"Who answers; by default who was asked the pair, or else {DEFAULT_VOTER!r}.",
)
@outcomes_option
@in_format
@storage_option
def tell(
    storage: str | None,
    study: str,
    answer: str,
    style: str,
    *,
    pair: int | None,
    voter: str | None,
    outcomes: str | None,
) -> None:
    """Answer a question. It is stored for good when the command ends.

    \b
    pair    a, b, tie
    choice  the number of the best design, from 1 on
    order   '3 1=4 2', best first and equals with =; those left out come last
    slider  a place from 0 to 1
    rating  -3 to 3, above 0 where A is better

    All take skip. With `-f json` ANSWER is JSON and counts designs from 0, as Python does: 2, [2, [0, 3], 1], 0.35.
    """
    with in_words():
        from kappasharp.cli import answer_keys

        found = opened(study, storage, outcomes=outcomes)
        if pair is None:
            waiting = found.history.open_pair(voter or DEFAULT_VOTER)
            if waiting is None:
                who = voter or DEFAULT_VOTER
                raise StalePairError(f"No pair is open for {who!r}; {shell_words('ask', study, *_as(who))} gives one.")
        else:
            waiting = _numbered(found, pair, voter)
        form = waiting.form
        done = found.tell(waiting, _given(form, answer, style))
    say("Saved.")
    say_failures(found, [found.history.options[option] for option in done.options])
    data = {"event": done.event, "pair": done.pair, "voter": done.voter, "answer": done.answer}
    show(style, data, [f"{done.kind} {done.pair}: {answer_keys.short(form, done.answer)}"])


def _numbered(found: "Study", number: int, voter: str | None) -> "StudyQuestion":
    """The question of that number, which that voter was asked; or a sentence."""
    if number not in found.history.asked:
        raise InvalidValueError(
            f"`--pair` must be a question that was asked in {found.name!r}, but there is no question {number}."
        )
    asked = found.history.asked[number][0]
    if voter not in (None, asked.voter):
        raise InvalidValueError(f"`--voter` must be who was asked pair {number}, {asked.voter!r}, but got {voter!r}.")
    return asked


@click.command()
@study_argument
@voter_option
@in_format
@storage_option
def undo(storage: str | None, study: str, voter: str, style: str) -> None:
    """Take back the voter's last answer, to ask it again; or change of a parameter."""
    with in_words():
        found = opened(study, storage)
        pair = found.undo(voter)
    say("Taken back." if pair is None else f"Taken back; {pair.kind} {pair.number} is open again.")
    show(style, None if pair is None else pair_data(pair), [] if pair is None else question_table(pair, found))


@click.command(context_settings={"ignore_unknown_options": True})
@study_argument
@click.argument("words", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--option", type=int, help="The design of this number, instead of its parameters.")
@click.option("--repeat", is_flag=True, help="One more measurement, averaged with those before it.")
@click.option("--forget", is_flag=True, help="Take back what is known of the design's outcomes.")
@voter_option
@in_format
@storage_option
def record(
    storage: str | None,
    study: str,
    words: tuple[str, ...],
    style: str,
    *,
    option: int | None,
    repeat: bool,
    forget: bool,
    voter: str,
) -> None:
    """Store outcomes that were measured: every parameter of the design as NAME=VALUE, then its outcomes.

    \b
    kappasharp record chair width=40 height=45 comfort=7.5 mass=3.1
    kappasharp record chair --option 3 comfort=7.5
    """
    with in_words():
        found = opened(study, storage)
        design, given = _design_and_outcomes(found, words, option)
        if forget == bool(given):
            raise InvalidValueError("`record` takes outcomes as NAME=VALUE, or `--forget`, but got both or neither.")
        known = found.record(design, None if forget else given, repeat=repeat, voter=voter)
    say("Saved." if known is not None else "Taken back.")
    data = {"design": design, "outcomes": None, "runs": 0} if known is None else _known_data(known)
    lines = [] if known is None else [f"{name}  {text(value)}" for name, value in known.values.items()]
    show(style, data, lines)


def _known_data(known: "Known") -> dict[str, Any]:
    return {"design": known.design, "outcomes": known.values, "spread": known.spread, "runs": len(known.runs)}


def _design_and_outcomes(
    found: "Study", words: tuple[str, ...], option: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What words such as width=40 say, told apart by their names."""
    from kappasharp.exchange import study_toml

    values: dict[str, Any] = {}
    for word in words:
        name, equals, given = word.partition("=")
        if not equals or not given or name in values:
            raise InvalidValueError(f"`record` takes NAME=VALUE, each name once, but got {word!r}.")
        values[name] = study_toml.value(given)
    design = {name: value for name, value in values.items() if name in found.space.parameters}
    outcomes = {name: value for name, value in values.items() if name not in design}
    if option is None:
        return design, outcomes
    options = found.history.options
    if design or not 0 <= option < len(options):
        raise InvalidValueError(
            f"`--option` must be one of the {len(options)} designs seen, and stand in the place of parameters, but got "
            f"{option}."
        )
    return dict(options[option]), outcomes


COMMANDS = (ask, tell, undo, record)
