"""How often one visitor, and all of a study together, may ask for what is dear; whoever asks more often is refused.

Twenty changes in a row are a person at work, hundreds a minute are a loop. A team of two hundred never meets a limit.
"""

import math
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from kappasharp.errors import KappaSharpError
from kappasharp.messages.message import Sentence, said


class Dear(Enum):
    """What is dear."""

    CHANGE = "narrow, lock or widen a parameter"
    KIND = "have another kind of question put in the place of the one that waits"
    REPORT = "download the report"
    FILE = "download the study as a file"
    AGREEMENT = "look at what the voters have in common"
    IMPORT = "import comparisons"
    RENAME = "give the study another name"


class Budget(NamedTuple):
    """So many times in a row; after these, once every so many seconds."""

    times: int
    seconds: float


# What one visitor may do, and what all visitors of a study may do together.
BUDGETS: Mapping[Dear, tuple[Budget, Budget]] = {
    Dear.CHANGE: (Budget(20, 3.0), Budget(100, 1.0)),
    Dear.KIND: (Budget(20, 3.0), Budget(600, 0.2)),
    Dear.REPORT: (Budget(6, 15.0), Budget(400, 1.0)),
    Dear.FILE: (Budget(30, 3.0), Budget(400, 0.5)),
    Dear.AGREEMENT: (Budget(60, 1.0), Budget(600, 0.1)),
    Dear.IMPORT: (Budget(10, 20.0), Budget(30, 10.0)),
    Dear.RENAME: (Budget(10, 10.0), Budget(20, 10.0)),
}
# As many are remembered before those are forgotten who may do everything again.
MOST = 10_000


class TooOftenError(KappaSharpError):
    """Somebody asked for something dear too often; after so many seconds they may again."""

    def __init__(self, sentence: Sentence, seconds: int) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class Budgets:
    """What every visitor and every study has left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        # When each would have its whole budget again.
        self._whole: dict[tuple[Dear, str, str | None], float] = {}

    def spend(self, what: Dear, study: str, visitor: str | None) -> None:
        """Count something dear, or a sentence where it is too often; without a name only the study's budget counts."""
        now, (own, together) = self.clock(), BUDGETS[what]
        limits: dict[tuple[Dear, str, str | None], Budget] = {(what, study, None): together}
        if visitor is not None:
            limits[what, study, visitor] = own
        for key, budget in limits.items():
            # The budget of this moment holds one more if it is whole again in time.
            wait = self._whole.get(key, now) - now - (budget.times - 1) * budget.seconds
            if wait > 0.0:
                raise _too_often(budget, math.ceil(wait), is_own=budget is own)
        for key, budget in limits.items():
            self._whole[key] = max(self._whole.get(key, now), now) + budget.seconds
        if len(self._whole) > MOST:
            self._whole = {key: whole for key, whole in self._whole.items() if whole > now}


def _too_often(budget: Budget, wait: int, *, is_own: bool) -> TooOftenError:
    numbers = {"times": budget.times, "every": f"{budget.seconds:g}", "wait": wait}
    if is_own:
        words = "This may be done {times} times in a row, then once every {every} s, but it was asked for more often."
        return TooOftenError(
            said("refused.often", f"{words} Nothing was done; try again in {{wait}} s.", **numbers), wait
        )
    words = (
        "All who are in this study together may do this {times} times in a row, then once every {every} s, but they "
        "asked for it more often. Nothing was done; try again in {wait} s."
    )
    return TooOftenError(said("refused.often_together", words, **numbers), wait)
