"""Whether a database is whole: every study read from its first event to its last, as it would be opened."""

from dataclasses import dataclass

from kappasharp.errors import KappaSharpError
from kappasharp.study.events import Restored
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
    missing = storage.missing() if study_name is None else {}
    gone = [Finding(name, None, str(error)) for name, error in missing.items()]
    return [*(_check(storage, record) for record in records), *gone]


def _check(storage: Storage, record: Record) -> Finding:
    try:
        history = Study(storage, record).history
    except KappaSharpError as error:
        return Finding(record.name, None, str(error), _unprotected(record))
    notes = [_given_up(record, one) for one in history.restored]
    notes += filter(None, [_unprotected(record)])
    return Finding(record.name, history.number, None, " ".join(notes) or None)


def _given_up(record: Record, one: Restored) -> str:
    when = "" if one.noticed is None else f", which was noticed at {one.noticed}"
    return (
        f"An older copy of {record.name!r} was put back and accepted as its event {one.left + 1}: it had {one.had} "
        f"events before{when}, and {one.left} were left."
    )


def _unprotected(record: Record) -> str | None:
    if record.unprotected is None:
        return None
    return (
        f"{record.name!r} was made by an older kappasharp, whose checksums covered neither its definition nor the "
        f"times nor the end of its {record.unprotected} events. They are covered since this version first opened it; "
        "what was changed before that cannot be known."
    )
