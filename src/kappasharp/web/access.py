"""Who may do what on the page, by one table of its addresses; inviting to a study from it, and coming in by a link.

Every address goes through `guarded`, and one that is not in the table is not served. Whoever has the server's own key
may do all of it; who came by a link, in the one study that the link leads to, what its role allows.

A link is the address of the page with its secret after a `#`: browsers keep that to themselves, so that it is in no log
and no referrer. The page sends it once, in the body of a request, and gets a cookie for it.
"""

import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import segno
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kappasharp.errors import NotAllowedError, StorageError, UnknownNameError
from kappasharp.journal.history import History
from kappasharp.messages.message import said
from kappasharp.settings import DEFAULT_VOTER
from kappasharp.store import invites
from kappasharp.store.invites import ROLES, OpenedInvite, Seat
from kappasharp.store.storage import Record, Storage
from kappasharp.study.snapshot import Plain
from kappasharp.web import guard
from kappasharp.web.budgets import Budgets, Dear
from kappasharp.web.guard import Visitor
from kappasharp.web.open_study import Session, off_loop

LOG = logging.getLogger("kappasharp")
# Beside the roles: those who are let in nowhere yet, those who are somewhere, and who has the server's own key.
ANYBODY, GUEST, KEY = "anybody", "guest", "key"
VIEWER, VOTER, OWNER = ROLES
ONE = "/api/studies/{study}"
RIGHTS: Mapping[str, str] = {
    "GET /": GUEST,
    "GET /static/{name}": ANYBODY,
    "GET /join": ANYBODY,
    "POST /api/invited": ANYBODY,
    "POST /api/join": ANYBODY,
    # Of a study that they are let into; until they are not.
    "GET /api/news": GUEST,
    "GET /api/studies": GUEST,
    "GET /api/counts": KEY,
    "POST /api/studies": KEY,
    "POST /api/rehearsal": KEY,
    **{
        f"GET {ONE}{rest}": VIEWER
        for rest in (
            "", "/standing", "/best", "/why", "/model", "/outcomes", "/outcomes/{number:int}", "/history", "/notes",
            "/card/{option:int}", "/line/{number:int}", "/picture/{key}", "/frame/{key}", "/export/{kind}",
            "/parameters", "/team", "/team/before",
        )
    },
    # A question is put before somebody: who only looks is asked nothing.
    f"GET {ONE}/pair": VOTER,
    f"GET {ONE}/ahead": VOTER,
    **{
        f"POST {ONE}{rest}": VOTER
        for rest in ("/answer", "/undo", "/amend", "/again", "/challenge", "/note", "/picture/{key}/again")
    },
    **{
        f"POST {ONE}{rest}": OWNER
        for rest in ("/settle", "/parameters", "/weights", "/import", "/rename", "/delete")
    },
    f"GET {ONE}/invites": OWNER,
    **{f"POST {ONE}/invites{rest}": OWNER for rest in ("", "/revoke", "/remove")},
}  # fmt: skip
# What is dear wherever it is asked for; a report and another kind of question are looked at where they are.
DEAR: Mapping[str, Dear] = {
    f"POST {ONE}/parameters": Dear.CHANGE, f"POST {ONE}/import": Dear.IMPORT, f"POST {ONE}/rename": Dear.RENAME,
    f"GET {ONE}/team": Dear.AGREEMENT,
}  # fmt: skip
PUBLIC = tuple(one.split()[1].partition("{")[0] for one, right in RIGHTS.items() if right == ANYBODY)
NOT_ALLOWED = {
    VOTER: said(
        "refused.voter",
        "You were invited to look on: answering takes another link, which the owner of the study can give you.",
    ),
    OWNER: said("refused.owner", "Only an owner of the study may do that; you were invited with another role."),
    KEY: said("refused.key", "Only whoever started the server may do that, not those who were invited to a study."),
}
# A cookie for each study that somebody was let into; and how many of them are looked at.
COOKIE, MOST_COOKIES = "kappasharp_seat_", 40
COOKIE_SECONDS = 180 * 86400
# Seconds until a link that was revoked elsewhere is known to be so here.
FRESH = 1.0

Endpoint = Callable[[Request], Awaitable[Response]]
JOIN = "/join"


def is_public(path: str) -> bool:
    """Whether an address is for those too who are let in nowhere."""
    return any(path == one or (one.endswith("/") and path.startswith(one)) for one in PUBLIC)


def guarded(routes: Sequence[Route]) -> list[Route]:
    """The same addresses, each for those alone whom the table allows."""
    found = []
    for one in routes:
        method = "POST" if "POST" in (one.methods or ()) else "GET"
        name = f"{method} {one.path}"
        if name not in RIGHTS:
            raise NotAllowedError(f"`RIGHTS` in access.py must say who may use every address, but not {name!r}.")
        found.append(Route(one.path, _checked(one.endpoint, name), methods=[method]))
    return found


def _checked(endpoint: Endpoint, name: str) -> Endpoint:
    right = RIGHTS[name]

    async def checked(request: Request) -> Response:
        refusal = await _refusal(request, right)
        if refusal is not None:
            return refusal
        if (dear := DEAR.get(name)) is not None:
            spend(request, dear)
        response = await endpoint(request)
        if request.method == "POST" and right in (ANYBODY, OWNER):
            # Somebody may have come, gone or been shut out by it.
            request.app.state.visitors.forget()
        return response

    return checked


async def _refusal(request: Request, right: str) -> Response | None:
    """An answer to who is no longer let in, an error for what is not allowed, None where all is well."""
    who = visitor(request)
    if right in (ANYBODY, GUEST) or who.has_key:
        return None
    if right == KEY:
        raise NotAllowedError(NOT_ALLOWED[KEY])
    uid = request.path_params["study"]
    role = who.role(uid)
    if role is None:
        return not_let_in(who, uid)
    if ROLES.index(role) < ROLES.index(right):
        raise NotAllowedError(NOT_ALLOWED[right])
    if role == VOTER:
        await _check_own(request, who.seats[uid])
    return None


def not_let_in(who: Visitor, study: str) -> Response | None:
    """The answer to somebody whom a study is none of the business of, or no longer; None where it is."""
    if who.role(study) is not None:
        return None
    if study in who.ended:
        return guard.shut_out(who.ended[study])
    raise UnknownNameError("There is no such study here.")


async def _check_own(request: Request, seat: Seat) -> None:
    """A voter names nobody else: not as who they are, and no answer or question of another to change."""
    given: Mapping[str, Any] = request.query_params
    if request.method == "POST":
        given = guard.json_object(await request.body())
    if given.get("voter") not in (None, DEFAULT_VOTER, seat.name):
        raise NotAllowedError(f"You were let in as {seat.name!r}, and answer under that name alone.")
    numbers = [given.get("event"), given.get("pair")] if request.method == "POST" else []
    if all(isinstance(one, bool) or not isinstance(one, int) for one in numbers):
        return
    session: Session = await request.app.state.service.open(seat.study)
    whose = await session.read(lambda history: [_voter_of(history, one) for one in numbers])
    if any(one not in (None, seat.name) for one in whose) and not request.url.path.endswith("/answer"):
        raise NotAllowedError("That is another voter's answer: only they and an owner of the study may change it.")


def _voter_of(history: History, number: Any) -> str | None:
    """Whose answer or question a number is; None where it is neither, which is told elsewhere."""
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    answer = history.comparisons.get(number) or history.removed.get(number)
    if answer is not None:
        return answer.voter
    return history.asked[number][0].voter if number in history.asked else None


def visitor(request: Request) -> Visitor:
    """Who makes a request."""
    found: Visitor = request.scope["visitor"]
    return found


async def is_still_in(request: Request, study: str | None) -> bool:
    """Whether somebody whose request lasts is still let into a study; without one, anywhere."""
    if visitor(request).has_key:
        return True
    try:
        now: Visitor = await request.app.state.visitors.recognize(request.cookies)
    except StorageError as error:
        # Nobody can tell now, and there is no news either: who was let in waits until the database answers again.
        LOG.info("%s", error)
        return True
    return bool(now.seats) if study is None else now.role(study) is not None


def identity(request: Request) -> str | None:
    """Who somebody is in a study, the same as long as they are let in; None for who has the key, and may do all."""
    seat = visitor(request).seats.get(request.path_params["study"])
    return None if seat is None else seat.id


def spend(request: Request, what: Dear) -> None:
    """Count something dear that somebody does, or a sentence where that is too often."""
    budgets: Budgets = request.app.state.budgets
    budgets.spend(what, request.path_params["study"], identity(request))


def voter(request: Request, given: Any) -> Any:
    """Under which name somebody acts: who came by a link under the name that they chose, unless they own the study."""
    seat = visitor(request).seats.get(request.path_params["study"])
    if seat is None:
        return given
    return seat.name if seat.role != OWNER or given in (None, DEFAULT_VOTER) else given


def standing(request: Request, study: str) -> Plain:
    """What the page must know of who looks at a study: role, name, and whether all else is theirs too."""
    who = visitor(request)
    seat = who.seats.get(study)
    return {"role": who.role(study), "voter": None if seat is None else seat.name, "has_key": who.has_key}


class Visitors:
    """Who is known by which cookies. Each is looked up once a second: a link revoked elsewhere ends here too."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._known: dict[tuple[str, str], tuple[float, Seat | str]] = {}

    async def recognize(self, cookies: Mapping[str, str]) -> Visitor:
        """Whose cookies these are."""
        held = {name.removeprefix(COOKIE): value for name, value in cookies.items() if name.startswith(COOKIE)}
        pairs = list(held.items())[:MOST_COOKIES]
        if not pairs:
            return Visitor(False)
        now = time.monotonic()
        self._known = {pair: known for pair, known in self._known.items() if now - known[0] < FRESH}
        known = {pair: self._known[pair][1] for pair in pairs if pair in self._known}
        wanted = [pair for pair in pairs if pair not in known]
        if wanted:
            try:
                found = await off_loop(self._look_up, wanted)
            except StorageError as error:
                raise type(error)(self.storage.hidden(error.sentence)) from error
            self._known |= {pair: (now, one) for pair, one in found.items()}
            known |= found
        seats = {pair[0]: one for pair, one in known.items() if isinstance(one, Seat)}
        return Visitor(False, seats, {pair[0]: one for pair, one in known.items() if isinstance(one, str)})

    def _look_up(self, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], Seat | str]:
        live = invites.seats(self.storage, [secret for _, secret in pairs])
        found: dict[tuple[str, str], Seat | str] = {
            (uid, secret): live[secret] for uid, secret in pairs if secret in live and live[secret].study == uid
        }
        if len(found) < len(pairs):
            there = {record.uid for record in self.storage.studies()}
            for uid, secret in pairs:
                if uid not in there:
                    self.storage.check_deleted(uid)
                found.setdefault((uid, secret), "revoked" if uid in there else "deleted")
        return found

    def forget(self) -> None:
        """Look everybody up anew: something was changed here."""
        self._known = {}


class Reach(NamedTuple):
    """Where others find the page: its address, None for the one that a request came to; who can get there, and how."""

    address: str | None
    to_others: bool
    encrypted: bool


# On this machine alone.
HERE = Reach(None, to_others=False, encrypted=False)


def link(address: str, code: str) -> str:
    """The link with that secret part, to the page at an address."""
    return f"{address.rstrip('/')}{JOIN}#{code}"


def picture(found: str) -> str:
    """A link as a QR code: the address of an SVG that needs nothing else."""
    return str(segno.make_qr(found, error="m").svg_data_uri(border=4, light="#fff", omitsize=True))


def own_address() -> str:
    """This machine's address in its network, as far as it knows; nothing is sent to find it."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            # A test network that leads nowhere: the machine only chooses the way that it would take.
            one.connect(("192.0.2.1", 9))
            return str(one.getsockname()[0])
    except OSError:
        return socket.gethostname()


def routes_of_invites(
    address: str,
    session_of: Callable[[Request], Awaitable[Session]],
    body: Callable[[Request], Awaitable[dict[str, Any]]],
    said: Callable[[Plain], Response],
) -> list[Route]:
    """The addresses of all of it; the arguments are how the server reads requests and answers them."""

    async def listing(request: Request) -> Response:
        return said(await _listed(request, (await session_of(request)).study.stored))

    async def make(request: Request) -> Response:
        record, data = (await session_of(request)).study.stored, await body(request)
        made, code = await off_loop(invites.make, _storage(request), record, str(data.get("role")))
        found = link(_reach(request).address or "", code)
        return said({"made": made.id, "link": found, "picture": picture(found)} | await _listed(request, record))

    def ending(end: Callable[[Storage, Record, str], None]) -> Callable[[Request], Awaitable[Response]]:
        async def take_back(request: Request) -> Response:
            record, data = (await session_of(request)).study.stored, await body(request)
            await off_loop(end, _storage(request), record, str(data.get("id")))
            return said(await _listed(request, record))

        return take_back

    async def invited(request: Request) -> Response:
        given = (await body(request)).get("secret")
        if guard.is_token(given, request.app.state.token):
            return said({"study": None, "role": "owner", "already": None})
        return said(_where(request, await off_loop(_opened, request, given)))

    async def join(request: Request) -> Response:
        data = await body(request)
        answer, cookie = await _joined(request, data.get("secret"), data.get("name"))
        response = said(answer)
        response.headers.append("set-cookie", cookie)
        return response

    return [
        Route("/api/invited", invited, methods=["POST"]),
        Route("/api/join", join, methods=["POST"]),
        Route(f"{address}/invites", listing),
        Route(f"{address}/invites", make, methods=["POST"]),
        Route(f"{address}/invites/revoke", ending(invites.revoke), methods=["POST"]),
        Route(f"{address}/invites/remove", ending(invites.remove), methods=["POST"]),
    ]


async def _listed(request: Request, record: Record) -> Plain:
    """A study's links, without their secrets, and who gets to the page by them."""
    reach, seat = _reach(request), visitor(request).seats.get(record.uid)
    mine = None if seat is None else seat.invite
    found = await off_loop(invites.listed, _storage(request), record)
    rows = [
        one._asdict() | {"own": one.id == mine, "people": [person._asdict() for person in one.people]} for one in found
    ]
    return {"invites": rows, "reach": reach._asdict()}


def _opened(request: Request, code: Any) -> OpenedInvite:
    """Where a link leads, for who is there already or not."""
    return invites.opened(_storage(request), code, _held(request, code))


def _held(request: Request, code: Any) -> str | None:
    """The secret that somebody got in the study of a link before."""
    return request.cookies.get(f"{COOKIE}{invites.identity(code)}")


def _where(request: Request, found: OpenedInvite) -> Plain:
    """What the page tells somebody before they come in."""
    already = None if found.already is None else {"role": found.already.role, "name": found.already.name}
    if visitor(request).has_key:
        already = {"role": "owner", "name": None}
    return {"study": found.record.name, "role": found.role, "already": already}


async def _joined(request: Request, code: Any, name: Any) -> tuple[Plain, str]:
    """What somebody is from now on, and the cookie by which they are known."""
    token, scheme = request.app.state.token, request.url.scheme
    if guard.is_token(code, token):
        return {"study": None, "role": "owner"}, guard.key_cookie(token, scheme)
    study = (await off_loop(_opened, request, code)).record.name
    seat, secret = await off_loop(invites.join, _storage(request), code, name, _held(request, code))
    cookie = guard.cookie(f"{COOKIE}{seat.study}", secret, scheme, COOKIE_SECONDS)
    return {"study": study, "role": seat.role}, cookie


def _storage(request: Request) -> Storage:
    storage: Storage = request.app.state.service.storage
    return storage


def _reach(request: Request) -> Reach:
    """Where others find the page: where this request found it, unless the command line said otherwise."""
    reach: Reach = request.app.state.reach
    return reach if reach.address is not None else reach._replace(address=str(request.base_url))
