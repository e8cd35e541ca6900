"""What kappasharp raises. Each class is also a built-in error, so callers may catch either."""

import importlib
import json
import shlex
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

Row = TypeVar("Row")


class KappaSharpError(Exception):
    """Base of every error that kappasharp raises on purpose."""

    @property
    def sentence(self) -> str:
        """What it says, with all that it was made of where a page has other words for it (messages/message.py)."""
        return self.args[0] if self.args and isinstance(self.args[0], str) else str(self)


class InvalidValueError(KappaSharpError, ValueError):
    """An argument's value breaks a rule."""


class InvalidTypeError(KappaSharpError, TypeError):
    """An argument is of a kind that the call cannot use."""


class UnknownNameError(KappaSharpError, ValueError):
    """Nothing of that kind has that name."""


class DuplicateNameError(KappaSharpError, ValueError):
    """A study of that name is already there."""


class StalePairError(KappaSharpError, ValueError):
    """An answer came for a pair that is not open; `current` is the pair that is, or None.

    `why` is "answered", "withdrawn", or "changed" where it was withdrawn because a parameter was changed.
    """

    def __init__(self, sentence: str, current: Any = None, *, why: str = "answered") -> None:
        super().__init__(sentence)
        self.current, self.why = current, why


class StorageError(KappaSharpError, OSError):
    """A database could not do what was asked of it; nothing of that was kept, and nothing before it was lost."""


class DeletedError(StorageError):
    """A study that somebody held was deleted meanwhile."""


class CorruptedError(StorageError):
    """A stored row is not what was written."""


class ReplacedError(StorageError):
    """The file of a database is not the one that was opened: it is gone, another, or somebody else wrote into it."""


class LostEventsError(CorruptedError):
    """Events that were acknowledged are not in the database."""


class InviteError(KappaSharpError, ValueError):
    """A link lets nobody in, or not under that name.

    `why` is "unknown", "revoked", "deleted" (the study), "taken" (the name) or "full".
    """

    def __init__(self, sentence: str, why: str) -> None:
        super().__init__(sentence)
        self.why = why


class NotAllowedError(KappaSharpError, PermissionError):
    """Somebody's role does not allow what they asked for."""


class JudgeError(KappaSharpError, OSError):
    """A program that answers as a voter failed too often; every answer before is stored, its question is open."""


class MissingLibraryError(KappaSharpError, ImportError):
    """A part needs an optional library that is not installed."""


def named(kind: str, name: Any, table: Mapping[str, Row]) -> Row:
    """The row of that name, or an error that suggests the nearest."""
    if isinstance(name, str) and name in table:
        return table[name]
    plain = {key.lower(): key for key in table}
    near = get_close_matches(str(name).lower(), plain, n=1)
    hint = f" Did you mean {plain[near[0]]!r}?" if near else ""
    known = f"There are: {', '.join(table)}." if table else "There is none yet."
    raise UnknownNameError(f"No {kind} is called {name!r}.{hint} {known}")


def install_command(extra: str) -> str:
    """What installs an extra: from the place that this package was itself installed from, a clone or an index."""
    try:
        found = distribution("kappasharp").read_text("direct_url.json")
    except PackageNotFoundError:
        return f"`python -m pip install '.[{extra}]'` in the clone"
    url = "" if found is None else str(json.loads(found).get("url", ""))
    if not url:
        return f"`python -m pip install 'kappasharp[{extra}]'`"
    path = unquote(urlsplit(url).path)
    what = f"{path}[{extra}]" if url.startswith("file:") and Path(path).is_dir() else f".[{extra}]"
    return f"`python -m pip install {shlex.quote(what)}`" + (" in a clone" if what.startswith(".") else "")


def needed(module: str, whom: str, extra: str, remedy: str = "") -> ModuleType:
    """An optional library, or the sentence that says who needs it and what brings it: an extra, or another remedy."""
    try:
        # What a library's own import warns of is its makers' business. One made by SWIG ends the whole process where
        # such a warning is an error.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibraryError(
            f"{whom} needs the library {module!r}, which cannot be imported ({error}); "
            + (remedy or f"{install_command(extra)} installs it.")
        ) from error
