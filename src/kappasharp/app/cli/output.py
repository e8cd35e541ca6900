"""How commands speak: data on stdout, talk on stderr, errors as one sentence with an exit code."""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from kappasharp.errors import DuplicateNameError, KappaSharpError, StalePairError, StorageError

# Beside click's own 0 (done) and 2 (bad input).
REFUSED, STALE = 1, 3

in_format = click.option(
    "-f", "--format", "style", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="For people, or for programs.",
)  # fmt: skip


@contextmanager
def in_words() -> Iterator[None]:
    """Our own errors as a sentence without a traceback: 1 a database or file refused, 2 bad input, 3 a stale pair."""
    try:
        yield
    except StalePairError as error:
        _end(error, STALE)
    except StorageError as error:
        _end(error, REFUSED)
    except DuplicateNameError as error:
        # Its own sentence names Python's ways out.
        taken = str(error).partition(";")[0]
        raise click.UsageError(f"{taken}; take another name, or `kappasharp delete` that one first.") from error
    except KappaSharpError as error:
        raise click.UsageError(str(error)) from error


def _end(error: KappaSharpError, code: int) -> None:
    click.echo(f"Error: {error}", err=True)
    sys.exit(code)


def say(sentence: str) -> None:
    """Talk: never part of the data."""
    click.echo(sentence, err=True)


def show(style: str, data: Any, table: Sequence[str]) -> None:
    """The data: as JSON, or as lines for people."""
    if style == "json":
        click.echo(json.dumps(_finite(data), ensure_ascii=False, allow_nan=False))
        return
    for line in table:
        click.echo(line)


def _finite(data: Any) -> Any:
    """The same with null for what is no number: JSON has no word for it."""
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
