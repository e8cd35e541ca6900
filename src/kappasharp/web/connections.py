"""Connections to the page: where it listens, and for whom; nobody holds one for long, no machine all of them."""

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from kappasharp.errors import InvalidValueError, StorageError
from kappasharp.web import access, guard
from kappasharp.web.access import Reach

# Where the page is; and other ports to try where nobody asked for a certain one.
PORT, NEXT_PORTS = 8642, 20
# How many connections there may be, and how many of them from one address of another machine: a browser opens six, and
# several voters may share an address. A page that is open holds one for its news; these have a limit of their own.
MOST, MOST_PER_ADDRESS, MOST_STREAMS = 2000, 200, 600
NEWS = "/api/news"
# Seconds until a request's head must be there, and how long a connection is kept for another request.
HEAD_SECONDS, IDLE_SECONDS = 10.0, 30


class Exposure(NamedTuple):
    """Who can reach the page, and how: where it listens, its certificate and key, what others call it, a proxy."""

    host: str = guard.LOOPBACK[1]
    files: tuple[Path, Path] | None = None
    address: str | None = None
    proxied: bool = False

    @property
    def to_others(self) -> bool:
        """Whether other machines get to the page."""
        return self.proxied or self.host not in guard.LOOPBACK

    @property
    def encrypted(self) -> bool:
        """Whether what they send is encrypted on its way."""
        return self.files is not None or (self.address or "").startswith("https:")

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the page answers to, beside that of where it listens."""
        own = () if self.address is None else (urlsplit(self.address).hostname or "",)
        return (socket.gethostname(), f"{socket.gethostname()}.local", *own)

    def hosts(self) -> tuple[str, ...] | None:
        """The names that a request may address; None where the page listens everywhere."""
        found = guard.allowed_hosts(self.host)
        return found if found is None or self.address is None else (*found, *self.names[2:])

    def reach(self, port: int) -> Reach:
        """Where others find the page."""
        name = access.own_address() if self.host in guard.EVERYWHERE else self.host
        scheme = "http" if self.files is None else "https"
        own = f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"
        return Reach(self.address or own, self.to_others, self.encrypted)


def exposure(
    host: str | None,
    expose: bool,
    address: str | None,
    proxy: bool,
    certificate: Path | None,
    private_key: Path | None,
) -> Exposure:
    """Where the page listens and for whom, or a sentence: other machines get to it only where that was said."""
    where = host or ("0.0.0.0" if expose else Exposure().host)
    if where not in guard.LOOPBACK and not expose:
        raise InvalidValueError(
            f"`--host {where}` would let other machines reach the page, and `serve` does that only with `--expose` too."
        )
    if expose and where in guard.LOOPBACK:
        raise InvalidValueError(f"`--expose` lets other machines in, but `--host {where}` is this machine alone.")
    if proxy and address is None:
        raise InvalidValueError("`--proxy` needs `--address`: the URL by which others reach the page, https://NAME.")
    files = _checked_pair(certificate, private_key)
    if address is not None:
        address = checked_address(address)
        if files is not None and not proxy and not address.startswith("https:"):
            raise InvalidValueError(f"With `--certificate` the page is at https://…, but `--address` is {address}.")
    return Exposure(where, files, address, proxy)


def checked_address(given: str) -> str:
    """The URL by which others reach the page, or a sentence."""
    try:
        parts = urlsplit(given)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        right = False
    if not right or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise InvalidValueError(
            f"`--address` must be https://NAME or http://NAME:PORT, with nothing after it, but got {given!r}."
        )
    return given.rstrip("/")


def _checked_pair(certificate: Path | None, private_key: Path | None) -> tuple[Path, Path] | None:
    """A certificate and its key that belong together, or a sentence."""
    if certificate is None and private_key is None:
        return None
    if certificate is None or private_key is None:
        raise InvalidValueError("HTTPS takes both `--certificate` and `--private-key`, but got one of them.")
    for option, path in (("--certificate", certificate), ("--private-key", private_key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise InvalidValueError(f"`{option}` cannot be read: {path}: {error.strerror}.") from error
    try:
        # A key that is locked would ask for its password in the middle of everything.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise InvalidValueError(f"{_why_no_pair(str(error), private_key)} ({certificate}, {private_key})") from error
    return certificate, private_key


def _why_no_pair(said: str, private_key: Path) -> str:
    if "KEY_VALUES_MISMATCH" in said:
        return "`--private-key` must be the key of `--certificate`, but it is that of another certificate."
    if b"ENCRYPTED" in private_key.read_bytes():
        return "`--private-key` must be without a password; `openssl pkey -in FILE -out NEW` takes it off."
    return (
        f"`--certificate` and `--private-key` must be PEM files of a certificate and its key, but they are not: {said}."
    )


def configured(app: ASGIApp, by: Exposure = Exposure()) -> uvicorn.Config:  # noqa: B008
    """How the page is served."""
    certificate, private_key = by.files or (None, None)
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        log_level="warning",
        server_header=False,
        limit_concurrency=MOST,
        timeout_keep_alive=IDLE_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
        # What X-Forwarded-* says is believed of a proxy on this machine alone, or those that uvicorn's variable names.
        proxy_headers=by.proxied,
        forwarded_allow_ips=os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1"),
    )


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that takes connections from now on; the next free port where none was asked for."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for one in (port,) if port is not None else range(PORT, PORT + NEXT_PORTS):
        try:
            listener = socket.create_server((host, one), family=family)
            # Small answers at once: waiting to fill a packet would cost a picture forty milliseconds.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
        except OSError as error:
            if port is not None or error.errno != errno.EADDRINUSE:
                raise StorageError(f"`serve` cannot listen on {host}:{one}: {error.strerror or error}.") from error
    raise StorageError(f"`serve` found no free port from {PORT} to {PORT + NEXT_PORTS - 1}; `--port` names another.")


def address(by: Exposure, port: int, token: str) -> str:
    """The link to the page; where other machines reach it, with the key where no log and no proxy sees it."""
    found = by.reach(port).address or ""
    # A name that was given may be a proxy's, whether or not it was said to be one.
    if by.to_others or by.address is not None:
        return access.link(found, token)
    return f"{found}/?{urlencode({'token': token})}"


class PageServer(uvicorn.Server):
    """The server, which ends the same way however often it is told to."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C once ends it when every request is answered; once more, without waiting for those that are open."""
        if not self.should_exit:
            super().handle_exit(sig, frame)
            return
        for task in self.server_state.tasks:
            task.cancel()
        for connection in self.server_state.connections:
            connection.transport.abort()


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for a request's head; the body's is the guard's."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless its address has enough of them."""
        super().connection_made(transport)
        self._expect_head()
        address = self._address()
        if not is_local(address):
            ours = (one for one in self.connections if isinstance(one, BoundedProtocol) and not one._is_stream)
            if sum(one._address() == address for one in ours) > MOST_PER_ADDRESS:
                transport.close()

    def shutdown(self) -> None:
        """The server ends: nobody waits for a stream, which has no end of its own."""
        if self._is_stream:
            self.transport.close()
        else:
            super().shutdown()

    @property
    def _is_stream(self) -> bool:
        """Whether a page hears its news over this connection; who has no key gets none."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and cycle.scope["path"] == NEWS

    def data_received(self, data: bytes) -> None:
        """Take what was sent; what comes in drops does not put off the limit."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._head_is_here()
        elif before is None or before.response_complete:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._head_is_here()
        super().connection_lost(exc)

    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

    def _expect_head(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _head_is_here(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


def is_local(address: str) -> bool:
    """Whether an address is this machine's own: who is on it could stop the server anyway."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
