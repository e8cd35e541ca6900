"""Parquet files that show damage: a checksum of every other byte stands in the file itself.

Parquet's own checksums cover the pages, not their headers nor the footer, and are looked at only for the columns that
are read. Ours stands between the last page and the footer, where other readers of Parquet do not look; a note in the
schema's metadata says that it must be there. Files from before it was written are read as they are.
"""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kappasharp.errors import KappaSharpError

MARK = b"\nkappasharp checksum: "
NOTE = b"kappasharp checksum"
ALGORITHM = b"blake2b"
DIGEST_BYTES = 32
# A file ends with its footer, the footer's length, and four letters.
LENGTH_BYTES, END_BYTES = 4, 8


class DamagedFileError(KappaSharpError, OSError):
    """A file is not what was written."""


def write_parquet(table: pa.Table, path: Path) -> None:
    """A table as a file with a checksum."""
    noted = table.replace_schema_metadata({**(table.schema.metadata or {}), NOTE: ALGORITHM})
    pq.write_table(noted, path, compression="zstd", write_page_checksum=True)
    content = path.read_bytes()
    footer = int.from_bytes(content[-END_BYTES : LENGTH_BYTES - END_BYTES], "little") + END_BYTES
    path.write_bytes(content[:-footer] + MARK + _digest(content) + content[-footer:])


def read_parquet(path: Path, columns: list[str] | None = None) -> tuple[pa.Schema, pa.Table]:
    """A file's schema, and these columns of it (by default, all); an error where a byte is not what was written."""
    content = path.read_bytes()
    before, mark, rest = content.rpartition(MARK)
    if mark and _digest(before + rest[DIGEST_BYTES:]) != rest[:DIGEST_BYTES]:
        raise DamagedFileError("the checksum is not that of the bytes")
    with pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True) as file:
        # Blocks are small, and one thread a process is the rule.
        schema, table = file.schema_arrow, file.read(columns, use_threads=False)
    metadata = dict(schema.metadata or {})
    if metadata.pop(NOTE, None) is not None and not mark:
        raise DamagedFileError("the checksum is not there")
    table.validate(full=True)
    return schema.with_metadata(metadata or None), table


def check_parquet(path: Path) -> None:
    """Read all of a file; a DamagedFileError says what is wrong with it."""
    try:
        read_parquet(path)
    except DamagedFileError as error:
        raise DamagedFileError(f"{path} is damaged: {error}.") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedFileError(f"{path} cannot be read as Parquet: {error}") from error


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
