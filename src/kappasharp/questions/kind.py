"""Kinds of question by name and number of designs, what may be answered to each, and how two answers become one.

pair       "a", "b", "tie"            the better of two
choice:n   a number from 0 to n − 1    the best of n
order:n    [2, [0, 3], 1]              best first, equals in a list; whoever is left out comes after all the others
slider:n   a number from 0 to 1        where on the way from the first of n designs to the last it looks best
rating     a whole number, −3 to 3     how much better the first of two is
"skip" may be said to all of them. `Kind` names them; `Form` is a kind with its number of designs, `parse` reads one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations, product
from numbers import Real
from typing import Any, NamedTuple

from kappasharp.arguments import is_whole, shown
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.questions.comparisons import Said, beside, best_of, order_of, rated

# What may be answered to a pair.
WORDS = ("a", "b", "tie", "skip")


# How many designs a question shows, unless the method says otherwise.
PAIR = 2


class Kind(Enum):
    """What a person does with a question: prefer one of two, name the best, put in order, stop on a line, say how much.

    A pair's answer may name the best of more designs, each of the others an answer of its own: what the paper's rivals
    do. A choice is the same answer, with the noise that the best one's comparisons share.
    """

    PAIR = "pair"
    CHOICE = "choice"
    ORDER = "order"
    SLIDER = "slider"
    RATING = "rating"


# First questions, about Sobol designs, of the kinds that say more than a pair. (docs/results/answers.md)
FIRST_QUESTIONS = {Kind.CHOICE: 4, Kind.ORDER: 3, Kind.SLIDER: 3, Kind.RATING: 5}
# So many of sliders through more than two designs.
FIRST_BENT = 2

Answer = str | int | float | list[Any]
SKIP = "skip"
# Designs of a choice or an order: as few, and as many; of the line of a slider; and where nobody says how many.
FEWEST, MOST = 3, 9
FEWEST_OF_LINE, MOST_OF_LINE = PAIR, 6
USUAL = 4
MUCH_BETTER = 3
# An order is a list of numbers and of lists of them.
NESTED = 2
# Two places of a slider no further apart than this are meant to be the same; in parts of the way between two designs.
SAME_PLACE = 0.2
SEVERAL = (Kind.CHOICE, Kind.ORDER)
COUNTED = (*SEVERAL, Kind.SLIDER)
NAMES = {kind.value: kind for kind in Kind}


@dataclass(frozen=True)
class Form:
    """What a question is: its kind, and how many designs it shows, or how many a slider's line goes through."""

    kind: Kind = Kind.PAIR
    designs: int = PAIR

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.designs}" if self.kind in COUNTED else self.kind.value

    @property
    def is_pair(self) -> bool:
        """Whether it is the plain question, A or B."""
        return self.kind is Kind.PAIR

    @property
    def words(self) -> str:
        """The kind as a sentence has it."""
        article = "an" if self.kind is Kind.ORDER else "a"
        joint = {Kind.CHOICE: " of", Kind.ORDER: " of", Kind.SLIDER: " through"}.get(self.kind)
        return f"{article} {self.kind.value}" + (f"{joint} {self.designs}" if joint else "")


class Judgement(NamedTuple):
    """What an answer says of two designs, by their places in the question: the better first, or no difference."""

    better: int
    other: int
    tie: bool


ONE_PAIR = Form()


def parse(value: Any, designs: Any = None, *, what: str = "question", or_auto: bool = False) -> Form:
    """The form of that name, such as "pair" or "order:4"; or a sentence that lists what may be given.

    Args:
        value: the name of a kind; a choice, an order or a slider may say how many designs after a colon.
        designs: how many, where the name does not say it.
        what: how the argument is called where it came from.
        or_auto: whether "auto" might have been given too; the sentence says so.
    """
    text = value.value if isinstance(value, Kind) else value
    if isinstance(value, Form):
        return value
    name, colon, number = text.partition(":") if isinstance(text, str) else ("", "", "")
    if name not in NAMES or (colon and (not number.isdecimal() or NAMES[name] not in COUNTED)):
        auto = "'auto', " if or_auto else ""
        raise (InvalidValueError if isinstance(text, str) else InvalidTypeError)(
            f"`{what}` must be {auto}'pair', 'choice', 'order', 'slider' or 'rating', a choice, an order or a slider "
            f"with how many designs if not {USUAL} ('order:5'), but got {value!r}."
        )
    kind = NAMES[name]
    count = int(number[:9]) if colon else None
    if designs is not None:
        count = _agreed(kind, count, designs, what)
    if kind not in COUNTED:
        return Form(kind)
    count = USUAL if count is None else count
    fewest, most = (FEWEST_OF_LINE, MOST_OF_LINE) if kind is Kind.SLIDER else (FEWEST, MOST)
    if not fewest <= count <= most:
        raise InvalidValueError(f"`{what}` must have {fewest} to {most} designs, but got {shown(count)}.")
    return Form(kind, count)


def _agreed(kind: Kind, count: int | None, designs: Any, what: str) -> int:
    if not is_whole(designs):
        raise InvalidTypeError(
            f"`designs` must be a whole number, how many are shown, but got {designs!r}; `study.enqueue` asks about "
            "designs of your own."
        )
    wanted = int(designs)
    said = PAIR if kind not in COUNTED else wanted if count is None else count
    if wanted != said:
        raise InvalidValueError(f"`designs` must be {said}, as `{what}` says, but got {shown(designs)}.")
    return wanted


def answer(form: Form, value: Any) -> Answer:
    """The answer as it is stored, or a sentence that says what may be answered."""
    if isinstance(value, str) and (value == SKIP or (form.is_pair and value in WORDS)):
        return value
    match form.kind:
        case Kind.CHOICE if is_whole(value) and 0 <= value < form.designs:
            return int(value)
        case Kind.RATING if is_whole(value) and abs(value) <= MUCH_BETTER:
            return int(value)
        case Kind.SLIDER if _is_number(value) and 0.0 <= value <= 1.0:
            return float(value) + 0.0  # nobody means the zero below zero
        case Kind.ORDER if isinstance(value, list | tuple):
            return _order(form, value)
    raise InvalidValueError(f"`answer` to {form.words} must be {allowed(form)}, but got {_cut(value)}.")


def given(form: Form, value: Any) -> Answer:
    """An answer as programs give it, also True and False for A and B, capitals and arrays; as `answer` has it."""
    plain = _unpacked(value)
    if form.is_pair and isinstance(plain, bool):
        return "a" if plain else "b"
    if isinstance(plain, str) and plain.lower() in WORDS:
        plain = plain.lower()
    return answer(form, plain)


def _unpacked(value: Any, depth: int = 0) -> Any:
    """Plain Python for arrays and numbers of NumPy, torch and pandas, also within a list of lists."""
    if isinstance(value, list | tuple) and depth < NESTED:
        return [_unpacked(one, depth + 1) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


def place(value: Any) -> float:
    """A place of a slider, or a sentence."""
    if not _is_number(value) or not 0.0 <= value <= 1.0:
        raise InvalidValueError(f"`place` must be a number from 0 to 1, but got {_cut(value)}.")
    return float(value) + 0.0


def allowed(form: Form) -> str:
    """What may be answered, in words."""
    return {
        Kind.PAIR: "'a', 'b', 'tie' or 'skip'",
        Kind.CHOICE: f"the best design's number, 0 to {form.designs - 1}, or 'skip'",
        Kind.ORDER: f"a list of numbers from 0 to {form.designs - 1}, best first and equals in a list, or 'skip'",
        Kind.SLIDER: "a number from 0 to 1, or 'skip'",
        Kind.RATING: f"a whole number from -{MUCH_BETTER} to {MUCH_BETTER}, or 'skip'",
    }[form.kind]


def _order(form: Form, value: Sequence[Any]) -> list[Any]:
    """Groups as they are stored: one design by its number, equals as a list in ascending order."""
    groups = [list(group) if isinstance(group, list | tuple) else [group] for group in value]
    named = [number for group in groups for number in group]
    known = bool(groups) and all(groups) and all(is_whole(one) and 0 <= one < form.designs for one in named)
    if not known:
        raise InvalidValueError(f"`answer` to {form.words} must be {allowed(form)}, but got {_cut(value)}.")
    if len(set(named)) < len(named):
        twice = next(number for number in named if named.count(number) > 1)
        raise InvalidValueError(f"`answer` must name a design once, but got {twice} twice in {_cut(value)}.")
    return [int(group[0]) if len(group) == 1 else sorted(int(number) for number in group) for group in groups]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _cut(value: Any) -> str:
    try:
        words = shown(value)
    except (RecursionError, ValueError):
        # Lists within lists without end, or with whole numbers without end in them.
        return f"a {type(value).__name__} that is too long to be shown"
    return words if len(words) <= 80 else f"{words[:77]}..."  # noqa: PLR2004


def said(form: Form, given: Answer) -> Said:
    """The fewest comparisons that say all of an answer that is no skip, by the designs' places in the question.

    A slider's are between the place where it was left, 0, and others of its line, which nobody named.
    """
    match form.kind:
        case Kind.CHOICE:
            return best_of(form.designs, int(given))  # type: ignore[arg-type]
        case Kind.ORDER:
            return order_of(form.designs, given)  # type: ignore[arg-type]
        case Kind.SLIDER:
            return best_of(1 + beside(form.designs).others, 0)
        case Kind.RATING:
            return rated(int(given))  # type: ignore[arg-type]
    return Said(((1, 0) if given == "b" else (0, 1),), (given == "tie",))


def judgements(form: Form, given: Answer) -> list[Judgement]:
    """Everything that an answer says of two designs of its question; nothing of a slider's, where one was chosen."""
    if given == SKIP or form.kind is Kind.SLIDER:
        return []
    if form.kind is not Kind.ORDER:
        found = said(form, given)
        return [Judgement(*pair, tie) for pair, tie in zip(found.pairs, found.ties, strict=True)]
    assert isinstance(given, list)
    groups = [group if isinstance(group, list) else [group] for group in given]
    named = {number for group in groups for number in group}
    rest = [number for number in range(form.designs) if number not in named]
    equal = [Judgement(*pair, True) for group in groups for pair in combinations(group, 2)]
    ranks = combinations([*groups, rest], 2)
    return equal + [Judgement(*pair, False) for above, below in ranks for pair in product(above, below)]


class Together(NamedTuple):
    """What two answers to one question say together, and whether they agree."""

    answer: Answer
    agree: bool


def turned(form: Form, given: Answer) -> Answer:
    """An answer as it reads with the designs the other way round, the last of them first."""
    if given in (SKIP, "tie"):
        return given
    last = form.designs - 1
    match form.kind:
        case Kind.CHOICE:
            return last - int(given)  # type: ignore[arg-type]
        case Kind.ORDER:
            assert isinstance(given, list)
            groups = [one if isinstance(one, list) else [one] for one in given]
            return _order(form, [[last - number for number in group] for group in groups])
        case Kind.SLIDER:
            return 1.0 - float(given)  # type: ignore[arg-type]
        case Kind.RATING:
            return -int(given)  # type: ignore[arg-type]
    return "b" if given == "a" else "a"


def together(form: Form, one: Answer, other: Answer) -> Together:
    """One answer from two about the same designs in the same order.

    Of a pair and of an order what they contradict each other in is a tie; of a rating the milder counts, 0 where they
    are opposed; of a slider the middle of two places that lie near each other. Otherwise, and where one of them is a
    skip, it is a skip.
    """
    if SKIP in (one, other):
        return Together(SKIP, one == other)
    match form.kind:
        case Kind.PAIR:
            return Together(one if one == other else "tie", one == other)
        case Kind.RATING:
            first, second = int(one), int(other)  # type: ignore[arg-type]
            agree = first * second > 0 or first == second
            return Together(min(first, second, key=abs) if agree else 0, agree)
        case Kind.SLIDER:
            place, second_place = float(one), float(other)  # type: ignore[arg-type]
            near = abs(place - second_place) * (form.designs - 1) <= SAME_PLACE
            return Together((place + second_place) / 2 if near else SKIP, near)
        case Kind.ORDER:
            return _mean_order(form, one, other)
    return Together(one if one == other else SKIP, one == other)


def _mean_order(form: Form, *orders: Any) -> Together:
    """The order of the mean ranks; two agree where they share a design that comes first."""
    ranks, firsts, named = [0.0] * form.designs, [], set[int]()
    for order in orders:
        groups = [group if isinstance(group, list) else [group] for group in order]
        said_of = {number for group in groups for number in group}
        before = 0
        for group in [*groups, [number for number in range(form.designs) if number not in said_of]]:
            for number in group:
                ranks[number] += before + (len(group) - 1) / 2
            before += len(group)
        firsts.append(set(groups[0]))
        named |= said_of
    levels = sorted({ranks[number] for number in named})
    found = [[number for number in sorted(named) if ranks[number] == level] for level in levels]
    return Together(_order(form, found), bool(set.intersection(*firsts)))


IN_WORDS = {"a": "A is better", "b": "B is better", "tie": "can't tell", SKIP: "skipped"}


def cell(given: Answer) -> str | int | float:
    """An answer in one cell of a table: as it is, but an order as the text "2 > 0 = 3 > 1"."""
    if not isinstance(given, list):
        return given
    return " > ".join(" = ".join(map(str, one)) if isinstance(one, list) else str(one) for one in given)


def in_words(form: Form, answer: Answer) -> str:
    """An answer in words, designs counted from 1."""
    if isinstance(answer, str):
        return IN_WORDS[answer]
    if isinstance(answer, list):
        groups = [one if isinstance(one, list) else [one] for one in answer]
        return " > ".join(" = ".join(str(number + 1) for number in group) for group in groups)
    if form.kind is Kind.RATING:
        better = "A is" if float(answer) > 0 else "B is"
        return f"{better} {('slightly ', '', 'much ')[abs(int(answer)) - 1]}better" if answer else "equal"
    return f"{int(answer) + 1} is the best" if form.kind is Kind.CHOICE else f"best at {answer:g}"
