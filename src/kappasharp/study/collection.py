"""Where studies come from: make one, open one, list them, delete one, or run one with a function that answers."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kappasharp import settings
from kappasharp.arguments import is_whole
from kappasharp.engine import engine
from kappasharp.errors import DuplicateNameError, InvalidTypeError, InvalidValueError, KappaSharpError, StorageError
from kappasharp.exchange import study_json, tables
from kappasharp.journal import events
from kappasharp.journal.definition import Definition, check_made, check_reopened, from_plain
from kappasharp.journal.events import Restored
from kappasharp.questions import kind
from kappasharp.settings import DEFAULT_METHOD, DEFAULT_PRESET, DEFAULT_STORAGE, ENVIRONMENT, Preset
from kappasharp.simulators import function, simulator
from kappasharp.space.outcomes import GivenOutcomes, Hint, Limit, read_given
from kappasharp.space.parameters import Value
from kappasharp.space.space import Design, GivenSpace
from kappasharp.store.database import exists, opened_file
from kappasharp.store.storage import GivenUp, Record, Storage
from kappasharp.study import creation
from kappasharp.study.judge import Command, Judge, JudgeRules, Judging
from kappasharp.study.study import Study

IN_MEMORY = "sqlite://"

Prefer = Callable[[Design, Design], Any]
Simulate = function.Function | str | None


@dataclass(frozen=True)
class Listed:
    """A study in a list; of one that cannot be read `trouble` says why, and there are no figures."""

    name: str
    uid: str
    created: str
    parameters: int | None = None
    answers: int | None = None
    voters: int | None = None
    programs: int | None = None
    last_answer: str | None = None
    method: str | None = None
    trouble: str | None = None


def storage_of(given: str | Storage | None) -> Storage:
    """The database of that URL; by default KAPPASHARP_STORAGE's, or else kappasharp.db in this folder."""
    if isinstance(given, Storage):
        return given
    if given is not None and not isinstance(given, str):
        raise InvalidTypeError(f"`storage` must be a URL such as 'sqlite:///study.db', but got {given!r}.")
    return Storage(given or os.environ.get(ENVIRONMENT) or DEFAULT_STORAGE)


def there_is(given: str | None) -> bool:
    """Whether that database is there, or the default one; nothing is made."""
    return exists(given or os.environ.get(ENVIRONMENT) or DEFAULT_STORAGE)


def existing(given: str | None) -> Storage:
    """The database of that URL, which is not made if it is not there."""
    if not there_is(given):
        url = given or os.environ.get(ENVIRONMENT) or DEFAULT_STORAGE
        if (file := opened_file(url)) is not None:
            # A sentence where it was there once.
            file.check_openable()
        raise StorageError(f"There is no database {url} yet: the first study makes it.")
    return storage_of(given)


def create_study(
    space: GivenSpace,
    *,
    storage: str | Storage | None = None,
    study_name: str | None = None,
    load_if_exists: bool = False,
    seed: int = 0,
    method: str = DEFAULT_METHOD,
    preset: str | Preset = DEFAULT_PRESET,
    first_pairs: int | None = None,
    question: str = "pair",
    use_seconds: bool = False,
    tell_apart: bool = False,
    outcomes: GivenOutcomes | None = None,
    hints: Sequence[Hint] = (),
    limits: Sequence[str | Limit] = (),
    favourites: Sequence[Mapping[str, Value]] = (),
    render: str | None = None,
) -> Study:
    """Make a study of a space of named parameters, or go on with a stored one.

    Args:
        space: name -> (low, high), a list of choices, or `Float`, `Int`, `Categorical`, `Fixed`.
        storage: `sqlite:///file.db`, `postgresql+psycopg://…`, or `sqlite://` for one that ends with the process. By
            default KAPPASHARP_STORAGE, or else kappasharp.db in this folder.
        study_name: by default "study", or the next free of "study-2", "study-3" …
        load_if_exists: go on with the study of that name, if its space is the same; what it was made with stands.
        seed: another seed draws other first pairs, and other starts of every search.
        method: a name in `METHODS` whose questions have two designs.
        preset: a name in `PRESETS`, or a `Preset` of one's own.
        first_pairs: how many questions about Sobol designs come before the model chooses; skips do not count.
        question: what is usually asked: "pair", "choice", "order", "slider" or "rating"; a choice, an order or a slider
            with how many designs if not 4, such as "order:5"; or "auto", which asks what promises most for the seconds
            it takes. `Study.ask` may ask otherwise.
        use_seconds: whether quick answers to pairs count as clear ones, where a voter's times show that they are.
        tell_apart: whether each voter is asked about a taste of their own beside what all share: for when everybody is
            to get their own design (`Study.best_for`). Else all are asked as one person.
        outcomes: what people see, on which taste is learnt: a function from a design to {name: number}, or its name,
            "module:function"; or names alone, where outcomes are measured and given by `Study.record`.
        hints: soft knowledge of outcomes, such as `ks.Less("overshoot")`, `ks.More("comfort")`.
        limits: what no design may break: `ks.AtMost("overshoot", 0.2)`, or of parameters a text, "a + b <= 1".
        favourites: designs to start from, such as what you use today: the first questions ask about them.
        render: the function that draws a design on the page, "module:function". The study remembers the name;
            `kappasharp serve` runs the function only where it is named there too.
    """
    defined = partial(
        creation.define, space, seed=seed, method=method, preset=preset, first_pairs=first_pairs,
        question=question, use_seconds=use_seconds, tell_apart=tell_apart, favourites=favourites, render=render,
    )  # fmt: skip
    # Checked before a database is made, and before anything is run.
    plain = defined()
    if load_if_exists and study_name is not None:
        storage = storage_of(storage)
        stored = _stored(storage, study_name)
        if stored is not None:
            # What it was made with stands: a function of its outcomes is not tried again.
            found = _reopened(storage, _matching(stored, plain), outcomes)
            _check_knowledge(found, outcomes, hints, limits)
            _check_favourites(found, plain)
            return found
    definition = defined(outcomes=outcomes, hints=hints, limits=limits)
    return store(definition, storage=storage, study_name=study_name, load_if_exists=load_if_exists)


def _stored(place: Storage, study_name: str) -> Record | None:
    return next((record for record in place.studies() if record.name == study_name), None)


def _reopened(place: Storage, record: Record, outcomes: GivenOutcomes | None, through: int | None = None) -> Study:
    """A stored study, with what computes its outcomes where that is given; what failed before is tried again."""
    if outcomes is None:
        return Study(place, record, through)
    stored = from_plain(record.definition)
    function, names = read_given(outcomes)
    _check_names(record.name, stored, None if function is not None else [one.name for one in names])
    if function is None:
        return Study(place, record, through)
    assert stored.outcomes is not None
    if not stored.outcomes.is_computed:
        raise InvalidValueError(
            f"The outcomes of {record.name!r} are measured: `record` gives them, and no function computes them."
        )
    found = Study(place, record, through, simulator.of(function))
    found.try_again()
    return found


def store(
    definition: Definition,
    *,
    storage: str | Storage | None = None,
    study_name: str | None = None,
    load_if_exists: bool = False,
) -> Study:
    """The study of a definition, as `create_study` makes it."""
    place = storage_of(storage)
    if study_name is None:
        return _unnamed(place, definition)
    try:
        record = place.create(_name(study_name), definition.plain())
    except DuplicateNameError:
        if not load_if_exists:
            raise
        record = _matching(place.find(study_name), definition)
    return Study(place, record, simulator=definition.simulator)


def _unnamed(place: Storage, definition: Definition) -> Study:
    count = 1
    while True:
        try:
            record = place.create("study" if count == 1 else f"study-{count}", definition.plain())
            return Study(place, record, simulator=definition.simulator)
        except DuplicateNameError:
            count += 1


def _matching(record: Record, wanted: Definition) -> Record:
    """The stored study, if it tunes the same parameters and asks what is wanted: its seed, method and preset stand."""
    check_reopened(record.name, from_plain(record.definition), wanted)
    return record


def _check_names(study_name: str, stored: Definition, names: Sequence[str] | None = None) -> None:
    """A sentence where a study has no outcomes, or others than these."""
    if stored.outcomes is None:
        raise InvalidValueError(
            f"`outcomes` must come with a study that has some, but {study_name!r} was made without; another "
            "`study_name` makes a new one."
        )
    if names is not None and set(names) != set(stored.outcomes.names):
        raise InvalidValueError(
            f"`outcomes` must give those of the stored study {study_name!r}, {', '.join(stored.outcomes.names)}, but "
            f"got {', '.join(names)}."
        )


def _check_knowledge(
    study: Study, outcomes: GivenOutcomes | None, hints: Sequence[Hint], limits: Sequence[str | Limit]
) -> None:
    """A sentence where hints or limits are said that a stored study was made without: they would not be kept."""
    stored = study.definition
    news = creation.news(stored.outcomes, stored.limits, outcomes, hints, limits)
    if news:
        raise InvalidValueError(
            f"Hints and limits must be those of the stored study {study.name!r}, but it was made without "
            f"{', '.join(news)}; another `study_name` makes a new study."
        )


def _check_favourites(study: Study, wanted: Definition) -> None:
    """A sentence where favourites are given that a stored study was made without: they would not be asked about."""
    news = [one for one in wanted.favourites if one not in study.definition.favourites]
    if news:
        raise InvalidValueError(
            f"`favourites` must be those of the stored study {study.name!r}, but it was made without {news[0]}; "
            "`enqueue` has two designs asked next."
        )


def _name(name: Any) -> str:
    return events.named_text("study_name", name)


def load_study(
    study_name: str, *, storage: str | Storage | None = None, through: int | None = None, outcomes: Simulate = None
) -> Study:
    """Open a study.

    Args:
        study_name: its name in the database.
        storage: as in `create_study`.
        through: the number of an event; the study is opened as it was after it, for reading only.
        outcomes: the function that computes the outcomes, or its name: what a database names is never run by itself.
            Without it a study that has one works with the outcomes that were stored.
    """
    if through is not None:
        events.whole("through", through)
    place = storage_of(storage)
    study = _reopened(place, place.find(study_name), outcomes, through)
    if through is not None and study.history.number < through:
        raise InvalidValueError(
            f"`through` must be one of the {study.history.number} events of {study_name!r}, but got {through}."
        )
    return study


def rename_study(study_name: str, new_name: str, *, storage: str | Storage | None = None) -> Study:
    """Give a study another name; whoever has it open goes on with it.

    Args:
        study_name: its name in the database.
        new_name: the one that it gets; no other study of the database may have it.
        storage: as in `create_study`.
    """
    _name(new_name)
    place = storage_of(storage)
    return Study(place, renamed(place, place.find(study_name), new_name))


def renamed(place: Storage, record: Record, name: Any) -> Record:
    """A study's row under another name, or a sentence; a damaged one is not written anew, or nobody would know."""
    wanted = _name(name)
    from_plain(record.definition)
    return record if wanted == record.name else place.rename(record, wanted)


def list_studies(*, storage: str | Storage | None = None) -> list[Listed]:
    """Every study of a database, the oldest first: how many answers and voters, and when the last answer came.

    Args:
        storage: as in `create_study`; one that is not there yet has none, and is not made.
    """
    if not isinstance(storage, Storage) and not there_is(storage):
        return []
    place = storage_of(storage)
    return [listed(place, record) for record in place.studies()]


def listed(place: Storage, record: Record) -> Listed:
    """A study as a list has it."""
    try:
        one = Study(place, record)
    except StorageError as error:
        return Listed(record.name, record.uid, record.created, trouble=str(error))
    given = list(one.history.comparisons.values())
    who = {each.voter: each.program for each in given}
    return Listed(
        record.name, record.uid, record.created, len(one.space.tuned), len(one.history.counted()),
        len(who), sum(who.values()), max((each.time for each in given), default=None),
        one.definition.method_name,
    )  # fmt: skip


def delete_study(study_name: str, *, storage: str | Storage | None = None) -> None:
    """Remove a study with all its answers, for good.

    Args:
        study_name: its name in the database.
        storage: as in `create_study`.
    """
    place = storage_of(storage)
    place.delete(place.find(study_name))


def accept_copy(*, storage: str | None = None, voter: str = settings.DEFAULT_VOTER) -> list[GivenUp]:
    """Take a database as it is that lacks what was acknowledged, such as a backup that was put back on purpose.

    What was given up is noted as an event in each study that is left, and beside the database. Whoever has such a study
    open opens it again.

    Args:
        storage: the URL of a SQLite database, as in `create_study`.
        voter: who decides that.
    """
    return existing(storage).accept(events.voter(voter))


def import_json(
    path: str | Path, *, storage: str | Storage | None = None, study_name: str | None = None, outcomes: Simulate = None
) -> Study:
    """Make a study of a JSON file that `Study.export` wrote; it asks the same next pair.

    Args:
        path: the file.
        storage: where the new study is kept, as in `create_study`.
        study_name: by default the name in the file.
        outcomes: as in `load_study`.
    """
    place = storage_of(storage)
    name = study_json.read_json(
        tables.path_of(path),
        place,
        None if study_name is None else _name(study_name),
        check=creation.checked,
        check_change=engine().check_change,
    )
    return load_study(name, storage=place, outcomes=outcomes)


def optimize(
    space: GivenSpace | Study,
    prefer: Prefer | None = None,
    n: int = settings.JUDGED_QUESTIONS,
    *,
    judge: Judge | str | None = None,
    rules: JudgeRules | None = None,
    voter: str | None = None,
    storage: str | Storage | None = IN_MEMORY,
    study_name: str | None = None,
    load_if_exists: bool = False,
    seed: int = 0,
    method: str = DEFAULT_METHOD,
    preset: str | Preset = DEFAULT_PRESET,
    first_pairs: int | None = None,
) -> Study:
    """The study after `prefer(a, b)`, or a judge, was asked n times.

    Arguments that are not named here are those of `create_study`.

    Args:
        space: as in `create_study`; or a study that goes on, made with `create_study` or `load_study`.
        prefer: gets two designs and returns "a", "b", "tie" or "skip"; True and False mean "a" and "b".
        n: how many questions are asked; of a study that goes on, how many more.
        judge: instead of `prefer`, a program that answers questions of any kind as a voter: a function of a
            `JudgeQuestion`, or a command. Its answers are marked as a program's, and nothing is asked of it twice.
        rules: the judge's limits, and what becomes of questions that it is unsure of.
        voter: who answers; by default "judge" for a judge, else "me".
        storage: as in `create_study`, but by default in memory.
    """
    if not is_whole(n) or n < 1:
        raise InvalidValueError(f"`n` must be a whole number of 1 or more, but got {n!r}.")
    if (prefer is None) == (judge is None) or (rules is not None and judge is None):
        raise InvalidValueError(
            "`optimize` takes `prefer`, or `judge` with or without `rules`, but not both or neither."
        )
    if isinstance(space, Study):
        study = space
        check_made(
            study.name, storage=storage != IN_MEMORY, study_name=study_name is not None, load_if_exists=load_if_exists,
            seed=seed != 0, method=method != DEFAULT_METHOD, preset=preset != DEFAULT_PRESET,
            first_pairs=first_pairs is not None,
        )  # fmt: skip
    else:
        definition = creation.define(space, seed=seed, method=method, preset=preset, first_pairs=first_pairs)
        study = store(definition, storage=storage, study_name=study_name, load_if_exists=load_if_exists)
    if judge is not None:
        asked = Command(judge) if isinstance(judge, str) else judge
        report = Judging(study, asked, rules, voter=settings.JUDGE if voter is None else voter).run(n)
        if report.failed_calls or report.ended != "questions":
            warnings.warn(str(report), stacklevel=2)
        return study
    assert prefer is not None
    plain = study.definition.form.is_pair and not study.definition.is_auto
    for _ in range(n):
        pair = study.ask(events.DEFAULT_VOTER if voter is None else voter, kind=None if plain else "pair")
        study.tell(pair, _answer(prefer(dict(pair.a), dict(pair.b))))
    return study


def _answer(given: Any) -> str:
    # NumPy and torch have booleans of their own.
    given = given.item() if hasattr(given, "item") and getattr(given, "shape", None) == () else given
    if isinstance(given, bool):
        return "a" if given else "b"
    if given not in kind.WORDS:
        raise InvalidValueError(
            f"`prefer` must return 'a', 'b', 'tie', 'skip', True or False, but it returned {given!r}."
        )
    return str(given)


# Whether a database is whole: every study read from its first event to its last, as it would be opened.


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
