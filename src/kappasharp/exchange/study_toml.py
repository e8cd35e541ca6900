"""A study as a TOML file, or as words of a command: its parameters, and what it should not leave to the defaults."""

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kappasharp.errors import InvalidTypeError, InvalidValueError, StorageError, named
from kappasharp.journal.definition import Definition, Options
from kappasharp.space import outcomes
from kappasharp.space.outcomes import Outcomes, split_name
from kappasharp.space.space import Space, space

PARTS_OF_A_RANGE = (2, 3)
# More dots than this between two signs of TOML are no key of a study, nor a text in one.
MOST_DOTS = 1000
# What a study that goes on keeps, whatever its file says; what it asks, and what it knows, may not be said otherwise.
STANDING = ("seed", "method", "preset", "first_pairs")
ENTRIES = ("name", "parameters", *Options.__annotations__)


@dataclass(frozen=True)
class StudyFile:
    """What the file says; `options` are those of `create_study`.

    Outcomes are `outcomes = "module:function"`, or a table [outcomes] with `function` and what is known of each, such
    as `overshoot = {better = "less", at_most = 0.2}`; without `function` they are measured.
    """

    name: str
    space: Space
    options: Options

    @property
    def render(self) -> str | None:
        """The function that draws a design, as module:function."""
        return self.options.get("render")

    def unheard(self, name: str, stored: Definition) -> list[str]:
        """A sentence for each choice of the file that a study of that name was made without, and goes on without."""
        made = stored.plain()
        chosen = {option: given for option, given in self.options.items() if option in STANDING}
        return [
            f"the study {name!r} was made with `{option}` {made[option]!r}, and that stands: {given!r} in its file "
            "changes nothing; another `name` there makes a new study."
            for option, given in chosen.items()
            if given != made[option]
        ]


def read(path: Path) -> StudyFile:
    """The study of a TOML file, checked."""
    try:
        table = read_table(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"{path} is not TOML: {error}.") from error
    try:
        return parse(table, path.stem)
    except (InvalidValueError, InvalidTypeError) as error:
        raise type(error)(f"{path}: {error}") from error


def read_table(text: str, where: str) -> dict[str, Any]:
    """The table of a TOML text; `where` it is from, for sentences."""
    # Python's reader takes time with the square of a key's dots.
    longest = max((part.count(".") for part in re.split(r"[\n=,\[\]{}]", text)), default=0)
    if longest > MOST_DOTS:
        raise InvalidValueError(f"{where} is not TOML of a study: a key must have at most {MOST_DOTS} dots.")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidValueError(f"{where} is not TOML: {error}.") from error


def parse(table: dict[str, Any], name: str) -> StudyFile:
    """The study of a TOML table; `name` is for one that has none."""
    for entry in table:
        named("entry of a study file", entry, dict.fromkeys(ENTRIES))
    parameters = table.get("parameters")
    if not isinstance(parameters, dict):
        raise InvalidValueError(
            "A study file must have a table [parameters], such as `kp = {low = 0.2, high = 3.0}`, but got none."
        )
    if "render" in table:
        split_name(table["render"], "render")
    if not isinstance(table.get("name", name), str):
        raise InvalidTypeError(f"`name` must be a text, but got {table['name']!r}.")
    options = {entry: table[entry] for entry in Options.__annotations__ if entry in table}
    _check_outcomes(options.get("outcomes"))
    return StudyFile(table.get("name", name), space(parameters), cast(Options, options))


def _check_outcomes(given: Any) -> None:
    """What a file says of outcomes is checked before its function is run."""
    if given is None:
        return
    function, rows = outcomes.read_given(given)
    if function is None:
        Outcomes(rows)
    else:
        split_name(function)


def parameters(entries: Sequence[str]) -> dict[str, Any]:
    """The parameters of words such as kp=0.2:3; each name once."""
    found: dict[str, Any] = {}
    for entry in entries:
        name, equals, given = entry.partition("=")
        if not equals or not name.strip() or not given.strip():
            raise InvalidValueError(f"`--param` must be name=low:high or name=choice,choice, but got {entry!r}.")
        if name in found:
            raise InvalidValueError(f"`--param` must name each parameter once, but got {name!r} twice.")
        found[name] = _parameter(entry, given)
    return found


def design(words: str) -> dict[str, Any]:
    """A design of words such as kp=1,mode=soft; each name once."""
    found: dict[str, Any] = {}
    for word in words.split(","):
        name, equals, given = word.strip().partition("=")
        if not equals or not name or not given or name in found:
            raise InvalidValueError(f"`--favourite` must be NAME=VALUE, by commas, each name once, but got {words!r}.")
        found[name] = value(given)
    return found


def _parameter(entry: str, given: str) -> Any:
    """A range low:high, with int: before or :log after it; choices by commas; or one value, fixed."""
    kind = "int" if given.startswith("int:") else "float"
    given = given.removeprefix("int:")
    if ":" in given or kind == "int":
        parts = given.split(":")
        if len(parts) not in PARTS_OF_A_RANGE or parts[2:] not in ([], ["log"]):
            raise InvalidValueError(
                f"`--param` must be a range such as name=low:high, name=low:high:log or name=int:low:high, but got "
                f"{entry!r}."
            )
        low, high = (value(part) for part in parts[:2])
        return {"type": kind, "low": low, "high": high, "log": parts[2:] == ["log"]}
    words = given.split(",")
    if not all(word.strip() for word in words):
        raise InvalidValueError(f"`--param` must have a text between commas, but got {entry!r}.")
    choices = [value(word.strip()) for word in words]
    return choices if len(choices) > 1 else {"value": choices[0]}


def value(word: str) -> Any:
    """A number, true or false where it reads as one."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(word)
        except ValueError:
            continue
        return number if isinstance(number, int) or math.isfinite(number) else word
    return word
