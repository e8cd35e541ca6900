"""Voters that are programs: who they are, and what each of them said of which designs, so that none is paid twice."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kappasharp.study.events import Joined, Judged, Queued, Stored
from kappasharp.study.kinds import Form
from kappasharp.study.space import Design


@dataclass
class Programs:
    """`about` has every voter that is a program, with the line that says which; the rest are people."""

    about: dict[str, str] = field(default_factory=dict)
    said: dict[str, Judged] = field(default_factory=dict)

    def join(self, stored: Stored, event: Joined) -> None:
        """Take in that a voter is a program."""
        self.about[stored.voter] = event.about

    def judge(self, stored: Stored, event: Judged) -> None:
        """Take in what a program said."""
        self.said[_key(stored.voter, event.form, event.designs)] = event

    def verdict(self, voter: str, form: Form, designs: Sequence[Design]) -> Judged | None:
        """What a program said of these designs in this order; None where it was not asked."""
        return self.said.get(_key(voter, form, designs))

    def may_take(self, voter: str | None, queue: Mapping[int, Queued]) -> Mapping[int, Queued]:
        """What of the queue a voter may be asked: of a program nothing that is for people, nor a question again."""
        if voter not in self.about:
            return queue
        return {number: one for number, one in queue.items() if not one.people and one.again is None}


def _key(voter: str, form: Form, designs: Sequence[Design]) -> str:
    return json.dumps([voter, form.kind.value, designs], sort_keys=True)
