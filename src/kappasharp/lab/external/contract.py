"""The contract of a method from outside: two designs when it is asked, an answer when it is told, in its own process.

A method is a factory, `module:factory`, or a command. Either speaks JSON, one line for each line it gets:

    {"do": "begin", "dimensions": 6, "seed": 7}                   {}
    {"do": "tell", "pair": [[…], […]], "answer": 0}               {}
    {"do": "ask"}                                                 {"pair": [[…], […]]}
    {"do": "best"}                                                {"design": […]}, or {} where it tells none

Where several people take turns, `ask` and `tell` have the number of whoever answers as well: "voter": 0, 1, ….
Designs lie in the unit cube. An answer is 0 for the first, 1 for the second, 2 for a tie. What breaks a rule is a
`MethodError`, whose sentence has the rule and the evidence; it ends one run and no other.
"""

import json
import math
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.errors import KappaSharpError
from kappasharp.randomness import stream, uniform

# Seconds for one reply, and how many more for the first, which imports a library.
SECONDS, IMPORTS = 600, 120
# How far out of the cube a design may be, by rounding.
ROUNDING = 1e-9
SHOWN, LAST_WORDS = 160, 600
PAIR = 2


class MethodError(KappaSharpError, RuntimeError):
    """A method from outside broke a rule of the contract, failed, or took too long."""


class Proposed(NamedTuple):
    """Two designs (2, d) in the unit cube, and what the method warned of on the way, if it did."""

    points: Tensor
    warning: str = ""


@runtime_checkable
class Player(Protocol):
    """A method during one run."""

    def begin(self, dimensions: int, seed: int, problem: str = "") -> None:
        """Start anew, with nothing known; the problem's name is for those that see outcomes."""
        ...

    def ask(self, voter: int | None = None) -> Proposed:
        """The next question; where several people answer in turn, whom it is for."""
        ...

    def tell(self, pair: Tensor, answer: int, voter: int | None = None) -> None:
        """An answer, to its own question or to one of the start, and whose it is."""
        ...

    def best(self) -> Tensor | None:
        """The design (d,) that it tells to be best; None where it tells none."""
        ...


def command(factory: str) -> tuple[str, ...]:
    """What runs a Python factory in a process of its own."""
    return (sys.executable, "-m", "kappasharp.lab.external.server", factory)


class OwnProcess:
    """A method in a process of its own, which is started when it is needed, and anew after a failure."""

    def __init__(self, words: Sequence[str], seconds: int | float = SECONDS) -> None:
        self.words, self.seconds = tuple(words), seconds
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.dimensions = 0

    def __enter__(self) -> "OwnProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, dimensions: int, seed: int, problem: str = "") -> None:
        """Start anew."""
        self.dimensions = dimensions
        further = {"problem": problem} if problem else {}
        self._say({"do": "begin", "dimensions": dimensions, "seed": seed} | further, self.seconds + IMPORTS)

    def ask(self, voter: int | None = None) -> Proposed:
        """The next question."""
        reply = self._say({"do": "ask"} | _of(voter))
        pair = reply.get("pair")
        if not isinstance(pair, list) or len(pair) != PAIR:
            raise self._broken(f"`ask` must return two designs, but got {_short(pair)}.")
        return Proposed(torch.stack([self._design(one, "ask") for one in pair]), str(reply.get("warning", "")))

    def tell(self, pair: Tensor, answer: int, voter: int | None = None) -> None:
        """An answer."""
        self._say({"do": "tell", "pair": pair.tolist(), "answer": answer} | _of(voter))

    def best(self) -> Tensor | None:
        """The design told."""
        told = self._say({"do": "best"}).get("design")
        return None if told is None else self._design(told, "best")

    def end(self) -> None:
        """End the process with all that it started."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL) if hasattr(os, "killpg") else self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self.errors.close()
        self.process = None

    def _design(self, given: Any, verb: str) -> Tensor:
        numbers = isinstance(given, list) and all(type(one) in (int, float) for one in given)
        if not numbers or len(given) != self.dimensions:
            raise self._broken(f"`{verb}` must give designs of {self.dimensions} numbers, but got {_short(given)}.")
        bad = [one for one in given if not (math.isfinite(one) and -ROUNDING <= one <= 1.0 + ROUNDING)]
        if bad:
            raise self._broken(f"`{verb}` must give designs in the unit cube, from 0 to 1, but got {bad[0]}.")
        return torch.tensor(given, dtype=torch.float64).clamp(0.0, 1.0)

    def _say(self, message: dict[str, Any], seconds: int | float | None = None) -> dict[str, Any]:
        """The reply to one message, within its time."""
        limit = self.seconds if seconds is None else seconds
        process = self.process or self._start()
        try:
            process.stdin.write(json.dumps(message) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            line = self.lines.get(timeout=limit)
        except queue.Empty:
            raise self._broken(f"`{message['do']}` must be answered within {limit:g} seconds, but was not.") from None
        except OSError:
            line = None
        if line is None:
            raise self._broken(f"`{message['do']}` must be answered, but the process ended{self._code()}.")
        return self._read(line, message["do"])

    def _read(self, line: str, verb: str) -> dict[str, Any]:
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise self._broken(f"`{verb}` must be answered by one line with a JSON object, but got {_short(line)}.")
        if "error" in reply:
            where = f" ({reply['where']})" if "where" in reply else ""
            raise self._broken(f"`{verb}` failed: {reply['error']}{where}")
        return reply

    def _start(self) -> "subprocess.Popen[str]":
        self.errors = tempfile.TemporaryFile()
        self.lines = queue.Queue()
        try:
            self.process = subprocess.Popen(
                self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                encoding="utf-8", start_new_session=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        except OSError as error:
            self.errors.close()
            raise MethodError(f"The command {shlex.join(self.words)!r} cannot be started: {error}.") from error
        threading.Thread(target=_collect, args=(self.process.stdout, self.lines), daemon=True).start()
        return self.process

    def _code(self) -> str:
        with suppress(subprocess.TimeoutExpired, AttributeError):
            return f" with the code {self.process.wait(1.0)}"  # type: ignore[union-attr]
        return ""

    def _broken(self, sentence: str) -> MethodError:
        """The error, with the method's last words; its process is ended, since what it would say next belongs to it."""
        self.errors.seek(0)
        said = self.errors.read().decode("utf-8", "replace").strip()[-LAST_WORDS:]
        self.end()
        return MethodError(sentence + (f" Its last words: {said}" if said else ""))


def _collect(source: Any, lines: "queue.Queue[str | None]") -> None:
    with suppress(ValueError, OSError):  # closed while it was read: the process was ended
        for line in source:
            lines.put(line)
    lines.put(None)


def _of(voter: int | None) -> dict[str, int]:
    return {} if voter is None else {"voter": voter}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


class ContractRule(NamedTuple):
    """A rule of the contract, and why it is broken; None where it is kept."""

    name: str
    broken: str | None


RULES = (
    "it can be made, of a number of dimensions and a seed",
    "answers that it did not ask for are taken, ties too",
    "questions are two designs in the unit cube",
    "the design told, if any, is in the unit cube, before the first question too",
    "the same seed asks the same first question",
    "another run in the same process, of other dimensions, begins anew",
)
STARTS, QUESTIONS = 4, 4
# First questions of one seed may differ by so much: sums are not the same in every place of memory.
ALIKE = 1e-3


def check(words: Sequence[str], seconds: int | float = SECONDS, questions: int = QUESTIONS) -> Iterator[ContractRule]:
    """Every rule of the contract, kept or broken, by runs of so many questions on a bowl in three and seven dimensions.

    After the first broken rule nothing is tried.
    """
    asked, other = partial(_asked, questions=questions), partial(_other, questions=questions)
    works: tuple[Callable[[Player, Tensor | None], Tensor | None], ...] = (_begun, _told, asked, _best, _again, other)
    first: Tensor | None = None
    with OwnProcess(words, seconds) as player:
        for rule, work in zip(RULES, works, strict=True):
            try:
                first = work(player, first)
            except MethodError as error:
                yield ContractRule(rule, str(error))
                return
            yield ContractRule(rule, None)


def _begun(player: Player, _: Tensor | None) -> None:
    player.begin(3, 7)


def _told(player: Player, _: Tensor | None, dimensions: int = 3) -> None:
    player.begin(dimensions, 7)
    chance = uniform((STARTS, PAIR, dimensions), stream(0, "contract"), torch.empty(0, dtype=torch.float64))
    for number, pair in enumerate(chance):
        player.tell(pair, 2 if number == STARTS - 1 else _bowl(pair))


def _asked(player: Player, _: Tensor | None, questions: int) -> Tensor:
    first = player.ask().points
    pair = first
    for _number in range(questions):
        player.tell(pair, _bowl(pair))
        pair = player.ask().points
    player.tell(pair, _bowl(pair))
    return first


def _best(player: Player, first: Tensor | None) -> Tensor | None:
    player.best()
    _told(player, None)
    player.best()
    return first


def _again(player: Player, first: Tensor | None) -> Tensor | None:
    _told(player, None)
    again = player.ask().points
    if first is None or not torch.allclose(first, again, rtol=0.0, atol=ALIKE):
        raise MethodError(
            f"The same seed and answers must give the same first question, but got {_short(again.tolist())} after "
            f"{_short(first.tolist() if first is not None else None)}; draw from a generator made of `seed`."
        )
    return first


def _other(player: Player, _: Tensor | None, questions: int) -> None:
    _told(player, None, dimensions=7)
    _asked(player, None, questions)


def _bowl(pair: Tensor) -> int:
    return int((pair[1] - 0.3).square().sum() < (pair[0] - 0.3).square().sum())
