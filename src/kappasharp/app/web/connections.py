"""Connections to the page: where it listens; nobody holds one for long without a request, no machine all of them."""

import asyncio
import errno
import ipaddress
import socket
from urllib.parse import urlencode

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from kappasharp.app.web import guard
from kappasharp.errors import StorageError

# Where the page is; and other ports to try where nobody asked for a certain one.
PORT, NEXT_PORTS = 8642, 20
# How many connections there may be, and how many of them from one address of another machine: a browser opens six, and
# several voters may share an address. A page that is open holds one for its news; these have a limit of their own.
MOST, MOST_PER_ADDRESS, MOST_STREAMS = 2000, 200, 600
NEWS = "/api/news"
# Seconds until a request's head must be there, and how long a connection is kept for another request.
HEAD_SECONDS, IDLE_SECONDS = 10.0, 30


def configured(app: ASGIApp) -> uvicorn.Config:
    """How the page is served."""
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        log_level="warning",
        server_header=False,
        limit_concurrency=MOST,
        timeout_keep_alive=IDLE_SECONDS,
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


def address(host: str, port: int, token: str) -> str:
    """The link to the page."""
    name = "127.0.0.1" if host in guard.EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/?{urlencode({'token': token})}"


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
