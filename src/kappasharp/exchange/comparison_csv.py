"""Past comparisons from a CSV file: each bad line named with its number and reason, and all taken or none.

Columns are `a.NAME` and `b.NAME` for each tuned parameter, and `answer`; or those that the CSV export writes, whose
galleries, orders, sliders and ratings are taken as the comparisons of two that they say. Other columns are left alone.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kappasharp.errors import InvalidTypeError, InvalidValueError, KappaSharpError, StorageError
from kappasharp.journal import events
from kappasharp.journal.definition import Definition
from kappasharp.journal.events import Added, Recorded
from kappasharp.journal.history import design_key
from kappasharp.messages.message import Sentence, in_a_row, said
from kappasharp.questions import kind as questions_kind
from kappasharp.questions.kind import SKIP, Answer, Form, Kind
from kappasharp.space.parameters import Categorical, Fixed, Parameter, Value
from kappasharp.space.space import Design, Space

# What makes a spreadsheet take a text for a formula; the export puts an apostrophe before it.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
LETTERS = "abcdefghi"
DELIMITERS = ",;\t"
MOST_LINES, MOST_TOLD = 20_000, 10
COLUMN = re.compile(r"([a-i])(?:\.|_params_)(.+)")
WINNER = {"winner": "a", "loser": "b"}


class Imported(NamedTuple):
    """How many comparisons were taken, from how many answers, and how many skips were left out."""

    comparisons: int
    answers: int
    skips: int


class FileContent(NamedTuple):
    """The comparisons of a file, each with its voter, which voters are programs, and outcomes that were measured."""

    added: list[tuple[str, Added]]
    programs: list[str]
    counted: Imported
    measured: list[Recorded]


class Layout(NamedTuple):
    """Where things stand in a line: each design's parameters by letter, and the other columns by name."""

    designs: dict[str, dict[str, int]]
    others: dict[str, int]
    decimal_comma: bool


def read(path: Path) -> str:
    """The text of a file, or a sentence."""
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"{path} must be a text in UTF-8, but got {error}; save it as CSV UTF-8.") from error


def parse(text: str, definition: Definition, voter: str) -> FileContent:
    """The comparisons of a text, or a sentence that names every bad line."""
    lines = _lines(text)
    layout = _layout(lines[0][1], definition.space, text)
    added: list[tuple[str, Added]] = []
    troubles: list[tuple[int, str]] = []
    programs: list[str] = []
    measured: dict[Any, Recorded] = {}
    answers = skips = 0
    for number, cells in lines[1:]:
        try:
            found = _line(cells, layout, definition, voter)
            measured |= {design_key(one.design): one for one in _measured(cells, layout, definition)}
        except KappaSharpError as error:
            troubles.append((number, error.sentence))
            continue
        added += found
        programs += [who for who, _ in found[:1] if _reader(cells, layout)("program").lower() == "true"]
        answers, skips = answers + bool(found), skips + (not found)
    if troubles:
        raise InvalidValueError(_in_words(troubles))
    if not added:
        nothing = "The file must hold a comparison below its head line, but it has none."
        raise InvalidValueError(said("fault.file.none", nothing))
    counted = Imported(len(added), answers, skips)
    return FileContent(added, list(dict.fromkeys(programs)), counted, list(measured.values()))


def _in_words(troubles: Sequence[tuple[int, str]]) -> Sentence:
    first = troubles[:MOST_TOLD]
    told = "; ".join(f"line {number}: {words.removesuffix('.')}" for number, words in first)
    more = f"; and {len(troubles) - MOST_TOLD} more" if len(troubles) > MOST_TOLD else ""
    one = "One line" if len(troubles) == 1 else f"{len(troubles)} lines"
    words = f"{one} of the file cannot be taken: {told}{more}. Nothing was stored; mend these and import it again."
    # The same for a page, whose languages end each of these as they do.
    lines = [said("fault.file.line", "Line {number}: {fault}", number=number, fault=fault) for number, fault in first]
    return Sentence(words, "fault.file.lines", {"count": len(troubles), "lines": in_a_row(lines, " ")})


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, with the numbers of their lines."""
    head = text.lstrip("\ufeff").split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=head.count)
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=delimiter)
    found: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                found.append((reader.line_num, cells))
            if len(found) > MOST_LINES:
                many = "The file must not have more than {most:,} lines; import it in parts."
                raise InvalidValueError(said("fault.file.long", many, most=MOST_LINES))
    except csv.Error as error:
        words = "The file must be CSV, but line {number} is not: {error}."
        raise InvalidValueError(said("fault.file.csv", words, number=reader.line_num, error=str(error))) from error
    if not found:
        empty = "The file must have a head line, such as `a.width,b.width,answer`, but it is empty."
        raise InvalidValueError(said("fault.file.empty", empty))
    return found


def _layout(head: Sequence[str], space: Space, text: str) -> Layout:
    """Which column holds what, or a sentence that names what is missing."""
    designs: dict[str, dict[str, int]] = {}
    others: dict[str, int] = {}
    for place, cell in enumerate(head):
        name = _plain(cell.strip())
        for word, letter in WINNER.items():
            name = f"{letter}{name[len(word) :]}" if name.startswith(f"{word}.") else name
        found = COLUMN.fullmatch(name)
        if found is not None and found[2] in space.parameters:
            designs.setdefault(found[1], {})[found[2]] = place
        else:
            others[name] = place
    says_winner = any(cell.strip().startswith("winner.") for cell in head)
    missing = [f"{side}.{name}" for side in "ab" for name in space.tuned if name not in designs.get(side, {})]
    missing += [] if "answer" in others or says_winner else ["answer"]
    if missing:
        words = (
            "The file must have a column for each parameter of both designs and one for the answer, but {missing} is "
            "missing; its head line has {head}."
        )
        given = {"missing": ", ".join(missing), "head": ", ".join(cell.strip() for cell in head)}
        raise InvalidValueError(said("fault.file.columns", words, **given))
    if says_winner:
        others.pop("answer", None)
    return Layout(designs, others, ";" in text.split("\n", 1)[0])


def _line(cells: Sequence[str], layout: Layout, definition: Definition, voter: str) -> list[tuple[str, Added]]:
    """The comparisons of one line; none of a skip."""
    value = _reader(cells, layout)
    who = _plain(value("voter")) or voter
    form, designs = _asked(value, cells, layout, definition.space)
    answer = _answer(form, value("answer") if "answer" in layout.others else "a")
    if answer == SKIP:
        return []
    return [(events.voter(who), one) for one in _comparisons(definition.space, form, designs, answer)]


def _reader(cells: Sequence[str], layout: Layout) -> Callable[[str], str]:
    def value(name: str) -> str:
        place = layout.others.get(name)
        return "" if place is None or place >= len(cells) else cells[place].strip()

    return value


def _asked(
    value: Callable[[str], str], cells: Sequence[str], layout: Layout, space: Space
) -> tuple[Form, list[Design]]:
    """What was asked, and the designs that were shown."""
    kind = value("kind") or Kind.PAIR.value
    if kind not in questions_kind.NAMES:
        raise InvalidValueError(f"`kind` must be one of {', '.join(questions_kind.NAMES)}, but got {kind!r}.")
    letters = (
        "ab" if Kind(kind) not in questions_kind.COUNTED else [one for one in LETTERS if _is_there(cells, layout, one)]
    )
    if len(letters) != 1 + max(map(LETTERS.index, letters), default=0):
        raise InvalidValueError("the designs of an answer must stand in the first columns, without a gap.")
    designs = [_design(cells, layout, letter, space) for letter in letters]
    keys = {design_key(design) for design in designs}
    if len(keys) < len(designs):
        words = "the designs of an answer must differ, but got {design} twice."
        raise InvalidValueError(said("fault.file.twice", words, design=str(designs[0])))
    return questions_kind.parse(kind, len(designs), what="kind"), designs


def _measured(cells: Sequence[str], layout: Layout, definition: Definition) -> list[Recorded]:
    """The outcomes that a line has of its designs, where somebody measures them; a function computes its own anew."""
    if definition.outcomes is None or definition.simulator is not None:
        return []
    value, found = _reader(cells, layout), []
    for letter in LETTERS:
        told = {name: value(f"{letter}_outcomes_{name}") for name in definition.outcomes.names}
        given = {name: _number(name, cell, layout.decimal_comma) for name, cell in told.items() if cell}
        if given and _is_there(cells, layout, letter):
            design = _design(cells, layout, letter, definition.space)
            found.append(Recorded(design, definition.outcomes.check(given, complete=False), "measured"))
    return found


def _number(name: str, cell: str, decimal_comma: bool) -> float:
    try:
        return float(cell.replace(",", ".") if decimal_comma else cell)
    except ValueError:
        raise InvalidValueError(f"the outcome {name} must be a number, but got {cell!r}.") from None


def _is_there(cells: Sequence[str], layout: Layout, letter: str) -> bool:
    places = layout.designs.get(letter, {}).values()
    return any(place < len(cells) and cells[place].strip() for place in places)


def _design(cells: Sequence[str], layout: Layout, letter: str, space: Space) -> Design:
    given: dict[str, Any] = {}
    for name, place in layout.designs[letter].items():
        cell = cells[place].strip() if place < len(cells) else ""
        given[name] = _value(f"{letter}.{name}", space.parameters[name], cell, layout.decimal_comma)
    return space.check(given)


def _value(column: str, part: Parameter, cell: str, decimal_comma: bool) -> Value:
    """The value that a cell holds."""
    if isinstance(part, Categorical | Fixed):
        choices = part.choices if isinstance(part, Categorical) else (part.value,)
        near = [one for one in choices if cell in (_written(one), _raw(one))]
        if len(near) != 1:
            words = "`{name}` must be one of {choices}, but got {got}."
            raise InvalidValueError(
                said("fault.choice", words, name=column, choices=repr(list(choices)), got=repr(cell))
            )
        return near[0]
    text = cell.replace(",", ".") if decimal_comma else cell
    try:
        return int(text) if re.fullmatch(r"[+-]?\d{1,16}", text) else float(text)
    except ValueError as error:
        words = "{name} must be a number, but got {got}."
        raise InvalidTypeError(said("fault.number", words, name=f"`{column}`", got=repr(cell))) from error


def _raw(value: Value) -> str:
    return "" if value is None else str(value)


def _written(value: Value) -> str:
    """A cell as the export writes it."""
    return str(defused(_raw(value))).strip()


def defused(value: Any) -> Any:
    """The value; a text that a spreadsheet would compute has an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _plain(cell: str) -> str:
    """What was written before it was defused."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def _answer(form: Form, told: str) -> Answer:
    word = told.lower()
    if word in questions_kind.WORDS:
        return questions_kind.answer(form, word)
    try:
        return questions_kind.answer(form, _order(told) if form.kind is Kind.ORDER else json.loads(_plain(told)))
    except (ValueError, RecursionError) as error:
        if isinstance(error, KappaSharpError):
            raise
        if not form.is_pair:
            raise InvalidValueError(f"`answer` to {form.words} must be {_allowed(form)}, but got {told!r}.") from error
        words = "`answer` must be a, b, tie or skip, but got {got}."
        raise InvalidValueError(said("fault.file.answer", words, got=repr(told))) from error


def _allowed(form: Form) -> str:
    """What a cell may hold, in words: an order is a text there."""
    if form.kind is not Kind.ORDER:
        return questions_kind.allowed(form)
    return f"numbers from 0 to {form.designs - 1}, best first with > and = between them ('2 > 0 = 1'), or 'skip'"


def _order(told: str) -> list[Any]:
    """An order as the export writes it, "2 > 0 = 3 > 1"."""
    groups = [[int(one) for one in group.split("=")] for group in told.split(">")]
    return [group[0] if len(group) == 1 else group for group in groups]


def _comparisons(space: Space, form: Form, designs: Sequence[Mapping[str, Value]], answer: Answer) -> list[Added]:
    """What an answer says of two designs at a time; of a slider, the place where it was left over its designs."""
    if form.kind is Kind.SLIDER:
        assert isinstance(answer, float)
        place = space.along([dict(one) for one in designs], answer)
        return [Added(place, dict(one)) for one in designs if design_key(one) != design_key(place)]
    found = questions_kind.said(form, answer)
    return [
        Added(dict(designs[i]), dict(designs[j]), bool(tie))
        for (i, j), tie in zip(found.pairs, found.ties, strict=True)
    ]
