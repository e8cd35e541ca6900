"""Files that appear whole or not at all, and work on them that one process does at a time."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows, where all do it
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to: it takes that one's place at the end, and is gone where anything failed."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the only one here, of all threads and processes of this machine; the others wait, and come in one by one."""
    with path.open("w") as held:
        if fcntl is not None:
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


@contextmanager
def appending(path: Path, mode: int) -> Iterator[int]:
    """The descriptor of a file to append to, made where it is missing; the others wait, as in `alone`.

    Whoever holds it may put another file in its place.
    """
    while True:
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, mode)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                yield file
                return
        finally:
            os.close(file)


def write_text(path: Path, text: str) -> Path:
    """Write a text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8")
    return path
