"""Whether a database is whole: every study read from its first event to its last, as it would be opened."""

from dataclasses import dataclass

from kappasharp.errors import KappaSharpError
from kappasharp.study.storage import Record, Storage
from kappasharp.study.study import Study


@dataclass(frozen=True)
class Finding:
    """What was found of a study: how many events could be read, what is wrong, and what cannot be known."""

    study: str
    events: int | None
    damage: str | None = None
    note: str | None = None


def check(storage: Storage, study_name: str | None = None) -> list[Finding]:
    """One finding for each study, or for the one of that name."""
    records = storage.studies() if study_name is None else [storage.find(study_name)]
    return [_check(storage, record) for record in records]


def _check(storage: Storage, record: Record) -> Finding:
    try:
        events = Study(storage, record).history.number
    except KappaSharpError as error:
        return Finding(record.name, None, str(error), _note(record))
    return Finding(record.name, events, None, _note(record))


def _note(record: Record) -> str | None:
    if record.unprotected is None:
        return None
    return (
        f"{record.name!r} was made by an older kappasharp, whose checksums covered neither its definition nor the "
        f"times nor the end of its {record.unprotected} events. They are covered since this version first opened it; "
        "what was changed before that cannot be known."
    )
