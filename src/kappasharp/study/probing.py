"""What a function gives, and how long it takes, from a few designs: before a study with its outcomes is made."""

import math
from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple

from kappasharp.errors import InvalidValueError
from kappasharp.study.running import LONGEST_WORDS, Ran
from kappasharp.study.simulation import CHEAP, Simulator
from kappasharp.study.space import Design

# Designs that are computed when a study is made: names and seconds come from them; and for how long that may go on.
PROBES, PROBE_SECONDS = 8, 1.0


class Probed(NamedTuple):
    """The names of the outcomes in their order, and about how long a design takes: a power of two."""

    names: tuple[str, ...]
    seconds: float


def probe(simulator: Simulator, designs: Sequence[Design]) -> Probed:
    """Names and seconds from a few designs; a sentence where none of them has outcomes, or their names differ."""
    ran: list[Ran] = []
    began = perf_counter()
    for design in designs[:PROBES]:
        ran += simulator.compute([design])
        if not ran[-1].loaded:
            raise InvalidValueError(f"{ran[-1].failure} Nothing was stored.")
        # A first call may load what later ones have: it takes a second slow one to make a function slow.
        is_slow = len(ran) > 1 and ran[-1].seconds > CHEAP and perf_counter() - began > PROBE_SECONDS
        if is_slow and any(each.values for each in ran):
            break
    good = [each for each in ran if each.values is not None]
    if not good:
        raise InvalidValueError(
            f"`outcomes` must work for one of the first {len(ran)} designs, but: {ran[0].failure} Nothing was stored; "
            f"the first design was {designs[0]}."
        )
    assert good[0].values is not None
    names = tuple(good[0].values)
    for each in good:
        if each.values is not None and each.values.keys() != set(names):
            raise InvalidValueError(
                "The function of the outcomes must return the same names for every design, but it returned "
                f"{', '.join(names)[:LONGEST_WORDS]} for one and {', '.join(each.values)[:LONGEST_WORDS]} for another. "
                "Nothing was stored."
            )
    seconds = max(median(each.seconds for each in good), 1e-6)
    return Probed(names, 2.0 ** math.ceil(math.log2(seconds)))
