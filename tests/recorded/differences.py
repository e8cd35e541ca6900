"""What differs between two records: plain data on both sides, floats to the last bit or within a tolerance."""

import dataclasses
import enum
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

# Of a number that a person sees: of its own size, or of the range of its parameter, where a record says that.
TOLERANCE = 1e-9
# Names of what only an exact comparison looks at: digests of files that hold numbers of the model.
EXACT_ONLY = "bytes"
SHORT = 160
# What is random or dated, wherever it stands in a text, and what stands in its place.
PASSING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?( UTC)?"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"\b[0-9a-f]{48}\b"), "KEY"),
    (re.compile(r"(?<=join#)[\w.-]+"), "CODE"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "PORT"),
    (re.compile(r"data:image/svg\+xml[^\"' ]*"), "PICTURE"),
)


def plain(given: Any) -> Any:
    """The same as JSON holds it: a result's fields by their names, tensors as lists, words as they are."""
    if dataclasses.is_dataclass(given):
        given = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    given = given._asdict() if hasattr(given, "_asdict") else given
    given = given.value if isinstance(given, enum.Enum) else given
    if isinstance(given, str):
        return str(given)
    if isinstance(given, Mapping):
        return {str(name): plain(value) for name, value in given.items()}
    if isinstance(given, Sequence | Set):
        return [plain(one) for one in (sorted(given) if isinstance(given, Set) else given)]
    return given.tolist() if hasattr(given, "tolist") else given


def masked(text: str, *more: tuple[str, str]) -> str:
    """A text without what is random or dated; `more` are words of this run and what stands in their place."""
    for words, place in more:
        text = text.replace(words, place)
    for pattern, place in PASSING:
        text = pattern.sub(place, text)
    return text


def differences(
    old: Any, new: Any, *, exact: bool, scales: Mapping[str, float] | None = None, at: str = ""
) -> list[str]:
    """Every difference as a line that says where it is; none where there is none.

    Args:
        old: what was recorded.
        new: what is now.
        exact: whether floats must agree to the last bit.
        scales: by the name of a parameter, its range.
        at: where both stand in the whole.
    """
    return list(_found(old, new, exact, dict(scales or {}), at))


def _found(old: Any, new: Any, exact: bool, scales: dict[str, float], at: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            if name == EXACT_ONLY and not exact:
                continue
            if name not in new or name not in old:
                side, there = ("only recorded", old) if name in old else ("only now", new)
                yield f"{at}/{name}: {side}: {_short(there[name])}"
            else:
                yield from _found(old[name], new[name], exact, scales, f"{at}/{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _found(one, other, exact, scales, f"{at}/{place}")
    elif not _same(old, new, exact, scales.get(at.rpartition("/")[2], 0.0)):
        yield f"{at}: {_first_apart(old, new)}"


def _same(old: Any, new: Any, exact: bool, scale: float) -> bool:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (old, new))
    if exact or not numbers or not any(isinstance(one, float) for one in (old, new)):
        # 0.0 and -0.0 are shown differently, and so are 1 and 1.0.
        return type(old) is type(new) and repr(old) == repr(new)
    return abs(old - new) <= TOLERANCE * (scale or max(abs(old), 1.0))


def _first_apart(old: Any, new: Any) -> str:
    """Both sides, from shortly before the first letter that differs where they are long texts."""
    if isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > SHORT:
        apart = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        begin = max(apart - 40, 0)
        old, new = f"…{old[begin:]}", f"…{new[begin:]}"
    return f"recorded {_short(old)}, now {_short(new)}"


def _short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= SHORT else f"{words[:SHORT]}…"
