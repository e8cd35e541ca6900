"""What a real server answers: every address in every role, good requests and bad ones, one after the other."""

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

import kappasharp as ks
from tests.recorded.differences import EXACT_ONLY, masked
from tests.recorded.exports import fill, versions
from tests.recorded.server import KEY, OWNER, STRANGER, VIEWER, VOTER, WRITE, clients, serving, until

HEADERS = (
    "content-type", "cache-control", "content-security-policy", "content-disposition", "content-range", "accept-ranges",
    "x-content-type-options", "referrer-policy", "cross-origin-opener-policy", "cross-origin-resource-policy",
    "permissions-policy", "x-frame-options", "allow", "location", "set-cookie", "retry-after",
)  # fmt: skip
# What changes nothing, or only once: those who may not come first.
UPWARDS = (STRANGER, VIEWER, VOTER, OWNER, KEY)
FUNCTIONS = "tests.recorded.functions"
# Random, or as far as a worker has come by chance.
RANDOM = (
    (re.compile(r'"(id|made)":( ?)"[0-9a-f]{8}"'), r'"\1":\2"ID"'),
    (re.compile(r"\b[0-9a-f]{32}\b"), "UID"),
    (re.compile(r"kappasharp_(seat_)?\w{6,32}=[\w.-]+"), r"kappasharp_\1NAME=SECRET"),
)
# These answer when it is drawn; others tell of cards as far as they are.
ALL_DRAWN = re.compile(r"/card/|/line/|/again ")
WHEN_DRAWN = ("description", "kind", "sentence")
LOOKS = (
    "", "/history", "/notes", "/parameters", "/standing", "/best", "/why", "/model", "/outcomes", "/outcomes/1",
    "/outcomes/9999", "/team", "/team/before", "/card/0", "/card/999", "/card/x", "/line/16?place=0.35",
    "/line/16?place=here", "/line/1?place=0.5", "/picture/nothing", "/frame/nothing", "/export/json", "/export/csv",
    "/export/options", "/export/parquet", "/export/html", "/export/python", "/export/nothing", "/invites", "/nothing",
)  # fmt: skip
# Those that torch is needed for, or cards.
COMPUTED = (
    "/history", "/standing", "/best", "/why", "/model", "/outcomes", "/team", "/team/before", "/card/0",
    "/line/16?place=0.35", "/export/options", "/export/html",
)  # fmt: skip
EVERYWHERE = (
    "/",
    "/join",
    "/api/studies",
    "/api/studies?study=apart",
    "/api/counts",
    "/api/nothing",
    "/static/nothing.js",
)
FIRST = {"kp": 1.0, "ki": 0.4, "n": 2, "mode": "hard", "rate": 100}
CSV = "a.kp,a.ki,a.n,a.mode,b.kp,b.ki,b.n,b.mode,answer\n1,0.5,1,soft,2,0.7,2,hard,a\n"
SPACE = {"x": {"low": 0.0, "high": 1.0}, "mode": ["soft", "hard"]}
# Last word of an address and bodies, of which the first ones are wrong.
CHANGES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("answer", ({}, {"pair": "x", "answer": "a"}, {"pair": 99999, "answer": "a"}, {"pair": 1, "answer": "b"})),
    ("amend", ({"event": 2}, {"event": 9, "answer": 7}, {"event": 9, "answer": 1})),
    ("again", ({"pair": 2}, {"pair": 5})),
    ("challenge", ({"option": 999}, {"params": {"kp": 1}}, {"option": 3})),
    ("note", ({"option": "x"}, {"option": 0, "text": "it hums"}, {"option": 0, "text": ""})),
    ("picture/nothing/again", ({},)),
    ("settle", ({"duels": -1}, {"duels": 2, "question": "slider"}, {"duels": 2})),
    ("settle", ({"duels": 0},)),
    ("parameters", ({"name": "kp"}, {"change": "narrow", "name": "kp", "low": 9.0})),
    ("parameters", ({"change": "lock", "name": "n", "value": 2}, {"change": "widen", "name": "n"},)),
    ("weights", ({}, {"weights": {"nobody": 1}}, {"weights": {"anna": 1.5}}, {"weights": None})),
    ("import", ({"csv": 1}, {"csv": "a.kp,answer\n1,a\n"}, {"csv": CSV})),
    ("rename", ({"name": ""}, {"name": "apart"}, {"name": "everything"})),
    ("delete", ({}, {"name": "another"})),
    ("invites", ({"role": "king"}, {"role": "viewer"})),
    ("invites/revoke", ({"id": "nothing"},)),
    ("invites/remove", ({"id": "nothing"},)),
)  # fmt: skip


class Recorder:
    """Makes requests and keeps what was answered, by role and request; equal headers stand once."""

    def __init__(self, made: Mapping[str, httpx.Client], hidden: tuple[tuple[str, str], ...]) -> None:
        self.clients, self.hidden = made, hidden
        self.answers: dict[str, Any] = {}
        self.headers: dict[str, dict[str, str]] = {}

    def request(self, role: str, method: str, path: str, data: Any = None, **more: Any) -> Any:
        """The body of the answer as it came; what is kept of it has nothing random in it."""
        if data is not None:
            more = {"json": data, "headers": WRITE} | more
        answer = self.clients[role].request(method, path, **more)
        said = "" if data is None else f" {json.dumps(data)}"
        name = self._hide(f"{role} {method} {path}{said}" + "".join(f" {key}" for key in more if data is None))
        count = sum(one.partition(" #")[0] == name for one in self.answers)
        self.answers[name if not count else f"{name} #{count + 1}"] = self._kept(name, answer)
        return answer.json() if answer.headers.get("content-type") == "application/json" else answer.text

    def look(self, role: str, path: str) -> Any:
        """The answer to a GET."""
        return self.request(role, "GET", path)

    def _kept(self, name: str, answer: httpx.Response) -> dict[str, Any]:
        headers = {key: self._hide(answer.headers[key]) for key in HEADERS if key in answer.headers}
        headers_name = hashlib.sha256(json.dumps(headers).encode()).hexdigest()[:8]
        self.headers[headers_name] = headers
        kept = {"status": answer.status_code, "headers": headers_name}
        body = self._body(name, answer)
        # Most views are the same to all who may see them.
        same = re.sub(r"^\w+", KEY, name)
        if same != name and self.answers.get(same, {}).get("body") == body:
            return kept | {"body as for": KEY}
        return kept | {"body": body}

    def _body(self, name: str, answer: httpx.Response) -> Any:
        if answer.headers.get("content-type") == "application/json":
            data = json.loads(self._hide(answer.text))
            return data if ALL_DRAWN.search(name) else settled(data)
        if "/export/" in name and answer.status_code == 200:
            text = self._hide(answer.text).encode() if "parquet" not in name else answer.content
            return {EXACT_ONLY: hashlib.sha256(text).hexdigest()}
        text = self._hide(answer.text)
        return text if len(text) < 300 else {"begins": text[:60], EXACT_ONLY: hashlib.sha256(text.encode()).hexdigest()}

    def _hide(self, text: str) -> str:
        text = masked(text, *self.hidden)
        for pattern, place in RANDOM:
            text = pattern.sub(place, text)
        return text


def settled(data: Any) -> Any:
    """An answer without what hangs on how far the workers are: whether a card of a question is drawn already."""
    if isinstance(data, list):
        return [settled(one) for one in data]
    if not isinstance(data, dict):
        return data
    if data.keys() >= {"key", *WHEN_DRAWN}:
        return {"key": data["key"]}
    return {name: settled(value) for name, value in data.items()}


def record(*, briefly: bool = False) -> dict[str, Any]:
    """Every answer of a server over the newest stored database, and the headers that they came with.

    Args:
        briefly: only the page's files and what is quickly read, up to the first request that changes anything.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = fill(folder / "stored.db", versions()[-1])
        studies = {one.name: one.uid for one in ks.list_studies(storage=url)}
        words = ("everything", "--render", f"{FUNCTIONS}:render")
        with serving(folder, url, *words) as (address, key):
            with clients(address, key, studies["everything"]) as made:
                hidden = ((key, "KEY"), (url, "URL"), (str(folder), "FOLDER"))
                found = Recorder(made, hidden)
                if not briefly:
                    _warm(found, studies["everything"])
                _run(found, studies, briefly=briefly)
    return {"headers": found.headers, "answers": found.answers}


def _warm(found: Recorder, study: str) -> None:
    """Wait for the workers: a server that has just begun computes a first view as long as they start."""
    until(lambda: found.clients[KEY].get(f"/api/studies/{study}/standing").status_code == 200)


def _run(found: Recorder, studies: dict[str, str], *, briefly: bool) -> None:
    study = f"/api/studies/{studies['everything']}"
    _files(found)
    looks = [rest for rest in LOOKS if not (briefly and rest in COMPUTED)]
    for path in (*EVERYWHERE, *(f"{study}{rest}" for rest in looks)):
        _looked_at(found, path)
    _refused(found, study)
    if briefly:
        return
    _news(found, study)
    _pictures(found, study)
    for role in UPWARDS:
        _answered(found, role, study)
    for word, role, bodies in ((word, role, bodies) for word, bodies in CHANGES for role in UPWARDS):
        for body in bodies:
            # Who has the key has no name of their own.
            who = {"voter": KEY} if role == KEY and body else {}
            found.request(role, "POST", f"{study}/{word}", body | who)
    for rest in ("", "/history", "/standing", "/parameters", "/team", "/invites"):
        found.look(KEY, f"{study}{rest}")
    _of_the_server(found)
    _links(found, study)
    _ends(found, studies)


def _looked_at(found: Recorder, path: str) -> None:
    """By who has the key first: most answers are the same to all others who may see them."""
    for role in (KEY, OWNER, VOTER, VIEWER, STRANGER):
        found.look(role, path)


def _files(found: Recorder) -> None:
    """The page, and every file that it or one of its files names."""
    waiting, seen = re.findall(r"/static/([\w.]+)", found.look(KEY, "/")), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name not in seen:
            seen.add(name)
            text = found.look(KEY, f"/static/{name}")
            waiting += sorted(set(re.findall(r"""["'](?:\./|/static/)([\w.]+\.(?:js|css|svg))["']""", text)))
    for role in (STRANGER, VIEWER):
        found.look(role, "/static/app.js")


def _refused(found: Recorder, study: str) -> None:
    """Requests that the guard lets nobody make, and some that no address takes."""
    path, data = f"{study}/note", {"option": 0, "text": "x"}
    for role in UPWARDS:
        found.request(role, "POST", path, data, headers={})
        found.request(role, "POST", path, data, headers=WRITE | {"origin": "https://elsewhere.example"})
        found.request(role, "POST", path, data, headers=WRITE | {"sec-fetch-site": "cross-site"})
        found.request(role, "POST", path, headers=WRITE | {"content-type": "application/json"}, content=b"{no JSON")
        found.request(role, "POST", path, [1, 2])
        found.request(role, "DELETE", study)
        found.request(role, "POST", f"{study}/standing", {})
        found.request(role, "GET", "/", headers={"host": "elsewhere.example"})
        found.look(role, "/api/studies/nothing/best")


def _news(found: Recorder, study: str) -> None:
    """How the stream of news begins."""
    uid = study.rpartition("/")[2]
    for role in UPWARDS:
        with found.clients[role].stream("GET", "/api/news", params={"study": uid}) as answer:
            begins = next(answer.iter_raw(), b"") if answer.status_code == 200 else answer.read()
            text = found._hide(begins.decode())[:60]
            headers = {key: answer.headers[key] for key in HEADERS if key in answer.headers}
            found.answers[f"{role} GET /api/news"] = {"status": answer.status_code, "headers": headers, "begins": text}


def _pictures(found: Recorder, study: str) -> None:
    """A picture and a page of one's own, as their cards name them."""
    for option in (0, 3):
        key = found.look(KEY, f"{study}/card/{option}")["key"]
        for path in (f"{study}/picture/{key}", f"{study}/frame/{key}"):
            _looked_at(found, path)


def _answered(found: Recorder, role: str, study: str) -> None:
    """A question, its picture, an answer, the next question; every kind for who may be asked all."""
    who = {} if role in (VOTER, OWNER) else {"voter": role}
    query = "".join(f"?voter={name}" for name in who.values())
    asked = found.look(role, f"{study}/pair{query}")
    pair = asked.get("pair") if isinstance(asked, dict) else None
    if pair is None:
        found.look(role, f"{study}/ahead{query}")
        found.request(role, "POST", f"{study}/undo", who)
        return
    picture = pair["designs"][0]["card"]["key"]
    found.look(role, f"{study}/outcomes/{pair['number']}")
    found.request(role, "GET", f"{study}/picture/{picture}", headers={"range": "bytes=0-9"})
    found.request(role, "GET", f"{study}/picture/{picture}", headers={"range": "bytes=99999-"})
    found.request(role, "POST", f"{study}/picture/{picture}/again", {})
    found.request(role, "POST", f"{study}/answer", {"pair": pair["number"], "answer": "z"} | who)
    found.request(role, "POST", f"{study}/answer", {"pair": pair["number"], "answer": "a", "seconds": -1} | who)
    given = {"pair": pair["number"], "answer": _first(pair), "seconds": 1.5} | who
    found.request(role, "POST", f"{study}/answer", given)
    found.request(role, "POST", f"{study}/answer", given)
    found.request(role, "POST", f"{study}/undo", who)
    # Which pictures are drawn ahead hangs on what was looked ahead for: that it is answered is all.
    ahead = found.clients[role].get(f"{study}/ahead{query}")
    found.answers[f"{role} GET ahead"] = {"status": ahead.status_code, "has": sorted(ahead.json())}
    found.look(role, f"{study}/pair?voter=anna")
    for kind in ("order:3", "slider", "rating", "nothing") if role == KEY else ("choice:3",):
        found.look(role, f"{study}/pair?kind={kind}" + (f"&voter={KEY}" if role == KEY else ""))


def _first(pair: dict[str, Any]) -> Any:
    return {"choice": 0, "order": [0], "slider": 0.5, "rating": 1}.get(pair["kind"], "a")


def _of_the_server(found: Recorder) -> None:
    """Studies are made and rehearsed by who has the key."""
    bodies: tuple[Any, ...] = (
        {}, {"name": "new", "parameters": {"x": {"low": 1.0, "high": 0.0}}},
        {"name": "everything", "parameters": SPACE},
        {"name": "new", "parameters": SPACE, "question": "choice", "tell_apart": True}, {"toml": "x = "},
        {"toml": 'name = "typed"\nlimits = ["x <= 0.9"]\n[parameters]\nx = {low = 0, high = 1}\n'},
        {"name": "run", "parameters": SPACE, "renderer": "os:remove"},
        {"name": "run", "parameters": SPACE, "outcomes": {"function": "os:remove"}},
        {"name": "drawn", "parameters": SPACE, "renderer": f"{FUNCTIONS}:render"},
    )  # fmt: skip
    for role in UPWARDS:
        for body in bodies if role == KEY else bodies[3:4]:
            found.request(role, "POST", "/api/studies", body)
        rehearsal = {"parameters": {"x": {"low": 0.0, "high": 1.0}}, "questions": 3}
        for body in ({**rehearsal, "person": "nobody"}, {**rehearsal, "questions": "x"}, rehearsal):
            found.request(role, "POST", "/api/rehearsal", body)
    found.look(KEY, "/api/counts")


def _links(found: Recorder, study: str) -> None:
    """Coming in by a link, and being shut out again."""
    made = found.request(KEY, "POST", f"{study}/invites", {"role": "voter"})
    code = made["link"].partition("#")[2]
    found.hidden += ((code, "CODE"),)
    for body in ({}, {"secret": "nothing"}, {"secret": code}):
        for role in UPWARDS:
            found.request(role, "POST", "/api/invited", body)
    for role in UPWARDS:
        found.request(role, "POST", "/api/join", {"secret": "nothing", "name": "x"})
    for body in ({"secret": code, "name": ""}, {"secret": code, "name": "vera"}):
        found.request(STRANGER, "POST", "/api/join", {**body})
    found.request(STRANGER, "POST", "/api/join", {"secret": code, "name": "rita"})
    found.look(STRANGER, "/api/studies")
    seats = found.look(OWNER, f"{study}/invites")["invites"]
    person = next(one for invite in seats for one in invite["people"] if one["name"] == "rita")
    found.request(OWNER, "POST", f"{study}/invites/remove", {"id": person["id"]})
    found.look(STRANGER, f"{study}/standing")
    found.request(OWNER, "POST", f"{study}/invites/revoke", {"id": made["made"]})
    found.request(STRANGER, "POST", "/api/join", {"secret": code, "name": "rita"})


def _ends(found: Recorder, studies: dict[str, str]) -> None:
    """Another name, and the end of two studies."""
    for name in ("apart", "everything"):
        study = f"/api/studies/{studies[name]}"
        found.request(KEY, "POST", f"{study}/rename", {"name": f"{name} still"})
        found.request(KEY, "POST", f"{study}/delete", {"name": name})
        found.request(KEY, "POST", f"{study}/delete", {"name": f"{name} still"})
        for role in UPWARDS:
            found.look(role, study)
            found.look(role, "/api/studies")
