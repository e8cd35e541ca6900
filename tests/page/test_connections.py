"""Connections that send half a request, or none, do not keep others out for long: a real uvicorn, real sockets."""

import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

from kappasharp.app.web import connections, guard, server
from tests.page.chromium import wait_until
from tests.page.doubles import TOKEN, service

HALF = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-more: "


@pytest.fixture
def port():
    """Where a page is served, in a thread of this process."""
    of = service()
    app = server.application(of, token=TOKEN, hosts=guard.allowed_hosts("127.0.0.1"))
    config = connections.configured(app)
    config.lifespan = "off"  # the workers are not wanted here
    running, listener = uvicorn.Server(config), connections.listen("127.0.0.1", 0)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    wait_until(lambda: running.started)
    yield listener.getsockname()[1]
    running.should_exit = True
    thread.join()
    listener.close()
    of.storage.close()
    of.folder.cleanup()


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
    cookies = {f"kappasharp_{TOKEN[:6]}": TOKEN}
    return httpx.get(f"http://127.0.0.1:{port}/static/app.js", cookies=cookies, timeout=30).status_code


def closed(one):
    """Whether the other side has ended a connection, within a while."""
    one.settimeout(20)
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def test_half_sent_requests_keep_others_out_for_seconds_and_not_for_ever(port, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    with sockets(port, connections.MOST + 10) as held:
        wait_until(lambda: status(port) == 200, 30)
        assert closed(held[0]) and closed(held[-1])


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" + HALF])
def test_silence_and_a_second_half_are_given_up_too(port, monkeypatch, sent):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with sockets(port, 1, sent) as (one,):
        one.settimeout(20)
        while sent and b"host name" not in one.recv(4096):
            pass
        one.sendall(b"x" if sent else b"")
        assert closed(one)


def test_drops_do_not_put_off_the_limit(port, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with sockets(port, 1) as (one,):
        begun = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < begun + 20:
                one.sendall(b"x")
                time.sleep(0.05)


def test_another_machine_does_not_take_all_connections(port, monkeypatch):
    monkeypatch.setattr(connections, "MOST_PER_ADDRESS", 3)
    with sockets(port, 5, b""):
        assert status(port) == 200  # this machine itself may
    monkeypatch.setattr(connections, "is_local", lambda _: False)
    with sockets(port, 3, b"") as held:
        with sockets(port, 1, b"") as (fourth,):
            assert closed(fourth)
        held[0].settimeout(0.2)
        with pytest.raises(TimeoutError):
            held[0].recv(1)


@pytest.mark.parametrize(
    ("address", "local"), [("127.0.0.1", True), ("::1", True), ("192.168.0.7", False), ("x", False)]
)
def test_what_is_local(address, local):
    assert connections.is_local(address) is local
