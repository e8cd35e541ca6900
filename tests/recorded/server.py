"""`kappasharp serve` in a process of its own on this machine, and its clients, each with the cookies of a role."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
WRITE = {"x-kappasharp": "1"}
KEY, OWNER, VOTER, VIEWER, STRANGER = ROLES = ("key", "owner", "voter", "viewer", "stranger")
PATIENCE = 120.0


def environment(folder: Path, storage: str) -> dict[str, str]:
    """What a command is told by its surroundings: where studies and keys are, and a terminal of a known size."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    own = {"PYTHONPATH": path, "KAPPASHARP_STORAGE": storage, "XDG_STATE_HOME": str(folder / "state")}
    more = {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    # What Python compiled of the package is kept for the next of a hundred processes.
    return os.environ | own | more | {"PYTHONDONTWRITEBYTECODE": ""}


@contextmanager
def serving(folder: Path, storage: str, *words: str) -> Iterator[tuple[str, str]]:
    """The address of the page over a database and its key, as long as the server runs."""
    command = [sys.executable, "-m", "kappasharp", "serve", "--no-browser", "--port", "0", *words]
    with (folder / "server.txt").open("w") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder, storage), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        assert process.stdout is not None
        link = re.match(r"(http://\S+?)/\S*?token=(\w+)", process.stdout.readline())
        if link is None:
            raise RuntimeError(f"The server did not start: {(folder / 'server.txt').read_text()}")
        yield link[1], link[2]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


@contextmanager
def clients(
    address: str, key: str, study: str, owner: str = "otto", voter: str = "vic"
) -> Iterator[dict[str, httpx.Client]]:
    """A client for each role: the key's, three who came by links into one study, and one whom nobody let in."""
    with ExitStack() as stack:
        made = {
            role: stack.enter_context(httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False))
            for role in ROLES
        }
        wait(made[KEY].get("/", params={"token": key}))
        for role, name in ((OWNER, owner), (VOTER, voter), (VIEWER, None)):
            invite = wait(made[KEY].post(f"/api/studies/{study}/invites", json={"role": role}, headers=WRITE)).json()
            secret = invite["link"].partition("#")[2]
            wait(made[role].post("/api/join", json={"secret": secret, "name": name}, headers=WRITE))
        yield made


def wait(answer: httpx.Response) -> httpx.Response:
    """An answer that must be a good one."""
    answer.raise_for_status()
    return answer


def until(look: object, seconds: float = PATIENCE) -> object:
    """What a function gives, once it gives anything."""
    end = time.monotonic() + seconds
    while not (found := look()):  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(f"{look} gave nothing in {seconds:g} seconds.")
        time.sleep(0.05)
    return found
