"""Answers of people at a terminal: which keys mean what for each kind of question, and what a typed word says.

People count designs from 1, as tables show them; programs, and everything that is stored, from 0.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from kappasharp.errors import InvalidValueError
from kappasharp.exchange.comparison_csv import LETTERS
from kappasharp.journal.question import StudyQuestion
from kappasharp.messages.message import text
from kappasharp.questions import kind
from kappasharp.questions.kind import MUCH_BETTER, SKIP, Answer, Form, Kind

# What a terminal sends, and Windows' console: arrows, and letters for those without.
LEFT, RIGHT, DOWN = ("\x1b[D", "\x1bOD", "\xe0K", "\x00K"), ("\x1b[C", "\x1bOC", "\xe0M", "\x00M"), (
    "\x1b[B", "\x1bOB", "\xe0P", "\x00P",
)  # fmt: skip
COMMANDS = {"s": SKIP, "u": "undo", "\x7f": "undo", "\x08": "undo", "q": "quit", "\x03": "quit", "\x04": "quit"}
PAIR_KEYS = (
    dict.fromkeys((*LEFT, "a"), "a") | dict.fromkeys((*RIGHT, "b"), "b") | dict.fromkeys((*DOWN, "t"), "tie") | COMMANDS
)
ENTER, ERASE, QUIT = ("\r", "\n", "\r\n"), ("\x7f", "\x08"), ("\x03", "\x04")
# One key of those that a terminal sent at once: an escape sequence, also one cut short, a special key of Windows'
# console, or a character.
ONE_KEY = re.compile(r"\x1b+(?:\[\[.?|\[[0-?]*[ -/]*[@-~]?|O.?|[^\x1b])?|[\x00\xe0].|\r\n|.", re.DOTALL)
OTHERS = "s skip   u undo   q quit"
HELP = {
    Kind.PAIR: f"← A is better   → B is better   ↓ can't tell   {OTHERS}",
    Kind.CHOICE: f"the number of the best   {OTHERS}",
    Kind.ORDER: f"numbers, best first, equals with =, then Enter: 3 1=4 2   {OTHERS}",
    Kind.SLIDER: f"← → move, or type a place from 0 to 1; Enter where it is best   {OTHERS}",
    Kind.RATING: f"3 A is much better, 2, 1, 0 equal, -1, -2, -3 B is much better   {OTHERS}",
}
# How many arrows it takes from one design of a slider's line to the next.
STEPS = 20


class Pressed(NamedTuple):
    """What a person did: gave an answer, or one of the commands "undo" and "quit"."""

    command: str | None
    answer: Answer = ""


def short(form: Form, answer: Answer) -> str:
    """An answer in a few words: as it is typed where that is a word."""
    return answer if isinstance(answer, str) else kind.in_words(form, answer)


def heads(forms: Sequence[Form]) -> dict[str, str]:
    """What answers to such questions call each design, by its letter: a and b, or 1, 2, 3 …, or either: a/1."""
    several = [form.kind in kind.SEVERAL for form in forms]
    shown = LETTERS[: max((form.designs for form in forms), default=0)]
    if not any(several):
        return {letter: letter for letter in shown}
    either = "" if all(several) else "ab"
    return {letter: f"{letter}/{i}" if letter in either else str(i) for i, letter in enumerate(shown, 1)}


def spoken(form: Form, typed: str) -> Answer:
    """The answer that a person typed; or a sentence."""
    word = typed.strip().lower()
    if word == SKIP or (form.is_pair and word in kind.WORDS):
        return word
    try:
        return _numbers(form, word)
    except ValueError as error:
        raise InvalidValueError(f"The answer to {form.words} must be {_allowed(form)}, but got {typed!r}.") from error


def _allowed(form: Form) -> str:
    return {
        Kind.PAIR: "a, b, tie or skip",
        Kind.CHOICE: f"the number of the best design, 1 to {form.designs}, or skip",
        Kind.ORDER: f"numbers from 1 to {form.designs}, best first, each once, equals with = ('3 1=2'), or skip",
        Kind.SLIDER: "a place from 0 to 1, or skip",
        Kind.RATING: f"a whole number from -{MUCH_BETTER} to {MUCH_BETTER}, or skip",
    }[form.kind]


def _numbers(form: Form, word: str) -> Answer:
    match form.kind:
        case Kind.CHOICE:
            return kind.answer(form, int(word) - 1)
        case Kind.RATING:
            return kind.answer(form, int(word))
        case Kind.SLIDER:
            return kind.answer(form, float(word))
        case Kind.ORDER:
            groups = [group for group in re.split(r"[\s>,]+", re.sub(r"\s*=\s*", "=", word)) if group]
            return kind.answer(form, [[int(one) - 1 for one in group.split("=")] for group in groups])
    raise ValueError(word)


def read(question: StudyQuestion) -> Pressed:
    """What the person presses that means something for this question."""
    # What was sent together with the last key of an answer is thrown away: nobody has seen the next question yet.
    keys = Keys(question.form.kind)
    match question.form.kind:
        case Kind.PAIR:
            return _pressed(keys, PAIR_KEYS)
        case Kind.CHOICE:
            return _pressed(keys, {str(i + 1): i for i in range(question.form.designs)} | COMMANDS)
        case Kind.RATING:
            return _rating(keys)
        case Kind.SLIDER:
            return _slider(keys, question)
    return _typed(keys, question.form)


class Keys:
    """The keys for one question, one at a time, also where a terminal sends several at once."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._sent: list[str] = []

    def next(self) -> str:
        """The next key; a terminal that is gone, or has no more to say, quits."""
        if not self._sent:
            try:
                self._sent = ONE_KEY.findall(click.getchar()) or [QUIT[0]]
            except (KeyboardInterrupt, EOFError):
                return QUIT[0]
        return self._sent.pop(0)

    def refuse(self, sentence: str) -> None:
        """Say what is wrong; what was sent on before anybody could read that is thrown away."""
        self._sent = []
        click.echo(sentence)

    def unknown(self, key: str) -> None:
        """Say that a key means nothing."""
        self.refuse(f"{text(key)} means nothing here. {HELP[self._kind]}")


def _command(key: str) -> Pressed | None:
    """What a key that means the same for every kind of question says."""
    found = COMMANDS.get(key, COMMANDS.get(key.lower()))
    return None if found is None else _as_pressed(found)


def _as_pressed(found: Any) -> Pressed:
    return Pressed(found) if found in ("undo", "quit") else Pressed(None, found)


def _pressed(keys: Keys, meaning: dict[str, Any]) -> Pressed:
    """The next key that means something; of any other it is said that it does not."""
    while True:
        key = keys.next()
        found = meaning.get(key, meaning.get(key.lower()))
        if found is not None:
            return _as_pressed(found)
        keys.unknown(key)


def _rating(keys: Keys) -> Pressed:
    values = {str(i): i for i in range(MUCH_BETTER + 1)}
    while True:
        key = keys.next()
        sign = -1 if key == "-" else 1
        key = keys.next() if key == "-" else key
        if key in values:
            return Pressed(None, sign * values[key])
        if (found := _command(key)) is not None:
            return found
        keys.unknown(key)


def _slider(keys: Keys, question: StudyQuestion) -> Pressed:
    """Arrows move it and show the design; digits type a place; Enter leaves it there."""
    place, typed, steps = 0.5, "", STEPS * (question.form.designs - 1)
    _show(question, place)
    while True:
        key = keys.next()
        if (found := _command(key)) is not None and (not typed or key in QUIT):
            return found
        if key in ENTER and not typed:
            return Pressed(None, place)
        if key in (*LEFT, *RIGHT, *ENTER):
            moved = round(place * steps + (key in RIGHT) - (key in LEFT)) / steps
            place, typed = _place(keys, typed, place) if key in ENTER else min(max(moved, 0.0), 1.0), ""
            _show(question, place)
        else:
            typed = _edited(keys, typed, key, "0123456789.")


def _edited(keys: Keys, line: str, key: str, allowed: str) -> str:
    """The line after a key, and what the terminal shows of it."""
    if key in ERASE:
        click.echo("\b \b" if line else "", nl=False)
        return line[:-1]
    if key in tuple(allowed):
        click.echo(key, nl=False)
        return line + key
    click.echo()
    keys.unknown(key)
    click.echo(line, nl=False)
    return line


def _place(keys: Keys, typed: str, place: float) -> float:
    """The place typed: Enter once more leaves the slider there."""
    click.echo()
    try:
        return kind.place(float(typed))
    except ValueError:
        keys.refuse(f"A place must be a number from 0 to 1, but got {typed!r}.")
        return place


def _show(question: StudyQuestion, place: float) -> None:
    values = "  ".join(f"{name} {text(value)}" for name, value in question.at(place).items())
    click.echo(f"{place:5.3f}  {values}")


def _typed(keys: Keys, form: Form) -> Pressed:
    """A line that ends with Enter; s, u and q at its beginning are commands."""
    line = ""
    while True:
        key = keys.next()
        if (found := _command(key)) is not None and (not line or key in QUIT):
            return found
        if key not in ENTER:
            line = _edited(keys, line, key, "0123456789=>, ")
            continue
        click.echo()
        try:
            return Pressed(None, spoken(form, line))
        except InvalidValueError as error:
            keys.refuse(str(error))
            line = ""
