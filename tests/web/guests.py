"""Hostile guests of one study, and a voter of another on the same server, all of them let in by links."""

import asyncio
import threading
import time
from collections import Counter
from itertools import cycle

import httpx

import kappasharp as ks
from kappasharp.store import invites
from tests.web.crowd import PATIENCE
from tests.web.doubles import WRITE

TIMES, FLOOR = 3.0, 0.25
KINDS = ("order:4", "slider:4", "choice:4", "pair", "rating")
LOOPS = {"owner": 6, "voter": 3, "viewer": 3}
# It takes half a second and more to find that nothing is left within these limits once `x0` is 0.9 and more.
WIDE = {f"x{k}": (0.0, 1.0) for k in range(6)}
LIMITS = ["x0 + x1*x2 <= 0.5", "x3*x4 + x5 <= 0.8"]


def studies(url, answers=30):
    """Both studies, with answers; the codes of a link for each guest of the first, and one for the second's voter."""
    storage = ks.create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage=url, study_name="quiet").storage
    ks.create_study(WIDE, storage=storage, study_name="loud", limits=LIMITS)
    codes, uids = {}, {}
    for name, roles in (("loud", LOOPS), ("quiet", ("voter",))):
        study = ks.load_study(name, storage=storage)
        for turn in range(answers):
            study.tell(study.ask(), "ab"[turn % 2])
        uids[name] = study.stored.uid
        codes |= {(name, role): invites.make(storage, study.stored, role)[1] for role in roles}
    storage.close()
    return codes, uids


async def come_in(address, code, name):
    """A client of the page, let in by a link."""
    client = httpx.AsyncClient(base_url=address, timeout=PATIENCE)
    (await client.post("/api/join", json={"secret": code, "name": name}, headers=WRITE)).raise_for_status()
    return client


async def answers(client, study, count, pause):
    """The seconds until each answer came back with the next question, and the statuses."""
    at, took, told = f"/api/studies/{study}", [], Counter()
    pair = None
    for turn in range(count):
        pair = pair or (await client.get(f"{at}/pair")).json().get("pair")
        if pair is None:
            told["no question"] += 1
            continue
        await asyncio.sleep(pause)
        data = {"pair": pair["number"], "answer": "ab"[turn % 2], "seconds": pause}
        begun = time.perf_counter()
        answer = await client.post(f"{at}/answer", json=data, headers=WRITE)
        took.append(time.perf_counter() - begun)
        told[answer.status_code] += 1
        pair = answer.json().get("pair")
    return took, told


async def hostile(client, role, study, ended, told):
    """One loop of a guest; what it was told is counted."""
    at, kinds = f"/api/studies/{study}", cycle(KINDS)
    while not ended.is_set():
        told[role, "asked"] += 1
        if role == "owner":
            data = {"name": "x0", "change": "narrow", "low": 0.9}
            answer = await client.post(f"{at}/parameters", json=data, headers=WRITE)
        elif role == "voter":
            answer = await client.get(f"{at}/pair", params={"kind": next(kinds)})
        else:
            answer = await client.get(f"{at}/export/html")
        told[role, answer.status_code] += 1


def guests(address, codes, study, wanted, ended, told):
    """All loops of all guests, in a thread of their own, until the end."""

    async def all_of_them():
        clients = {role: await come_in(address, codes["loud", role], f"loud {role}") for role in wanted}
        loops = [hostile(one, role, study, ended, told) for role, one in clients.items() for _ in range(LOOPS[role])]
        waiting = [asyncio.create_task(one) for one in loops]
        while not ended.is_set():
            await asyncio.sleep(0.05)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for one in clients.values():
            await one.aclose()

    asyncio.run(all_of_them())


async def both(address, codes, uids, *, count, pause, wanted=tuple(LOOPS)):
    """The voter's answers alone and beside the guests, and what these were told."""
    client = await come_in(address, codes["quiet", "voter"], "Anna")
    await answers(client, uids["quiet"], 5, pause)
    alone, first = await answers(client, uids["quiet"], count, pause)
    ended, told = threading.Event(), Counter()
    thread = threading.Thread(target=guests, args=(address, codes, uids["loud"], wanted, ended, told))
    thread.start()
    try:
        await asyncio.sleep(2.0)
        beside, second = await answers(client, uids["quiet"], count, pause)
    finally:
        ended.set()
        await asyncio.to_thread(thread.join)
        await client.aclose()
    return alone, beside, first + second, told
