"""What a function made of designs, kept briefly.

There may be 200,000 of them, and a search asks for hundreds a question. A design is its values in the order of its
parameters; what is known of one with outcomes are their numbers, and the seconds they took. Numbers lie side by side as
doubles: so they are compared, kept and sent as they are, many at once.
"""

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from kappasharp.simulators.function import DOUBLE, Numbers
from kappasharp.space.outcomes import Ran
from kappasharp.space.parameters import Value
from kappasharp.space.space import Design

Names = tuple[str, ...]
Row = tuple[Value, ...]
# Values, as doubles where all are floats; else with which are True or False: to Python 1 and True are one.
Key = Numbers | tuple[Row, tuple[bool, ...]]


def key(row: Row) -> Key:
    """What tells designs of the same parameters apart, of the values of one."""
    kinds = set(map(type, row))
    if kinds == {float}:
        return struct.pack(f"{len(row)}d", *row)
    return row, tuple(isinstance(value, bool) for value in row) if bool in kinds else ()


def keys(parameters: Names, numbers: Numbers) -> list[Key]:
    """The same of many designs whose values are given as doubles."""
    return _cut(numbers, len(parameters))


def design(parameters: Names, of: Key) -> Design:
    """The design of a key."""
    row = struct.unpack(f"{len(parameters)}d", of) if isinstance(of, bytes) else of[0]
    return dict(zip(parameters, row, strict=True))


def _cut(numbers: Numbers, size: int) -> list[Any]:
    """Rows of so many doubles."""
    size *= DOUBLE
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]


class Computed:
    """All of it in one process, of designs with these parameters."""

    def __init__(self, parameters: Names) -> None:
        self.parameters = parameters
        self.outcomes: Names = ()  # their names, as the first design that had some had them
        self._of: dict[Key, Ran | Numbers] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def design(self, of: Key) -> Design:
        """The design of a key."""
        return design(self.parameters, of)

    def for_job(self, wanted: Sequence[Key]) -> Numbers | list[Design]:
        """The designs of keys, as a job is given them: in one piece where they are doubles."""
        if set(map(type, wanted)) == {bytes}:
            return b"".join(wanted)  # type: ignore[arg-type]  # no other kind is there
        return list(map(self.design, wanted))

    def fresh(self, wanted: Iterable[Key]) -> list[Key]:
        """Those that are not known, each once."""
        known = self._of
        return list(dict.fromkeys([key for key in wanted if key not in known]))

    def keep(self, fresh: Iterable[Key], found: Iterable[Ran | Numbers]) -> None:
        """Take in what was computed."""
        self._of |= zip(fresh, found, strict=True)

    def forget_all_but(self, wanted: Iterable[Key]) -> None:
        """Make room."""
        self._of = {key: self._of[key] for key in wanted if key in self._of}

    def read(self, found: Numbers | list[Ran]) -> Sequence[Ran | Numbers]:
        """A job's answer, as it is kept."""
        if isinstance(found, bytes):
            return _cut(found, len(self.outcomes) + 1)
        self.outcomes = self.outcomes or next((tuple(one.values) for one in found if one.values is not None), ())
        return found

    def get(self, key: Key) -> Ran | None:
        """What the function made of a design; None of one that is not known. No lock is needed."""
        found = self._of.get(key)
        return found if found is None or isinstance(found, Ran) else self._ran(found)

    def ran(self, key: Key) -> Ran:
        """The same of one that is known."""
        found = self.get(key)
        assert found is not None
        return found

    def table(self, wanted: Iterable[Key], names: Names) -> tuple[bytearray, bool]:
        """Outcomes of these names by design, and a number more; NaN where one is missing or has another name.

        And whether it is sure that all are there.
        """
        found = list(map(self._of.__getitem__, wanted))
        if names == self.outcomes and Ran not in set(map(type, found)):
            return bytearray().join(found), True  # type: ignore[arg-type]  # no other kind is left
        return bytearray().join(self._row(one, names) for one in found), False

    def _row(self, one: Ran | Numbers, names: Names) -> Numbers:
        values = (one if isinstance(one, Ran) else self._ran(one)).values
        if values is None or values.keys() != set(names):
            return struct.pack("d", math.nan) * (len(names) + 1)
        return struct.pack(f"{len(names) + 1}d", *(values[name] for name in names), 0.0)

    def _ran(self, row: Numbers) -> Ran:
        *values, seconds = struct.unpack(f"{len(self.outcomes) + 1}d", row)
        return Ran(dict(zip(self.outcomes, values, strict=True)), None, seconds)


def seconds(found: Sequence[Ran | Numbers]) -> list[float]:
    """How long each design took that has outcomes."""
    packed = [one[-DOUBLE:] for one in found if type(one) is bytes]
    others = [one.seconds for one in found if type(one) is Ran and one.values is not None]
    return [*struct.unpack(f"{len(packed)}d", b"".join(packed)), *others]


def hung(found: Ran | Numbers) -> bool:
    """Whether a design hung."""
    return isinstance(found, Ran) and found.hung
