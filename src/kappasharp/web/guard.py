"""Who may talk to the page, and how: a key, the right host, writes from our own page, small bodies, strict headers.

It comes before everything else. What it refuses, the study never hears of.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kappasharp.errors import InvalidTypeError, InvalidValueError, StorageError
from kappasharp.files import replacing
from kappasharp.messages.message import Sentence, taken_apart
from kappasharp.store.invites import Seat

# How large a body may be, one that brings a file, and how many seconds it may take to arrive.
MOST_BODY, MOST_FILE, BODY_SECONDS = 64 * 1024, 4 * 1024 * 1024, 10.0
# What a JavaScript number holds exactly, and how many digits that takes.
LARGEST, DIGITS = 2**53, 17
# A week: nobody looks at a pair for longer.
LONGEST = 7 * 86400.0
# How long a key is kept, in seconds: as long as the cookie that holds it.
TOKEN_BYTES, MOST_AGE = 24, 30 * 86400
# Browsers send a custom header to their own origin only, unless the server allows more; this one allows nothing.
WRITE_HEADER = "x-kappasharp"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
PAGE = "/"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A user's HTML: its own inline script and style, data in itself, nothing from anywhere, and an origin that is nobody's.
FRAME_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; font-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
# A notebook of this machine may show the page in a frame, where it was asked to; nobody else may ever.
NOTEBOOKS = "frame-ancestors http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:*"
PICTURE_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
SIGN_IN = (
    "This page needs the link that `kappasharp serve` printed, or one that you were invited by: it carries the key. "
    "If the server was started again, its own key may be new; open the new link."
)
# Why somebody who was let in no longer is.
ENDED = {
    "revoked": "You are no longer let in here: the owner took back the link that you came by. Your answers are kept.",
    "deleted": "The study that you were invited to is not here any more: it was deleted.",
}


class Visitor(NamedTuple):
    """Who makes a request: by the key whoever started the server, else by cookies of the studies they were let into."""

    has_key: bool
    seats: Mapping[str, Seat] = {}
    # Studies that they are no longer let into, and why.
    ended: Mapping[str, str] = {}

    def role(self, study: str) -> str | None:
        """What they may do in a study; None where it is none of their business."""
        if self.has_key:
            return "owner"
        return self.seats[study].role if study in self.seats else None


class Recognition(NamedTuple):
    """Whose cookies these are, and which addresses are for those too who have none."""

    recognize: Callable[[Mapping[str, str]], Awaitable[Visitor]]
    is_public: Callable[[str], bool]


def shut_out(why: str) -> Response:
    """The answer to somebody who was let in once."""
    return JSONResponse({"error": ENDED[why], "why": why}, 401)


def unavailable(error: StorageError) -> Response:
    """The answer where nobody knows who is let in, because the database does not say."""
    told = {"said": taken_apart(error.sentence)} if isinstance(error.sentence, Sentence) else {}
    return JSONResponse({"error": str(error)} | told, 503)


def cookie(name: str, value: str, scheme: str, seconds: int) -> str:
    """A cookie that scripts cannot read and other sites cannot use; over HTTPS it goes nowhere unencrypted."""
    secure = "; Secure" if scheme == "https" else ""
    return f"{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}"


def key_cookie(token: str, scheme: str) -> str:
    """The cookie that holds the server's own key."""
    return cookie(_key_name(token), token, scheme, MOST_AGE)


def _key_name(token: str) -> str:
    return f"kappasharp_{token[:6]}"


def new_token() -> str:
    """A key that nobody guesses."""
    return os.urandom(TOKEN_BYTES).hex()


def state_path(kind: str, database: str) -> Path:
    """The file in which something of the page over a database is kept for its user."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "kappasharp" / f"{kind}-{hashlib.sha256(database.encode()).hexdigest()[:16]}"


def kept_token(database: str, *, renewed: bool = False) -> str:
    """The key of the page over this database, kept in a file that its user alone can read.

    A page that is open finds back when the server is started again. After a month, or `renewed`, there is a new one.
    """
    path = state_path("key", database)
    token = None if renewed else _read_token(path)
    if token is not None:
        return token
    token = new_token()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(token)
    return token


def _read_token(path: Path) -> str | None:
    """The key in that file; None where there is none, others could read it, or it is old."""
    try:
        about, token = path.stat(), path.read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    right = len(token) == 2 * TOKEN_BYTES and set(token) <= set("0123456789abcdef")
    private = os.name != "posix" or (about.st_mode & 0o077 == 0 and about.st_uid == os.getuid())
    return token if right and private and time.time() - about.st_mtime < MOST_AGE else None


def json_object(content: bytes) -> dict[str, Any]:
    """The JSON object that a request brings."""
    try:
        data = json.loads(content, parse_int=_whole, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError("The request must be JSON.") from error
    if not isinstance(data, dict):
        raise InvalidTypeError("The request must be a JSON object.")
    return data


def _whole(digits: str) -> int:
    if len(digits) > DIGITS or abs(int(digits)) > LARGEST:
        raise ValueError("too large")
    return int(digits)


def _no_number(word: str) -> float:
    raise ValueError(word)


def number_in(data: dict[str, Any], name: str) -> int:
    """A whole number of a request."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTypeError(f"`{name}` must be a whole number, but got {value!r}.")
    return value


def seconds_in(data: dict[str, Any]) -> float | None:
    """How long somebody looked, where the page measured it."""
    value = data.get("seconds")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(f"`seconds` must be a number, but got {value!r}.")
    number = float(value)
    if not 0.0 <= number <= LONGEST:
        raise InvalidValueError(f"`seconds` must be from 0 to {LONGEST:.0f}, but got {value!r}.")
    return number


def allowed_hosts(host: str) -> tuple[str, ...] | None:
    """The names that a request may address; None where the server listens everywhere: any address, no foreign name."""
    return None if host in EVERYWHERE else (*LOOPBACK, host.lower())


class Guard:
    """ASGI middleware that lets through what is right, and answers the rest itself."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: Iterable[str] | None,
        names: Iterable[str] = (),
        framed: bool = False,
        known: Recognition,
    ) -> None:
        self.app, self.token, self.known = app, token, known
        self.hosts = None if hosts is None else frozenset(hosts)
        self.names = frozenset(name.lower() for name in (*LOOPBACK, *names))
        self.policy = POLICY.replace("frame-ancestors 'none'", NOTEBOOKS) if framed else POLICY

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with a bounded body and strict headers."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        fresh = self._has_token_in_link(scope)
        outgoing = self._with_headers(send, key_cookie(self.token, scope["scheme"]) if fresh else None)
        refusal = self._wrong_address(scope, headers)
        if refusal is None:
            refusal = await self._not_let_in(scope, headers, fresh=fresh)
        body: bytes | None = b""
        most = MOST_FILE if scope["path"].endswith("/import") else MOST_BODY
        if refusal is None and scope["method"] == "POST":
            try:
                body = await asyncio.wait_for(_read(headers, receive, most), BODY_SECONDS)
            except TimeoutError:
                refusal = _last_word(f"A request must arrive within {BODY_SECONDS:g} seconds.", 408)
        if body is None:
            refusal = _last_word(f"A request must not be larger than {most // 1024} kB.", 413)
        if refusal is not None:
            await refusal(scope, receive, outgoing)
            return
        await self.app(scope, _replay(body or b"", receive), outgoing)

    def _wrong_address(self, scope: Scope, headers: Headers) -> Response | None:
        if not self._right_host(headers.get("host", "")):
            return PlainTextResponse("This server does not answer to that host name.", 400)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET and POST.", 405)
        return None

    async def _not_let_in(self, scope: Scope, headers: Headers, *, fresh: bool) -> Response | None:
        try:
            scope["visitor"] = Visitor(True) if fresh else await self._visitor(headers)
        except StorageError as error:
            # Who is let in stands in the database. The page is the same for everybody, and says what is wrong.
            scope["visitor"] = Visitor(False)
            if scope["path"] == PAGE:
                return None
            if not self.known.is_public(scope["path"]):
                return unavailable(error)
        return self._refusal(scope, headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        visitor: Visitor = scope["visitor"]
        if not (visitor.has_key or visitor.seats or self.known.is_public(scope["path"])):
            why = next(iter(visitor.ended.values()), None)
            if why is None or not scope["path"].startswith("/api/"):
                return PlainTextResponse(SIGN_IN if why is None else ENDED[why], 401)
            return shut_out(why)
        if scope["method"] == "POST" and not _from_our_page(headers, scope["scheme"]):
            return PlainTextResponse("Only this page itself may change a study.", 403)
        return None

    async def _visitor(self, headers: Headers) -> Visitor:
        jar = SimpleCookie()
        try:
            jar.load(headers.get("cookie", ""))
        except CookieError:
            return Visitor(False)
        cookies = {name: one.value for name, one in jar.items()}
        if _same(cookies.get(_key_name(self.token), ""), self.token):
            return Visitor(True)
        return await self.known.recognize(cookies)

    def _right_host(self, given: str) -> bool:
        try:
            name = urlsplit(f"//{given}").hostname or ""
        except ValueError:
            return False
        if self.hosts is not None:
            return name in self.hosts
        return name in self.names or _is_address(name)

    def _has_token_in_link(self, scope: Scope) -> bool:
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=20) if _short(scope) else {}
        return any(_same(one, self.token) for one in given.get("token", []))

    def _with_headers(self, send: Send, key: str | None) -> Send:
        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", self.policy)
                headers.setdefault("cache-control", "no-store")
                if key is not None and message["status"] < 400:  # noqa: PLR2004
                    headers.append("set-cookie", key)
            await send(message)

        return headed


def _short(scope: Scope) -> bool:
    return scope["query_string"].count(b"&") < 20  # noqa: PLR2004


def is_token(given: Any, token: str) -> bool:
    """Whether somebody brings the server's own key."""
    return isinstance(given, str) and _same(given, token)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _is_address(name: str) -> bool:
    """An address cannot be pointed elsewhere by a foreign name server."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _last_word(sentence: str, status: int) -> Response:
    """A refusal after which the connection is closed: what it still sends belongs to no request."""
    return PlainTextResponse(sentence, status, headers={"connection": "close"})


def _from_our_page(headers: Headers, scheme: str) -> bool:
    """Whether a write comes from our own page, by all that a browser tells about it."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    origin = headers.get("origin")
    at_home = origin is None or origin.lower() == f"{scheme}://{headers.get('host', '')}".lower()
    site = headers.get("sec-fetch-site", "same-origin")
    return headers.get(WRITE_HEADER) == "1" and kind == "application/json" and at_home and site == "same-origin"


async def _read(headers: Headers, receive: Receive, most: int) -> bytes | None:
    """The whole body; None where it is too large."""
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:12]) > most:
        return None
    body = b""
    while True:
        message: MutableMapping[str, Any] = await receive()
        body += message.get("body", b"")
        if len(body) > most:
            return None
        if not message.get("more_body", False):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replayed() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
