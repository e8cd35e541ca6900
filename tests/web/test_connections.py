"""Connections that send half a request, or none, do not keep others out for long: a real uvicorn, real sockets."""

import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

from kappasharp.web import connections, guard, server
from tests.waiting import wait_until
from tests.web.doubles import TOKEN, service

HALF = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-more: "


@pytest.fixture
def served():
    """A page that is served in a thread of this process: its server, which has its port."""
    of = service()
    app = server.application(of, token=TOKEN, hosts=guard.allowed_hosts("127.0.0.1"))
    config = connections.configured(app)
    config.lifespan = "off"  # the workers are not wanted here
    running, listener = uvicorn.Server(config), connections.listen("127.0.0.1", 0)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    wait_until(lambda: running.started)
    running.port = listener.getsockname()[1]
    yield running
    running.should_exit = True
    thread.join()
    listener.close()
    of.storage.close()
    of.folder.cleanup()


@pytest.fixture
def port(served):
    return served.port


@contextmanager
def sockets(port, count, sent=HALF):
    made = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    try:
        for one in made:
            one.sendall(sent)
        yield made
    finally:
        for one in made:
            one.close()


def status(port):
    """What a request is answered with; nothing where this machine took so long to send it that it was given up too."""
    cookies = {f"kappasharp_{TOKEN[:6]}": TOKEN}
    try:
        return httpx.get(f"http://127.0.0.1:{port}/static/app.js", cookies=cookies, timeout=60).status_code
    except httpx.TransportError:
        return None


def closed(one):
    """Whether the other side has ended a connection, within a while."""
    one.settimeout(60)
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def test_half_sent_requests_keep_others_out_for_seconds_and_not_for_ever(port, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    with sockets(port, connections.MOST + 10) as held:
        wait_until(lambda: status(port) == 200)
        assert closed(held[0]) and closed(held[-1])


def test_silence_is_given_up_too(port, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with sockets(port, 1, b"") as (one,):
        assert closed(one)


def test_a_second_half_is_given_up_too(port, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 600.0)
    with sockets(port, 1, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" + HALF) as (one,):
        one.settimeout(60)
        answer = more = one.recv(4096)
        while more and b"host name" not in answer:
            more = one.recv(4096)
            answer += more
        assert b"host name" in answer
        # Only now: on a busy machine the first request would be given up before it was sent.
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
        one.sendall(b"x")
        assert closed(one)


def test_drops_do_not_put_off_the_limit(port, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with sockets(port, 1) as (one,):
        begun = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < begun + 60:
                one.sendall(b"x")
                time.sleep(0.05)


def test_another_machine_does_not_take_all_connections(served, port, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 600.0)
    monkeypatch.setattr(connections, "MOST_PER_ADDRESS", 3)
    with sockets(port, 5, b""):
        assert status(port) == 200  # this machine itself may
    wait_until(lambda: not served.server_state.connections)
    monkeypatch.setattr(connections, "is_local", lambda _: False)
    with sockets(port, 3, b""):
        with sockets(port, 1, b"") as (fourth,):
            assert closed(fourth)
        assert len(served.server_state.connections) == 3


@pytest.mark.parametrize(
    ("address", "local"), [("127.0.0.1", True), ("::1", True), ("192.168.0.7", False), ("x", False)]
)
def test_what_is_local(address, local):
    assert connections.is_local(address) is local
