"""Inviting to a study from the page, and coming in by a link.

A link is the address of the page with its secret after a `#`: browsers keep that to themselves, so that it is in no log
and no referrer. The page sends it once, in the body of a request, and gets a cookie for it.
"""

import socket
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import segno
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kappasharp.app.web import access, guard
from kappasharp.app.web.computing import Plain
from kappasharp.app.web.session import Session, off_loop
from kappasharp.study import invites
from kappasharp.study.invites import OpenedInvite
from kappasharp.study.storage import Record, Storage

JOIN = "/join"


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


def routes(
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
    reach, seat = _reach(request), access.visitor(request).seats.get(record.uid)
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
    return request.cookies.get(f"{access.COOKIE}{invites.identity(code)}")


def _where(request: Request, found: OpenedInvite) -> Plain:
    """What the page tells somebody before they come in."""
    already = None if found.already is None else {"role": found.already.role, "name": found.already.name}
    if access.visitor(request).has_key:
        already = {"role": "owner", "name": None}
    return {"study": found.record.name, "role": found.role, "already": already}


async def _joined(request: Request, code: Any, name: Any) -> tuple[Plain, str]:
    """What somebody is from now on, and the cookie by which they are known."""
    token, scheme = request.app.state.token, request.url.scheme
    if guard.is_token(code, token):
        return {"study": None, "role": "owner"}, guard.key_cookie(token, scheme)
    study = (await off_loop(_opened, request, code)).record.name
    seat, secret = await off_loop(invites.join, _storage(request), code, name, _held(request, code))
    cookie = guard.cookie(f"{access.COOKIE}{seat.study}", secret, scheme, access.COOKIE_SECONDS)
    return {"study": study, "role": seat.role}, cookie


def _storage(request: Request) -> Storage:
    storage: Storage = request.app.state.service.storage
    return storage


def _reach(request: Request) -> Reach:
    """Where others find the page: where this request found it, unless the command line said otherwise."""
    reach: Reach = request.app.state.reach
    return reach if reach.address is not None else reach._replace(address=str(request.base_url))
