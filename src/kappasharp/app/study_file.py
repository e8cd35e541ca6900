"""A study as a TOML file: its name, its parameters, and whatever else it should not leave to the defaults."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kappasharp.errors import InvalidTypeError, InvalidValueError, StorageError, named
from kappasharp.study.space import Space, space

OPTIONS = ("seed", "method", "preset", "first_pairs")
ENTRIES = ("name", "parameters", "render", *OPTIONS)


@dataclass(frozen=True)
class StudyFile:
    """What the file says; `options` are for `create_study`, `render` names a function as module:function."""

    name: str
    space: Space
    options: dict[str, Any]
    render: str | None


def read(path: Path) -> StudyFile:
    """The study of a TOML file, checked."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"{path} is not TOML: {error}.") from error
    try:
        return parse(table, path.stem)
    except (InvalidValueError, InvalidTypeError) as error:
        raise type(error)(f"{path}: {error}") from error


def parse(table: dict[str, Any], name: str) -> StudyFile:
    """The study of a TOML table; `name` is for one that has none."""
    for entry in table:
        named("entry of a study file", entry, dict.fromkeys(ENTRIES))
    parameters = table.get("parameters")
    if not isinstance(parameters, dict):
        raise InvalidValueError(
            "A study file must have a table [parameters], such as `kp = {low = 0.2, high = 3.0}`, but got none."
        )
    render = table.get("render")
    if render is not None and not isinstance(render, str):
        raise InvalidTypeError(f"`render` must be a text, module:function, but got {render!r}.")
    options = {entry: table[entry] for entry in OPTIONS if entry in table}
    return StudyFile(str(table.get("name", name)), space(parameters), options, render)
