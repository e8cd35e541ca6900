"""Limits as people write them, read into trees: a few words of Python, none that could do anything but compute.

A limit is made of numbers, texts in quotes, parameters' names, + - * / ** %, comparisons (a <= b <= c too), `in` with a
list of values, and, or, not, and the functions abs, min, max, sqrt, exp, log. A name that Python would not read as one
(two words, a hyphen, `lambda`) stands in backquotes, `` `wall height` <= 2 * width ``; a backquote in it, twice.

Nothing is ever compiled or run: the text goes through Python's parser, and what is on the list above becomes a tree of
named tuples. All else is a sentence that names the words at fault.
"""

import ast
import keyword
import math
import operator
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.space.parameters import Categorical, Fixed, Float, Parameter, Value
from kappasharp.space.space import Space

# What a limit says: expressions of a design's parameters and conditions on them, as trees of plain tuples.
#
# How far designs break them is computed in `model/limits.py`, for thousands of designs at once.

_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": math.pow, "%": operator.mod,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "min": min, "max": max,
}  # fmt: skip


class Column(NamedTuple):
    """A parameter's values: numbers as they are, choices by their place in the list."""

    name: str


class Chain(NamedTuple):
    """Operations one after the other, from the left."""

    first: "Expression"
    rest: tuple[tuple[str, "Expression"], ...]


class Called(NamedTuple):
    """A function of its parts."""

    function: str
    parts: tuple["Expression", ...]


class Relation(NamedTuple):
    """Two numbers compared; `spread` is how much their difference varies over the space."""

    left: "Expression"
    sign: str
    right: "Expression"
    spread: float = 1.0


class Membership(NamedTuple):
    """Which places in the list of one parameter's choices are meant, or which pairs of places of two."""

    names: tuple[str, ...]
    meant: tuple[Any, ...]


class Combined(NamedTuple):
    """All of the parts, or any of them."""

    every: bool
    parts: tuple["Condition", ...]


Expression = float | Column | Chain | Called
Condition = Relation | Membership | Combined
ALWAYS, NEVER = Combined(True, ()), Combined(False, ())


def columns(tree: Condition | Expression) -> Iterator[str]:
    """Every parameter that a tree speaks of, as often as it does."""
    inner: tuple[Condition | Expression, ...] = ()
    match tree:
        case Column(name):
            yield name
        case Membership(names):
            yield from names
        case Chain(first, rest):
            inner = (first, *(part for _, part in rest))
        case Relation(left, _, right):
            inner = (left, right)
        case Called(_, parts) | Combined(_, parts):
            inner = tuple(parts)
    for part in inner:
        yield from columns(part)


def numeric(part: Parameter) -> bool:
    """Whether one can compute with this parameter: a number, or a choice between numbers."""
    values = part.choices if isinstance(part, Categorical) else (part.value,) if isinstance(part, Fixed) else ()
    return all(is_number(value) for value in values)


def constant(expression: Expression) -> float:
    """The value of an expression that speaks of no parameter; NaN where it has none."""
    try:
        found = _value(expression)
    except (ArithmeticError, ValueError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def _value(expression: Expression) -> float:
    match expression:
        case Chain(first, rest):
            found = _value(first)
            for operation, part in rest:
                found = _finite(_OPERATIONS[operation](found, _value(part)))
            return found
        case Called(function, parts):
            return _finite(_FUNCTIONS[function](*map(_value, parts)))
        case Column():
            raise AssertionError("a parameter has no value of its own")
    return float(expression)


def _finite(value: float) -> float:
    """The value, if it is one: NaN ** 0 is 1, and 1 / (1 / 0) is 0, to Python too."""
    if not math.isfinite(value):
        raise ArithmeticError
    return value


def turned(condition: Condition) -> Condition:
    """The opposite of what was found of choices."""
    if isinstance(condition, Membership):
        both = len(condition.names) > 1
        flipped = (tuple(not b for b in a) if both else not a for a in condition.meant)
        return Membership(condition.names, tuple(flipped))
    return NEVER if condition == ALWAYS else ALWAYS


def is_number(value: Any) -> bool:
    """Whether this is a number and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(one: Value, other: Value) -> bool:
    """Whether two values are one choice: True is 1 to Python, and not to whoever offers both."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


# More than any limit that a person writes, and little enough that reading and computing one stay quick.
LONGEST, MOST_WORDS, DEEPEST, LARGEST_EXPONENT = 4000, 2000, 40, 100.0
SHOWN = 60
MADE_OF = (
    "numbers, texts in quotes, parameters, + - * / ** %, comparisons, in, and, or, not, abs, min, max, sqrt, exp, log"
)
OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Mod: "%",
}  # fmt: skip
RELATIONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
# How many values each function takes; min and max take two or more.
FUNCTIONS = {"abs": 1, "sqrt": 1, "exp": 1, "log": 1, "min": None, "max": None}
# What other languages write.
INSTEAD = {
    ast.BitXor: "a power is written **", ast.BitAnd: "write `and`", ast.BitOr: "write `or`",
    ast.FloorDiv: "only / divides", ast.Is: "write ==", ast.IsNot: "write !=", ast.Invert: "write `not`",
}  # fmt: skip
QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`((?:[^`]|``)+)`""")


def check_room(wanted: Relation, space: Space, who: str) -> None:
    """A sentence where a number that may be any would have to be just one; `who` wants it, a text or two together."""
    parts = [(name, space.parameters[name]) for name in columns(wanted)]
    free = [name for name, part in parts if isinstance(part, Float) and part.values is None]
    if free:
        raise InvalidValueError(
            f"A limit must leave room, but {who} an exact value of `{free[0]}`, which may be any number; write "
            "abs(a - b) <= 0.01 for a == b, or leave out the parameter that follows from the others."
        )


def read(text: str, space: Space) -> Condition:
    """The condition that a text states about the designs of a space, or a sentence."""
    if not isinstance(text, str):
        raise InvalidTypeError(f"A limit must be a text such as 'a + b <= 1', but got {text!r}.")
    if len(text) > LONGEST:
        raise InvalidValueError(f"A limit must have at most {LONGEST} characters, but got {len(text)}.")
    reader = _Reader(text, space)
    found = reader.condition(reader.tree, True)
    if not reader.used:
        raise InvalidValueError(
            f"A limit must name a parameter, but {text!r} names none. There are: {', '.join(space.parameters)}."
        )
    return found


def _instead(node: ast.expr) -> str:
    """What stands in a limit for an operation of other languages, to be added to a sentence."""
    words = INSTEAD.get(type(node.op)) if isinstance(node, ast.BinOp | ast.UnaryOp) else None
    return "" if words is None else f"; {words}"


class _Reader:
    """One text on its way into a tree."""

    def __init__(self, text: str, space: Space) -> None:
        self.text, self.space = text, space
        self.quoted: dict[str, str] = {}
        self.used: set[str] = set()
        self.source = self._without_backquotes(text)
        self.tree = self._parsed()

    def _without_backquotes(self, text: str) -> str:
        """The text with a plain name in the place of each in backquotes."""
        stem = "quoted"
        while stem in text:
            stem += "_"

        def plain(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0]
            name = f"{stem}{len(self.quoted)}"
            self.quoted[name] = match[1].replace("``", "`")
            return f" {name} "

        return QUOTED.sub(plain, text).strip()

    def _parsed(self) -> ast.expr:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                tree = ast.parse(self.source, mode="eval").body
        except (RecursionError, MemoryError) as error:
            raise self._too_much() from error
        except (SyntaxError, ValueError) as error:
            raise InvalidValueError(
                f"A limit must be an expression such as 'a + b <= 1', but {self._short(self.text)!r} is none: "
                f"{getattr(error, 'msg', error)}.{self._hint()}"
            ) from error
        words, waiting = 0, [(tree, 1)]
        while waiting:
            node, depth = waiting.pop()
            words += 1
            if depth > DEEPEST or words > MOST_WORDS:
                raise self._too_much()
            # A sum of many terms is nested to the left in Python's tree, and not to who reads it.
            spine = node.left if isinstance(node, ast.BinOp) else None
            inner = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
            waiting += [(child, depth + (child is not spine)) for child in inner]
        return tree

    def _too_much(self) -> InvalidValueError:
        return InvalidValueError(
            f"A limit must have at most {MOST_WORDS} words, nested at most {DEEPEST} deep, but got more in "
            f"{self._short(self.text)!r}; several limits may say it in parts."
        )

    def _hint(self) -> str:
        """What a text that is no Python may have meant."""
        odd = [n for n in self.space.parameters if (not n.isidentifier() or keyword.iskeyword(n)) and n in self.text]
        if odd:
            written = odd[0].replace("`", "``")
            return f" A name that is not one plain word is written in backquotes: `{written}`."
        if turned_sign := re.search(r"=[<>]", self.text):
            return f" That sign is written {turned_sign[0][::-1]}."
        return " Two sides are compared by ==, not by =." if re.search(r"(?<![<>=!])=(?!=)", self.text) else ""

    def condition(self, node: ast.expr, wanted: bool) -> Condition:
        """What holds where the node is as wanted, true or false: `not` goes inwards as far as the comparisons."""
        match node:
            case ast.BoolOp(op, values):
                parts = tuple(self.condition(value, wanted) for value in values)
                return Combined(isinstance(op, ast.And) == wanted, parts)
            case ast.UnaryOp(ast.Not(), inner):
                return self.condition(inner, not wanted)
            case ast.Compare(left, signs, others):
                sides = zip([left, *others], signs, others, strict=False)
                compared = tuple(self._compared(one, sign, other, wanted) for one, sign, other in sides)
                return compared[0] if len(compared) == 1 else Combined(wanted, compared)
            case ast.Name():
                part = self._parameter(node)
                given = part.choices if isinstance(part, Categorical) else (getattr(part, "value", None),)
                if all(isinstance(value, bool) for value in given):
                    return self._matched(node, [wanted])
        self._refuse(node, f"has no place where something must be true or false: a comparison has{_instead(node)}")

    def _compared(self, left: ast.expr, sign: ast.cmpop, right: ast.expr, wanted: bool) -> Condition:
        if isinstance(sign, ast.In | ast.NotIn):
            return self._among(left, right, wanted == isinstance(sign, ast.In))
        if type(sign) not in RELATIONS:
            self._refuse(left, f"is compared in a way that is not known; {INSTEAD[type(sign)]}")
        written = RELATIONS[type(sign)] if wanted else OPPOSITE[RELATIONS[type(sign)]]
        if not (self._is_choice(left) or self._is_choice(right)):
            return self._relation(left, written, right)
        if written not in ("==", "!="):
            self._refuse(left if self._is_choice(left) else right, "has no order; == and != compare it")
        return self._alike(left, right, written == "==")

    def _relation(self, left: ast.expr, sign: str, right: ast.expr) -> Relation:
        found = Relation(self.number(left), sign, self.number(right))
        if sign == "==":
            check_room(found, self.space, f"{self._short(self.text)!r} wants")
        return found

    def _among(self, left: ast.expr, right: ast.expr, wanted: bool) -> Condition:
        """A value in a list of them."""
        if not isinstance(right, ast.Tuple | ast.List | ast.Set):
            self._refuse(right, "must be a list such as ('oak', 'ash') after `in`")
        if not self._is_choice(left):
            parts = tuple(self._relation(left, "==" if wanted else "!=", value) for value in right.elts)
            return Combined(not wanted, parts)
        values = [self._constant(value) for value in right.elts]
        inside = self._matched(left, values) if isinstance(left, ast.Name) else self._refuse(left, "is no parameter")
        return inside if wanted else turned(inside)

    def _alike(self, left: ast.expr, right: ast.expr, wanted: bool) -> Condition:
        """Two choices, or a choice and a value, that are the same."""
        if not isinstance(left, ast.Name):
            left, right = right, left
        if not isinstance(left, ast.Name):
            self._refuse(left, "is compared with another value: a limit compares parameters")
        one = self._parameter(left)
        other = self._parameter(right) if isinstance(right, ast.Name) else None
        if isinstance(one, Categorical) and isinstance(other, Categorical):
            assert isinstance(right, ast.Name)
            names = (self._name(left), self._name(right))
            found: Condition = Membership(names, tuple(tuple(same(a, b) for b in other.choices) for a in one.choices))
        elif isinstance(other, Categorical) and isinstance(right, ast.Name):
            found = self._matched(right, [self._constant(left)])
        else:
            found = self._matched(left, [self._constant(right)])
        return found if wanted else turned(found)

    def _matched(self, node: ast.Name, values: list[Value]) -> Condition:
        """A choice that is one of these values, each of which must be one that it may take."""
        name, part = self._name(node), self._parameter(node)
        if isinstance(part, Fixed):
            return ALWAYS if any(same(part.value, value) for value in values) else NEVER
        if not isinstance(part, Categorical):
            raise InvalidTypeError(
                f"`{name}` is a number, but {self._short(self.text)!r} compares it with {values[0]!r}, which is none."
            )
        meant = [part.check(name, value) for value in values]
        return Membership((name,), tuple(any(same(a, b) for b in meant) for a in part.choices))

    def _constant(self, node: ast.expr) -> Value:
        """A value that is written out, or fixed."""
        match node:
            case ast.Constant(value) if value is None or isinstance(value, bool | str | int | float):
                return value
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return -value
            case ast.Name():
                part = self._parameter(node)
                if isinstance(part, Fixed):
                    return part.value
        self._refuse(node, "is compared with a choice: a text in quotes, a number, True, False or None can be")

    def _is_choice(self, node: ast.expr) -> bool:
        """Whether this is nothing to compute with: a text, a parameter that holds texts."""
        if isinstance(node, ast.Constant):
            return node.value is None or isinstance(node.value, bool | str)
        return isinstance(node, ast.Name) and not numeric(self._parameter(node))

    def number(self, node: ast.expr) -> Expression:
        """An expression to compute."""
        match node:
            case ast.Constant(int() | float() as value) if is_number(value):
                return self._finite(node, value)
            case ast.Name():
                return self._numbers(node)
            case ast.UnaryOp(ast.USub() | ast.UAdd() as sign, inner):
                operation = "-" if isinstance(sign, ast.USub) else "+"
                return self._folded(node, Chain(0.0, ((operation, self.number(inner)),)))
            case ast.BinOp():
                return self._chain(node)
            case ast.Call(ast.Name(function), parts, []) if function not in self.quoted:
                count = named("function of a limit", function, FUNCTIONS)
                if len(parts) != count if count else len(parts) < 2:  # noqa: PLR2004 - the fewest to compare
                    self._refuse(node, f"must have {count or 'two or more'} value{'s' if count != 1 else ''}")
                return self._folded(node, Called(function, tuple(self.number(part) for part in parts)))
        self._refuse(node, "is none of these")

    def _folded(self, node: ast.expr, found: Chain | Called) -> Expression:
        """A part that names no parameter is one number."""
        if any(True for _ in columns(found)):
            return found
        return self._finite(node, constant(found))

    def _chain(self, node: ast.expr) -> Expression:
        whole, rest = node, list[tuple[str, Expression]]()
        while isinstance(node, ast.BinOp):
            if type(node.op) not in OPERATIONS:
                self._refuse(node, f"is none of these{_instead(node)}")
            right = self.number(node.right)
            if isinstance(node.op, ast.Pow) and isinstance(right, float) and abs(right) > LARGEST_EXPONENT:
                self._refuse(node, f"has an exponent beyond {LARGEST_EXPONENT:g}")
            rest.insert(0, (OPERATIONS[type(node.op)], right))
            node = node.left
        return self._folded(whole, Chain(self.number(node), tuple(rest)))

    def _numbers(self, node: ast.Name) -> Expression:
        part, name = self._parameter(node), self._name(node)
        if not numeric(part):
            raise InvalidTypeError(
                f"`{name}` is a choice, but {self._short(self.text)!r} computes with it; == and != compare it."
            )
        return float(part.value) if isinstance(part, Fixed) else Column(name)  # type: ignore[arg-type]

    def _finite(self, node: ast.expr, value: float) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        return number if math.isfinite(number) else self._refuse(node, "has no finite value")

    def _parameter(self, node: ast.Name) -> Parameter:
        return self.space.parameters[self._name(node)]

    def _name(self, node: ast.Name) -> str:
        """The parameter of that name; Python reads plain names in Unicode's composed form."""
        name = self.quoted.get(node.id)
        if name is None:
            alike = [other for other in self.space.parameters if unicodedata.normalize("NFKC", other) == node.id]
            if len(alike) > 1:
                self._refuse(node, f"may be any of {', '.join(map(repr, alike))}: write it in backquotes")
            name = alike[0] if alike else node.id
        named("parameter", name, self.space.parameters)
        self.used.add(name)
        return name

    def _refuse(self, node: ast.AST, why: str) -> NoReturn:
        part = ast.get_source_segment(self.source, node) or self.source
        for plain, name in self.quoted.items():
            part = part.replace(plain, f"`{name}`")
        raise InvalidValueError(
            f"A limit must be made of {MADE_OF}, but {self._short(part)!r} in {self._short(self.text)!r} {why}."
        )

    def _short(self, text: str) -> str:
        return text if len(text) <= SHOWN else text[:SHOWN] + "…"
