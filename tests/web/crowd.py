"""Voters and a watcher of a page, over HTTP: in process or against a real server, by any client of httpx."""

import asyncio
import random
import subprocess
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.web.doubles import WRITE

FILE = "/static/app.js"
PATIENCE = 120.0


def client(link, kind=httpx.Client):
    """A client with the key of a running server's link."""
    parts = urlsplit(link)
    token = parse_qs(parts.query)["token"][0]
    cookies = {f"kappasharp_{token[:6]}": token}
    return kind(base_url=f"{parts.scheme}://{parts.netloc}", cookies=cookies, timeout=PATIENCE)


def study_of(link):
    """The identity of the study that the page opens first."""
    with client(link) as one:
        return one.get("/api/studies").json()["study"]["id"]


def _by_turns(_, turn):
    return "ab"[turn % 2]


async def votes(browser, study, voter, turns, *, choose=_by_turns, pause=0.0):
    """One voter's answers, looking at each pair from half to one and a half times the pause.

    The responses, and the seconds until each came with its next pair.
    """
    at, told, took, chance = f"/api/studies/{study}", [], [], random.Random(voter)
    pair = (await browser.get(f"{at}/pair", params={"voter": voter})).json()["pair"]
    for turn in range(turns):
        data = {"pair": pair["number"], "answer": choose(pair, turn), "seconds": 1.0, "voter": voter}
        await asyncio.sleep(pause * chance.uniform(0.5, 1.5))
        begun = time.perf_counter()
        told.append(await browser.post(f"{at}/answer", json=data, headers=WRITE))
        took.append(time.perf_counter() - begun)
        if told[-1].status_code != httpx.codes.OK:
            break
        pair = told[-1].json()["pair"]
    return told, took


async def all_vote(browser, study, voters, turns, **more):
    """All voters at once: all responses, and all seconds."""
    each = await asyncio.gather(*(votes(browser, study, f"v{k}", turns, **more) for k in range(voters)))
    return [one for told, _ in each for one in told], [one for _, took in each for one in took]


SLEEPER = """
import sys, threading, time
end, latest = threading.Event(), 0.0
threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
print("ready", flush=True)
while not end.is_set():
    begun = time.perf_counter()
    time.sleep(0.005)
    latest = max(latest, time.perf_counter() - begun - 0.005)
print(latest)
"""


class Lateness:
    """How late the machine itself wakes a process that only sleeps, at worst, in seconds: what no server can help."""

    latest = 0.0

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.latest = float(self._process.communicate()[0])


class Watch:
    """Fetches a static file again and again in a thread of its own, and notes how long each took, in seconds."""

    def __init__(self, link, pause=0.02):
        self.link, self.pause, self.took = link, pause, []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        with client(self.link) as one:
            one.get(FILE)  # the connection is made before anything is timed
            while not self._end.wait(self.pause):
                begun = time.perf_counter()
                one.get(FILE).raise_for_status()
                self.took.append(time.perf_counter() - begun)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
