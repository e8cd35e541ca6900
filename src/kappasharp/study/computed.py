"""What a function made of designs, kept briefly.

There may be 200,000 of them, and a search asks for hundreds a question. A design is its values in the order of their
names; what is known of one with outcomes are their numbers, and the seconds they took.
"""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from kappasharp.study.parameters import Value
from kappasharp.study.running import Brief, Ran

Names = tuple[str, ...]
Row = tuple[Value, ...]
# Names and values; and which values are True or False, where some are: to Python 1, 1.0 and True are one key.
Key = tuple[Names, Row] | tuple[Names, Row, tuple[bool, ...]]
Numbers = tuple[float, ...]


def key(design: Mapping[str, Value]) -> Key:
    """What tells designs apart."""
    names, row = tuple(design), tuple(design.values())
    if bool not in map(type, row):
        return names, row
    return names, row, tuple(isinstance(value, bool) for value in row)


def design(of: Key) -> dict[str, Value]:
    """The design of a key."""
    return dict(zip(of[0], of[1], strict=True))


def keys(names: Names, rows: Sequence[Row]) -> list[Key]:
    """The same of many with the same parameters."""
    if bool not in set(map(type, chain.from_iterable(rows))):
        return [(names, row) for row in rows]
    return [key(dict(zip(names, row, strict=True))) for row in rows]


class Computed:
    """All of it in one process."""

    def __init__(self) -> None:
        self._names: Names | None = None  # of the outcomes, as the first designs had them
        self._of: dict[Key, Ran | Numbers] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def fresh(self, wanted: Iterable[Key]) -> dict[Key, None]:
        """Those that are not known, each once."""
        known = self._of
        return dict.fromkeys([key for key in wanted if key not in known])

    def keep(self, fresh: Iterable[Key], found: Iterable[Ran | Numbers]) -> None:
        """Take in what was computed."""
        self._of |= zip(fresh, found, strict=True)

    def forget_all_but(self, wanted: Iterable[Key]) -> None:
        """Make room."""
        self._of = {key: self._of[key] for key in wanted if key in self._of}

    def read(self, found: Brief | list[Ran]) -> Sequence[Ran | Numbers]:
        """A job's answer, as it is kept."""
        if not isinstance(found, Brief):
            return found
        self._names = self._names or found.names
        rows = struct.iter_unpack(f"{len(found.names) + 1}d", found.numbers)
        return list(rows) if found.names == self._names else [_ran(found.names, row) for row in rows]

    def ran(self, key: Key) -> Ran:
        """What the function made of a design."""
        found = self._of[key]
        return found if isinstance(found, Ran) else _ran(self._names or (), found)

    def table(self, wanted: Iterable[Key], names: Names) -> list[Numbers]:
        """Outcomes of these names by design, and a number more; NaN where one is missing or has another name."""
        found = list(map(self._of.__getitem__, wanted))
        if names == self._names and Ran not in set(map(type, found)):
            return found  # type: ignore[return-value]  # no other kind is left
        return [self._row(one, names) for one in found]

    def _row(self, one: Ran | Numbers, names: Names) -> Numbers:
        values = one.values if isinstance(one, Ran) else dict(zip(self._names or (), one, strict=False))
        if values is None or values.keys() != set(names):
            return (math.nan,) * (len(names) + 1)
        return (*(values[name] for name in names), 0.0)


def _ran(names: Names, row: Numbers) -> Ran:
    return Ran(dict(zip(names, row, strict=False)), None, row[-1])


def seconds(found: Iterable[Ran | Numbers]) -> list[float]:
    """How long each design took that has outcomes."""
    return [one[-1] if not isinstance(one, Ran) else one.seconds for one in found if _has_outcomes(one)]


def hung(found: Ran | Numbers) -> bool:
    """Whether a design hung."""
    return isinstance(found, Ran) and found.hung


def _has_outcomes(found: Ran | Numbers) -> bool:
    return not isinstance(found, Ran) or found.values is not None
