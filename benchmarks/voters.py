"""Two hundred voters at once, each with an answer every five seconds, against a real server on this machine.

python -m benchmarks.voters [--voters 200] [--seconds 75] [--every 5] [--storage URL] [--keep]

Every voter does what a page does: a stream of news is open, an answer brings the next question. One answer in twenty is
sent twice at the same time. What the server acknowledged is compared with what is stored; `--keep` writes the result to
benchmarks/people.json, under `voters_200`.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx

import kappasharp as ks
from kappasharp.lab.run import commit
from tests.web.chromium import serving
from tests.web.crowd import study_of

RESULT = Path(__file__).parent / "people.json"
NAME = "crowd"
SPACE = {name: (0.0, 1.0) for name in ("warmth", "contrast", "grain", "fade", "tint", "vignette")}
SENT_TWICE, JOINING = 0.05, 5.0
TICKS = os.sysconf("SC_CLK_TCK")


def wish(design, voter):
    """What a voter likes: nearly what all like."""
    return -sum((value - 0.3 - 0.1 * i - 0.02 * (voter % 5)) ** 2 for i, value in enumerate(design.values()))


class Line:
    """One kept connection to the server, without a library: two hundred of them should not take the machine."""

    def __init__(self, link):
        parts = urlsplit(link)
        token = parse_qs(parts.query)["token"][0]
        self.host, self.port = parts.hostname, parts.port
        self.head = f"Host: {parts.netloc}\r\nCookie: kappasharp_{token[:6]}={token}\r\n"
        self.reader = self.writer = None

    async def send(self, method, path, data=None):
        """The status of an answer; what it brings is to be read."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        body = b"" if data is None else json.dumps(data).encode()
        more = f"X-Kappasharp: 1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self.writer.write(f"{method} {path} HTTP/1.1\r\n{self.head}{more}\r\n".encode() + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        found = re.search(r"content-length: (\d+)", head)
        return int(head.split(" ", 2)[1]), None if found is None else int(found[1])

    async def ask(self, method, path, data=None):
        """Status and text of an answer."""
        status, length = await self.send(method, path, data)
        return status, (await self.reader.readexactly(length)).decode()

    def close(self):
        if self.writer is not None:
            self.writer.close()


class Crowd:
    """What the voters were told."""

    def __init__(self, link, study, options):
        self.link, self.study, self.at, self.options = link, study, f"/api/studies/{study}", options
        self.when = []
        self.took, self.joined, self.acknowledged, self.refused, self.news = [], [], [], Counter(), Counter()

    async def vote(self, number):
        """One voter, until the time is over."""
        name, chance = f"v{number}", random.Random(number)
        await asyncio.sleep(chance.uniform(0.0, JOINING))
        stream = asyncio.create_task(self.listen(number))
        line, begun = Line(self.link), time.perf_counter()
        pair = json.loads((await line.ask("GET", f"{self.at}/pair?voter={name}"))[1])["pair"]
        self.joined.append(time.perf_counter() - begun)
        due = time.perf_counter() + chance.uniform(0.0, self.options.every)
        while due < self.end:
            await asyncio.sleep(max(due - time.perf_counter(), 0.0))
            better = wish(pair["a"]["params"], number) > wish(pair["b"]["params"], number)
            data = {"pair": pair["number"], "answer": "a" if better else "b", "seconds": 2.0, "voter": name}
            lines = [line, Line(self.link)] if chance.random() < SENT_TWICE else [line]
            pair = await self.answer(lines, data) or pair
            for spare in lines[1:]:
                spare.close()
            # The next answer is due five seconds after this one was, however long the turn took: none waits for it.
            due = max(due + self.options.every * chance.uniform(0.5, 1.5), time.perf_counter() + 0.2)
        stream.cancel()
        line.close()

    async def answer(self, lines, data):
        """The next pair; over the second line the same answer is sent again, as by a page that lost the first word."""
        begun = time.perf_counter()
        told = await asyncio.gather(*(one.ask("POST", f"{self.at}/answer", data) for one in lines))
        self.took.append(time.perf_counter() - begun)
        self.when.append(begun)
        pair = None
        for status, text in told:
            if status != httpx.codes.OK:
                self.refused[f"{status} {text[:100]}"] += 1
                continue
            found = json.loads(text)
            self.acknowledged.append((data["voter"], data["pair"], found["saved"]["event"]))
            pair = found["pair"]
        return pair

    async def listen(self, number):
        """The stream of news that a page holds open."""
        line = Line(self.link)
        try:
            status, _ = await line.send("GET", f"/api/news?study={self.study}")
            if status != httpx.codes.OK:
                self.refused[f"stream {status}"] += 1
                return
            while found := await line.reader.readline():
                self.news[number] += found.startswith(b"data:")
            self.refused["stream ended"] += 1
        finally:
            line.close()

    async def run(self):
        self.end = time.perf_counter() + self.options.seconds
        await asyncio.gather(*(self.vote(number) for number in range(self.options.voters)))


def cpu_seconds(process):
    """Processor time of a process and of those that it started, by name."""
    found = Counter()
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append((int(entry.name), fields, words))
            if int(entry.name) == process:
                found["server"] = (int(fields[11]) + int(fields[12])) / TICKS
    waiting = [process]
    while waiting:
        for number, fields, _ in children.get(waiting.pop(), ()):
            found["workers"] += (int(fields[11]) + int(fields[12])) / TICKS
            waiting.append(number)
    return found


def stored(url):
    """Per question the events that answer it; and how old the questions were, in answers."""
    study = ks.load_study(NAME, storage=url)
    given = [(one.voter, one.pair, one.event) for one in study.history.comparisons.values()]
    answers, ages, designs = 0, [], Counter()
    asked, answered = study.history.asked, {one.event for one in study.history.comparisons.values()}
    for number in range(1, study.history.number + 1):
        answers += number in answered
        if number in asked:
            question, event = asked[number]
            designs[frozenset(json.dumps(one, sort_keys=True) for one in question.designs)] += 1
            if event.origin == "model" and event.memo is not None:
                ages.append(answers - event.memo["answers"])
    study.storage.close()
    return given, ages, sum(count - 1 for count in designs.values())


def measured(options, folder, url):
    """Everything, as plain numbers."""
    study = ks.create_study(SPACE, storage=url, study_name=NAME)
    for turn in range(options.before):
        pair = study.ask()
        study.tell(pair, "a" if wish(pair.a, turn) > wish(pair.b, turn) else "b")
    study.storage.close()
    with serving(folder, NAME, "--storage", url) as server:
        crowd = Crowd(server.link, study_of(server.link), options)
        time.sleep(options.warm)
        begun, before, own = time.perf_counter(), cpu_seconds(server.process.pid), time.process_time()
        asyncio.run(crowd.run())
        wall, after = time.perf_counter() - begun, cpu_seconds(server.process.pid)
        own = time.process_time() - own
    given, ages, twice = stored(url)
    told, events = set(crowd.acknowledged), {one[2] for one in given}
    per_pair = Counter(pair for _, pair, _ in given)
    by_event = Counter(event for _, _, event in told)
    took = sorted(1000 * one for one in crowd.took)
    print(dict(crowd.refused), flush=True)
    tens = [[] for _ in range(20)]
    for at, seconds in zip(crowd.when, crowd.took, strict=True):
        tens[int((at - begun) // 10)].append(1000 * seconds)
    for nth, one in enumerate(tens):
        if one:
            one.sort()
            print(f"{10 * nth} s: median {one[len(one) // 2]:.0f}, p95 {one[int(0.95 * len(one))]:.0f} ms", flush=True)
    return {
        "median_ms": round(statistics.median(took)),
        "p95_ms": round(took[int(0.95 * len(took))]),
        "largest_ms": round(took[-1]),
        "lost": sum(one[2] not in events for one in told),
        "doubled": sum(n - 1 for n in per_pair.values()) + sum(n - 1 for n in by_event.values()),
        "refused": sum(crowd.refused.values()),
        "answers": len(told),
        "answers_per_second": round(len(told) / wall, 1),
        "voters": options.voters,
        "sent_twice": len(crowd.acknowledged) - len(told),
        "pairs_shown_twice": twice,
        "join_median_ms": round(1000 * statistics.median(crowd.joined)),
        "question_age_answers": {"median": statistics.median(ages), "largest": max(ages)} if ages else None,
        "news_per_voter": round(sum(crowd.news.values()) / options.voters, 1),
        "seconds": round(wall, 1),
        "cpu_seconds": {name: round(after[name] - before[name], 1) for name in after} | {"voters": round(own, 1)},
        "storage": url.partition(":")[0],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "commit": commit(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--voters", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--every", type=float, default=5.0)
    parser.add_argument("--before", type=int, default=0, help="answers before the voters come")
    parser.add_argument("--warm", type=float, default=8.0, help="seconds until they come")
    parser.add_argument("--storage")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(options, Path(folder), options.storage or f"sqlite:///{folder}/page.db")
    print(json.dumps(found, indent=1))
    if options.keep:
        kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        RESULT.write_text(json.dumps(kept | {"voters_200": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
