"""What breaks: python -m benchmarks.faults [--only kills,flips,…] [--voters 16] [--answers 40] [--pause 0].

Processes are killed while they write, bits are turned round and files cut short, answers are sent again, sixteen voters
answer at once with the model on, and requests come that nobody means. Every random number has a fixed seed. At most ten
minutes on two cores. Writes benchmarks/faults.json; ends with an error if anything was lost, doubled, changed without
a word, or answered with a bare error.
"""

import argparse
import asyncio
import json
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import torch

import kappasharp as ks
from kappasharp.errors import KappaSharpError
from kappasharp.exchange import study_json
from kappasharp.lab import run
from kappasharp.lab.store import Store
from kappasharp.store.storage import Storage
from tests.damage import damages
from tests.lab import tiny
from tests.study import voters
from tests.web import crowd, fuzz
from tests.web.chromium import serving
from tests.web.doubles import WRITE

HERE = Path(__file__).parent
SEED = 17
KILLS, SERVER_KILLS, MOST_BEFORE_KILL = 150, 8, 30
DATABASE_FLIPS, DATABASE_CUTS = 300, 60
EXPORT_FLIPS, EXPORT_CUTS, EXPORT_CHANGES = 500, 100, 500
BLOCK_FLIPS, BLOCK_CUTS = 500, 100
REPLAYED, TIMES = 60, 5
FUZZED = 5000
SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
# So long a start that no model is fitted: for what is about the storage alone.
NO_MODEL = 10_000
WRONG = ("acknowledged_lost", "doubled", "silent_damage", "bare_errors", "http_500")


class Tally:
    """What was tried and what went wrong, by name; each fault is printed when it is found."""

    def __init__(self):
        self.tried, self.wrong, self.measured = Counter(), Counter(), {}

    def fault(self, kind, what, count=1):
        self.wrong[kind] += count
        print(f"  {kind}: {what}", flush=True)

    def response(self, answer, what):
        """Note what is wrong with any response: a bare error, or words that only a programmer reads."""
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            self.fault("http_500", f"{what}: {answer.status_code} {answer.text[:200]}")
        if "Traceback" in answer.text:
            self.fault("bare_errors", f"{what}: {answer.text[:200]}")

    def damaged(self, what, read, before):
        """Read what was damaged: a sentence of ours, or exactly what was there before."""
        try:
            after = read()
        except KappaSharpError:
            self.tried["damage_named"] += 1
            return
        except Exception as error:
            self.fault("bare_errors", f"{what}: {type(error).__name__}: {error}")
            return
        if after != before:
            self.fault("silent_damage", what)


def chance(part):
    """Random numbers of one part."""
    return np.random.default_rng([SEED, *part.encode()])


def made(folder, name=voters.NAME, first_pairs=NO_MODEL, file="page.db"):
    """The URL of a database with one study."""
    url = f"sqlite:///{folder / file}"
    ks.create_study(SPACE, storage=url, study_name=name, first_pairs=first_pairs).storage.close()
    return url


def stored(url, name=voters.NAME):
    """Every answer of a study, as (voter, pair, event)."""
    study = ks.load_study(name, storage=url)
    found = [(one.voter, one.pair, one.event) for one in study.history.comparisons.values()]
    study.storage.close()
    return found


def compare(tally, acknowledged, url):
    """Whether all that was acknowledged is there, and no pair has two answers."""
    found = stored(url)
    lost = set(acknowledged) - set(found)
    if lost:
        tally.fault("acknowledged_lost", sorted(lost)[:5], len(lost))
    twice = {pair: count for pair, count in Counter(pair for _, pair, _ in found).items() if count > 1}
    if twice:
        tally.fault("doubled", twice, len(twice))
    tally.tried["acknowledged_answers"] += len(acknowledged)


# --- kills -----------------------------------------------------------------------------------------------------------


def kills(tally, folder, _):
    """Voters as processes, each killed −9 in the middle of its answers."""
    url = made(folder)
    voters.run("kill", url, folder, KILLS)
    tally.tried["kills"] += KILLS
    compare(tally, voters.books(folder), url)


def server_kills(tally, folder, _):
    """The server itself, killed −9 in the middle of an answer, which is sent again to the one that follows."""
    url, acknowledged, waiting = made(folder), [], None
    for count in chance("server kills").integers(1, MOST_BEFORE_KILL, size=SERVER_KILLS):
        with serving(folder, voters.NAME) as server, crowd.client(server.link) as client:
            study = crowd.study_of(server.link)
            for turn in range(count + 1):
                waiting = waiting or _next(client, study)
                if turn == count:
                    _kill_during(server, client, study, waiting)
                    break
                done = client.post(f"/api/studies/{study}/answer", json=waiting, headers=WRITE)
                tally.response(done, "an answer")
                acknowledged.append(("me", waiting["pair"], done.json()["saved"]["event"]))
                waiting = None
        tally.tried["server_kills"] += 1
    compare(tally, acknowledged, url)


def _next(client, study):
    pair = client.get(f"/api/studies/{study}/pair", params={"voter": "me"}).json()["pair"]
    return {"pair": pair["number"], "answer": "a", "seconds": 1.0, "voter": "me"}


def _kill_during(server, client, study, waiting):
    """An answer is on its way when the server dies: nobody hears whether it arrived."""
    sending = threading.Thread(target=_send, args=(client, f"/api/studies/{study}/answer", waiting))
    sending.start()
    time.sleep(0.004)
    server.kill()
    sending.join()


def _send(client, path, data):
    with suppress(httpx.TransportError):
        client.post(path, json=data, headers=WRITE)


# --- damage ----------------------------------------------------------------------------------------------------------


def flips(tally, folder, _):
    """A database, an export and a block of results with bits turned round, cut short, or with another value in it."""
    _damaged_database(tally, folder / "database")
    _damaged_export(tally, folder / "export")
    _damaged_block(tally, folder / "block")


def _answered(folder, name, answers, **more):
    study = ks.create_study(SPACE, storage=f"sqlite:///{folder / 'a.db'}", study_name=name, **more)
    for turn in range(answers):
        study.tell(study.ask(), "ab"[turn % 2], seconds=1.0)
    return study


def _damaged_database(tally, folder):
    folder.mkdir()
    for name in ("one", "other"):
        _answered(folder, name, 12, first_pairs=NO_MODEL).storage.close()
    path = folder / "a.db"
    content = path.read_bytes()

    def read():
        storage = Storage(f"sqlite:///{path}")
        try:
            return [ks.load_study(name, storage=storage).plain() for name in ("one", "other")]
        finally:
            storage.close()

    before = read()
    for what, damage in damages(content, chance("database"), flips=DATABASE_FLIPS, cuts=DATABASE_CUTS):
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        path.write_bytes(damage)
        tally.damaged(f"database, {what}", read, before)
    tally.tried.update(database_flips=DATABASE_FLIPS, database_truncations=DATABASE_CUTS)


def _damaged_export(tally, folder):
    folder.mkdir()
    study, path = _answered(folder, "s", 8, first_pairs=4), folder / "s.json"
    study.export(path)
    content, random = path.read_bytes(), chance("export")

    def read():
        return ks.import_json(path, storage="sqlite://").plain()["events"]

    before = read()
    for what, damage in damages(content, random, flips=EXPORT_FLIPS, cuts=EXPORT_CUTS):
        path.write_bytes(damage)
        tally.damaged(f"export, {what}", read, before)
    for _ in range(EXPORT_CHANGES):
        data = json.loads(content)
        what = _change(data, random)
        path.write_text(json.dumps(study_json.sealed(data)))
        # Sealed anew it may be taken where a study could have stored it: then it must be as good as any other.
        tally.damaged(f"export, {what}", lambda: bool(ks.import_json(path, storage="sqlite://").best) or None, True)
    tally.tried.update(export_flips=EXPORT_FLIPS, export_truncations=EXPORT_CUTS, export_changes=EXPORT_CHANGES)


def _change(data, random):
    """Another value somewhere in the file; where, and which."""
    place, path = data, []
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = keys[random.integers(len(keys))]
        path.append(key)
        if not isinstance(place[key], dict | list) or not place[key] or random.random() < 0.1:
            place[key] = fuzz.value(random)
            return f"{path} = {place[key]!r}"[:200]
        place = place[key]


def _damaged_block(tally, folder):
    good, bad = tiny.blocks(seeds=3)
    store = Store(folder).open()
    store.write(good.key, tiny.rows_of(good))
    path = store.write(bad.key, tiny.rows_of(bad))

    def read():
        found = Store(folder).existing()
        rows = found.read().to_pylist()
        # Set aside, and said: the runs are run again.
        tally.tried["damage_named"] += len(found.broken)
        return before if found.broken else [tiny.fingerprint(row) for row in rows]

    content, before = path.read_bytes(), None
    before = read()
    for what, damage in damages(content, chance("block"), flips=BLOCK_FLIPS, cuts=BLOCK_CUTS):
        path.write_bytes(damage)
        tally.damaged(f"block, {what}", read, before)
        path.unlink(missing_ok=True)
    tally.tried.update(block_flips=BLOCK_FLIPS, block_truncations=BLOCK_CUTS)


# --- the page --------------------------------------------------------------------------------------------------------


def replays(tally, folder, _):
    """Every answer several times at once, and once more after the next: one event, and the same word about it."""
    url, acknowledged = made(folder), []

    async def all_of_them(link, study):
        at, before = f"/api/studies/{study}", None
        async with crowd.client(link, httpx.AsyncClient) as client:
            for _ in range(REPLAYED):
                pair = (await client.get(f"{at}/pair", params={"voter": "me"})).json()["pair"]
                data = {"pair": pair["number"], "answer": "a", "seconds": 1.0, "voter": "me"}
                sent = [client.post(f"{at}/answer", json=one, headers=WRITE) for one in [data] * TIMES]
                told = await asyncio.gather(*sent, *([] if before is None else [_again(client, at, before)]))
                for one in told:
                    tally.response(one, "an answer sent again")
                heard = {one.json()["saved"]["event"] for one in told[:TIMES] if one.status_code == httpx.codes.OK}
                if len(heard) != 1:
                    tally.fault("doubled", f"pair {pair['number']} was acknowledged as {heard}")
                acknowledged.extend(("me", pair["number"], event) for event in heard)
                before = data

    with serving(folder, voters.NAME) as server:
        asyncio.run(all_of_them(server.link, crowd.study_of(server.link)))
    tally.tried.update(replays=REPLAYED * TIMES)
    compare(tally, acknowledged, url)


def _again(client, at, data):
    return client.post(f"{at}/answer", json=data, headers=WRITE)


def _nearer(pair, _):
    worth = [-sum((value - 0.4) ** 2 for value in pair[side]["params"].values()) for side in "ab"]
    return "a" if worth[0] > worth[1] else "b"


def together(tally, folder, options):
    """Voters at once with the model on, against a real server; and how long a static file takes meanwhile."""
    url = made(folder, first_pairs=5)

    async def all_of_them(link, study):
        async with crowd.client(link, httpx.AsyncClient) as client:
            more = {"choose": _nearer, "pause": options.pause}
            return await crowd.all_vote(client, study, options.voters, options.answers, **more)

    with serving(folder, voters.NAME) as server:
        study = crowd.study_of(server.link)
        time.sleep(10)  # the workers start while nobody votes yet
        with crowd.Watch(server.link) as idle:
            time.sleep(3)
        with crowd.Lateness() as machine, crowd.Watch(server.link) as busy:
            told, took = asyncio.run(all_of_them(server.link, study))
    for one in told:
        tally.response(one, "an answer among many")
    saved = [one.json()["saved"] for one in told if one.status_code == httpx.codes.OK]
    if len({one["event"] for one in saved}) != len(saved):
        tally.fault("doubled", "two voters were told the same event")
    events = {event for _, _, event in stored(url)}
    lost = {one["event"] for one in saved} - events
    if lost:
        tally.fault("acknowledged_lost", sorted(lost)[:5], len(lost))
    compare(tally, [], url)
    tally.tried.update(voters=options.voters, voters_answers=len(told), static_requests=len(busy.took))
    tally.tried["acknowledged_answers"] += len(saved)
    tally.measured |= {
        "static_latency_ms": milliseconds(busy.took),
        "static_latency_idle_ms": milliseconds(idle.took),
        "machine_lateness_ms": round(1e3 * machine.latest, 1),
        "turn_ms": milliseconds(took),
        "voters_pause_s": options.pause,
    }


def milliseconds(seconds):
    return {"median": round(1e3 * statistics.median(seconds), 1), "max": round(1e3 * max(seconds), 1)}


def fuzzed(tally, folder, _):
    """Requests that nobody means, to a real server: refused in a sentence, and nothing changes."""
    url = made(folder, first_pairs=2)
    study = ks.load_study(voters.NAME, storage=url)
    for _ in range(3):
        study.tell(study.ask(), "a")
    study.ask()
    before, random = study.plain(), chance("fuzz")

    async def all_of_them(link, uid):
        async with crowd.client(link, httpx.AsyncClient) as client, httpx.AsyncClient(base_url=client.base_url) as out:
            for count in range(FUZZED):
                given = fuzz.one_request(random, uid)
                try:
                    answer = await (out if count % 10 == 0 else client).request(**given)
                except httpx.InvalidURL:
                    continue  # no client can send it
                tally.tried["fuzzed_requests"] += 1
                tally.response(answer, f"{given}"[:300])

    with serving(folder, voters.NAME) as server:
        asyncio.run(all_of_them(server.link, crowd.study_of(server.link)))
    if study.plain() != before:
        tally.fault("silent_damage", "a request that should have been refused changed the study")
    study.storage.close()


PARTS = {
    "kills": kills, "server_kills": server_kills, "flips": flips, "replays": replays, "voters": together,
    "fuzz": fuzzed,
}  # fmt: skip


def made_by():
    return {
        "commit": run.commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()} {platform.system()}",
        **{name: run.version(name) for name in ("kappasharp", "torch", "sqlalchemy", "starlette", "uvicorn")},
        "python": platform.python_version(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, separated by commas; writes no file")
    parser.add_argument("--voters", type=int, default=16)
    parser.add_argument("--answers", type=int, default=40, help="of each voter")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a voter looks at a pair, on average")
    options = parser.parse_args()
    wanted = options.only.split(",")
    torch.set_num_threads(1)
    tally, seconds = Tally(), {}
    for name in wanted:
        print(f"{name}: {PARTS[name].__doc__}", flush=True)
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](tally, Path(folder), options)
        seconds[name] = round(time.monotonic() - begun, 1)
        print(f"  {seconds[name]} s; so far {dict(tally.tried)}", flush=True)
    result = {kind: tally.wrong[kind] for kind in WRONG} | tally.measured
    result |= {"tried": dict(tally.tried), "seconds": seconds, "provenance": made_by()}
    print(json.dumps(result, indent=2))
    if len(wanted) == len(PARTS):
        (HERE / "faults.json").write_text(json.dumps(result, indent=2) + "\n")
    return 1 if tally.wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
