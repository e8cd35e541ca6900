"""Digests: whether what is read is what was written. A study's events are a chain, each digest covers the one before.

They find accidents, not forgers: whoever may write to the database can compute them too.
"""

import hashlib
import json
from typing import Any


def digest(*parts: Any) -> str:
    """The SHA-256 of plain data, whatever the order of its mappings."""
    # A damaged database may hold bytes where there was text: they have a digest too, just not that of the text.
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def of_study(uid: Any, name: Any, created: Any, definition: Any) -> str:
    """The digest of a study's row, where its chain begins."""
    return digest("study", uid, name, created, definition)


def of_event(before: Any, row: Any) -> str:
    """The next of the chain: an event's row, with its time, after the digest before it."""
    return digest("event", before, row.number, row.kind, row.voter, row.time, row.body)
