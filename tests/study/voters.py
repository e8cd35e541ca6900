"""Voters as processes, for the tests of durability: started once, forked often, killed without warning.

`python -m tests.study.voters kill URL FOLDER COUNT` forks and kills COUNT voters, one after the other.
`python -m tests.study.voters together URL FOLDER COUNT ANSWERS` lets COUNT voters answer at the same time.
`python -m tests.study.voters wait` does what it reads.
A voter writes down every answer that `tell` acknowledged, after it returned, in a file of its own.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import torch

from kappasharp.randomness import stream, uniform
from kappasharp.store.storage import Storage
from kappasharp.study.collection import load_study

ROOT = Path(__file__).parents[2]
NAME = "shared"
PATIENCE = 60.0


def run(*words: object) -> None:
    """One of the two commands above, in a process of its own, forked by one that stays; an error where it fails."""
    process = _waiting()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
    process.stdin.flush()
    said = process.stdout.readline()
    assert said == "0\n", f"voters {words} ended with {said!r}; stderr has more"


@cache
def _waiting() -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "tests.study.voters", "wait"]
    process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)  # its input ends, and so does it
    return process


def books(folder: Path) -> list[tuple[str, int, int]]:
    """What every voter wrote down, as (voter, pair, event); a last line without its end was never acknowledged."""
    found = []
    for path in sorted(folder.glob("*.txt")):
        rows = [tuple(map(int, line.split())) for line in path.read_text().split("\n")[:-1]]
        found += [(f"voter {path.stem}", pair, event) for pair, event in rows]
    return found


def vote(url: str, book: Path, voter: str, answers: int, ready: int) -> None:
    """Answer pairs and keep book of what was acknowledged: the pair's number and the answer's event."""
    study = load_study(NAME, storage=url)
    os.write(ready, b"!")
    with book.open("a", buffering=1) as file:
        for _ in range(answers):
            pair = study.ask(voter)
            done = study.tell(pair, "a" if pair.number % 3 else "b")
            file.write(f"{pair.number} {done.event}\n")


def fork(url: str, folder: Path, index: int, answers: int) -> int:
    """A voter in a process of its own, which has opened the study."""
    hear, ready = os.pipe()
    child = os.fork()
    if child:
        # Its own end closed first: a voter that dies before it is ready ends the wait.
        os.close(ready)
        os.read(hear, 1)
        os.close(hear)
        return child
    code = 1
    try:
        vote(url, folder / f"{index}.txt", f"voter {index}", answers, ready)
        code = 0
    finally:
        os._exit(code)


def acknowledged(book: Path) -> int:
    """How many answers a voter has written down."""
    return len(book.read_text().splitlines()) if book.exists() else 0


def kill(url: str, folder: Path, count: int) -> None:
    """Each voter is killed at a moment of its own: so many answers later, from none to five, and a little more."""
    for index in range(count):
        child = fork(url, folder, index, 10**6)
        chance = uniform((2,), stream(index, "killed after"), torch.empty(0, dtype=torch.float64))
        answers, more = int(6 * chance[0]), 0.03 * float(chance[1])
        deadline = time.monotonic() + PATIENCE
        while acknowledged(folder / f"{index}.txt") < answers and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(more)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def together(url: str, folder: Path, count: int, answers: int) -> None:
    """All voters at once, each to the end."""
    children = [fork(url, folder, index, answers) for index in range(count)]
    ends = [os.waitpid(child, 0)[1] for child in children]
    assert not any(ends), ends


def command(name: str, url: str, folder: str, *numbers: str) -> None:
    # What opening a study imports is imported here, before the forks, and its connection is closed.
    storage = Storage(url)
    storage.studies()
    storage.close()
    {"kill": kill, "together": together}[name](url, Path(folder), *map(int, numbers))


def wait() -> None:
    """A command in every line of stdin, as a list; each ends within ten minutes, and its code is a line of stdout."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            signal.alarm(600)
            command(*json.loads(line))
            os._exit(0)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    wait() if sys.argv[1:] == ["wait"] else command(*sys.argv[1:])
