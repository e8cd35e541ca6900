"""A folder of results: one Parquet file per finished block, written under a temporary name and renamed.

Nothing is ever overwritten or half written. Two runners may share a folder: a block is claimed before it is run, and
should two still run the same one, they write the same file. Reading counts every key once.
"""

import json
import os
import socket
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from kappasharp.errors import InvalidValueError, KappaSharpError
from kappasharp.files import replacing, write_text
from kappasharp.lab import run
from kappasharp.lab.run import ERROR, NOWHERE, Row
from kappasharp.parquet import read_parquet, write_parquet

SCHEMA_VERSION = 1
# After this time without a word from its owner a claim is anyone's.
STALE_SECONDS = 6 * 3600.0
MARKER = "store.json"
TEXTS = (
    "key", "problem", "initialization", "method", "preset", "method_values", "preset_values", "person", "status",
    "error", "device", "machine", "python", "torch", "kappasharp", "commit", "suite",
)  # fmt: skip
WHOLES = ("seed", "problem_version", "queries", "settling", "failed_steps", "block_runs")
NUMBERS = ("initial_best", "final_best", "seconds")
FLAG, COUNTS = "active", ("n_components", "n_points")
TRACES = tuple(name for name in (*run.COURSE, run.CHANCE, *run.TRACES, *run.FURTHER) if name not in (FLAG, *COUNTS))
# Columns of a later version: files without them are as good, and the column is null there.
LATER = ("n_points", "told_utility", "chance", "settling", "suite")
SCHEMA = pa.schema(
    [pa.field(name, pa.string()) for name in TEXTS]
    + [pa.field(name, pa.int64()) for name in WHOLES]
    + [pa.field(name, pa.float64()) for name in NUMBERS]
    + [pa.field(name, pa.list_(pa.float64())) for name in TRACES]
    + [pa.field(FLAG, pa.list_(pa.bool_()))]
    + [pa.field(name, pa.list_(pa.int64())) for name in COUNTS]
    + [pa.field("step_status", pa.list_(pa.string()))],
    metadata={"kappasharp schema": str(SCHEMA_VERSION)},
)


class StoreError(KappaSharpError, OSError):
    """A results folder cannot be used as it is."""


@dataclass
class Store:
    """The results in one folder."""

    folder: Path
    # Files that could not be read: set aside, never deleted, and their runs are run again.
    broken: list[Path] = field(default_factory=list)

    @property
    def blocks(self) -> Path:
        """Where the finished blocks are."""
        return self.folder / "blocks"

    def open(self) -> "Store":
        """Make the folder, or check that it is one of ours."""
        marker = self.folder / MARKER
        self.folder.mkdir(parents=True, exist_ok=True)
        strangers = [path for path in self.folder.iterdir() if MARKER not in path.name]
        # The marker is looked for after the strangers, and written before anything else: two may open a folder at once.
        if marker.exists():
            self._check(marker)
        elif strangers:
            raise StoreError(
                f"`{self.folder}` is not empty and holds no kappasharp results (no {MARKER}); choose another folder."
            )
        else:
            write_text(marker, json.dumps({"schema": SCHEMA_VERSION}) + "\n")
        self.blocks.mkdir(exist_ok=True)
        return self

    def existing(self) -> "Store":
        """The folder, which must hold results already."""
        if not (self.folder / MARKER).exists():
            raise StoreError(f"`{self.folder}` holds no kappasharp results; `kappasharp run` makes such a folder.")
        return self.open()

    def _check(self, marker: Path) -> None:
        try:
            schema = json.loads(marker.read_text("utf-8"))["schema"]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"`{marker}` is damaged ({error}); move it away to have it written anew.") from error
        if schema != SCHEMA_VERSION:
            raise StoreError(
                f"`{self.folder}` has results of schema {schema}, this version of kappasharp writes schema "
                f"{SCHEMA_VERSION}; choose another folder, or use the version that wrote it."
            )

    def remember(self, name: str, text: str) -> None:
        """Keep an experiment's TOML beside its results; another one of the same name is refused."""
        path = self.folder / "experiments" / f"{name}.toml"
        if path.exists() and path.read_text("utf-8") != text:
            raise InvalidValueError(
                f"`{self.folder}` holds results of another experiment called {name!r} (other presets, seeds, methods: "
                f"see {path}); choose another folder, or give the file, or a program (NAME=COMMAND), another name."
            )
        path.parent.mkdir(exist_ok=True)
        write_text(path, text)

    def experiments(self) -> list[Path]:
        """The TOML files of what was run here."""
        return sorted((self.folder / "experiments").glob("*.toml"))

    def write(self, name: str, rows: list[Row]) -> Path:
        """A finished block, whole or not at all."""
        path = self.blocks / f"{name}.parquet"
        try:
            with replacing(path) as temporary:
                write_parquet(pa.Table.from_pylist(rows, schema=SCHEMA), temporary)
        except OSError as error:
            raise StoreError(f"`{path}` could not be written ({error}); the runs before it are stored.") from error
        return path

    def read(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Every stored run once; what did not run is left out unless it never ran elsewhere."""
        wanted = None if columns is None else sorted({*columns, "key", "status"})
        tables = [table for path in sorted(self.blocks.glob("*.parquet")) if (table := self._load(path, wanted))]
        schema = SCHEMA if wanted is None else pa.schema([SCHEMA.field(name) for name in wanted])
        whole = pa.concat_tables([schema.empty_table(), *tables])
        return whole.take(pa.array(_first_of_each(whole), pa.int64()))

    def done(self) -> set[str]:
        """The keys of all runs that need not be run again."""
        return set(self.ended())

    def ended(self) -> dict[str, bool]:
        """The keys of all runs that need not be run again, and whether they failed: in a suite that counts as it is.

        A run that never began, because its worker was lost, is no failure of the method's.
        """
        names = ("key", "status", "suite", "device")
        table = self.read(names)
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        return {
            key: status == ERROR
            for key, status, suite, device in rows
            if status != ERROR or (suite and device != NOWHERE)
        }

    def _load(self, path: Path, columns: list[str] | None) -> pa.Table | None:
        try:
            schema, table = read_parquet(path, columns)
            names = set(schema.names)
        except FileNotFoundError:
            return None  # another runner has just set it aside
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            # With a number it is the system's trouble, and the file may be whole.
            if getattr(error, "errno", None) is not None:
                raise StoreError(f"`{path}` could not be read ({error}).") from error
            self._set_aside(path, error)
            return None
        known = pa.schema([part for part in SCHEMA if part.name in names or part.name not in LATER])
        if not schema.equals(known) or schema.metadata != SCHEMA.metadata:
            raise StoreError(f"`{path}` holds no block of schema {SCHEMA_VERSION}; move it to another folder.")
        for name in set(LATER) - names:
            table = table.append_column(SCHEMA.field(name), pa.nulls(len(table), SCHEMA.field(name).type))
        return table.select(SCHEMA.names if columns is None else columns)

    def _set_aside(self, path: Path, error: Exception) -> None:
        aside = path.with_suffix(f".{uuid.uuid4().hex[:8]}.broken")
        try:
            path.replace(aside)
            write_text(aside.with_suffix(".broken.txt"), f"{type(error).__name__}: {error}\n")
        except FileNotFoundError:
            return  # another runner was faster
        except OSError as refused:
            raise StoreError(
                f"`{path}` is damaged ({error}) and could not be set aside ({refused}); move it to another folder."
            ) from error
        self.broken.append(aside)

    def has(self, name: str) -> bool:
        """Whether a block of that name is stored and did run."""
        path = self.blocks / f"{name}.parquet"
        table = self._load(path, ["status"]) if path.exists() else None
        return table is not None and ERROR not in table["status"].to_pylist()

    def claim(self, name: str) -> bool:
        """Whether this runner may run a block: nobody else holds it."""
        path = self.folder / "claims" / name
        path.parent.mkdir(exist_ok=True)
        return _take(path) or (_is_stale(path) and _retake(path))

    def forget_dead_claims(self) -> None:
        """Remove what a killed runner left: claims on blocks that are stored, and claims that were never made."""
        for path in (self.folder / "claims").glob("*"):
            never_made = path.suffix == ".tmp"
            needless = never_made or (self.blocks / f"{path.name}.parquet").exists()
            if needless and (_is_stale(path) or (never_made and _is_nobodys(path))):
                path.unlink(missing_ok=True)

    def release(self, name: str) -> None:
        """Give a claim back."""
        (self.folder / "claims" / name).unlink(missing_ok=True)


def _take(path: Path) -> bool:
    """Whether the claim is now ours: it appears under its name with its owner in it, or not at all."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_text(json.dumps({"host": socket.gethostname(), "process": os.getpid()}), "utf-8")
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _retake(path: Path) -> bool:
    path.unlink(missing_ok=True)
    return _take(path)


def _is_stale(path: Path) -> bool:
    """Whether the claim's owner is gone: its process on this host is dead, or it is very old."""
    try:
        old = time.time() - path.stat().st_mtime > STALE_SECONDS
        owner = json.loads(path.read_text("utf-8"))
        return old or (owner["host"] == socket.gethostname() and not _is_alive(owner["process"]))
    except FileNotFoundError:
        return True
    except (ValueError, KeyError, TypeError):
        # Just being written, or cut short by a crash: by its age.
        return old


def _is_nobodys(temporary: Path) -> bool:
    """Whether whoever was making this claim is dead: its name says who, where what it holds was cut short."""
    owner, process, _ = temporary.stem.rsplit(".", 2)
    return owner.endswith(f".{socket.gethostname()}") and process.isdecimal() and not _is_alive(int(process))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _first_of_each(table: pa.Table) -> list[int]:
    """Rows to keep: one per key, one that ran before one that did not."""
    chosen: dict[str, int] = {}
    keys, status = table["key"].to_pylist(), table["status"].to_pylist()
    for row, key in enumerate(keys):
        if key not in chosen or (status[chosen[key]] == ERROR and status[row] != ERROR):
            chosen[key] = row
    return sorted(chosen.values())
