"""Other people's software as methods: the same cells, first designs and simulated people."""

from dataclasses import dataclass
from typing import Any

from kappasharp.problems.problem import Problem


@dataclass(frozen=True)
class Peer:
    """A library, by its name and what is called in it."""

    library: str
    summary: str


PEERS: dict[str, Peer] = {}


def run(peer: Peer, problem: Problem, block: Any) -> list[dict[str, Any]]:
    """The records of a block's runs, one after another."""
    raise NotImplementedError
