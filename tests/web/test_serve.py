"""`kappasharp serve`: what it opens, what it prints, what it refuses; and what it leaves behind when it ends."""

import os
import re
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
import uvicorn
from click.testing import CliRunner

from kappasharp.cli.main import main
from kappasharp.study.collection import create_study, import_json, load_study
from kappasharp.web import connections
from kappasharp.web.service import COMPUTING, DRAWING
from tests.waiting import wait_until
from tests.web.chromium import Server, serving
from tests.web.crowd import client
from tests.web.doubles import TOKEN, WRITE


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command up to where it would serve; its result, and the service it would run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAPPASHARP_STORAGE", f"sqlite:///{tmp_path / 'page.db'}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    served = []

    def note(server, sockets):
        served.append(server.config.app.state.service)
        for one in sockets:
            one.close()

    monkeypatch.setattr(uvicorn.Server, "run", note)

    def command(*words):
        served.clear()
        result = CliRunner().invoke(main, ["serve", "--no-browser", "--port", "0", *map(str, words)])
        for service in served:
            service.storage.close()
        return result, (served[0] if served else None)

    return command


def test_it_prints_the_link_alone_on_stdout(run):
    result, service = run("--example", "pid")
    assert result.exit_code == 0 and result.stdout.startswith("http://127.0.0.1:") and "token=" in result.stdout
    assert len(result.stdout.splitlines()) == 1 and "voter=NAME" in result.stderr and "Warning" not in result.stderr
    assert len(service.listed()) == 1 and service.listed()[0]["name"] == "PID controller"


def test_the_key_stays_for_who_serves_the_same_studies_on_this_machine_alone(run, tmp_path):
    """So that an open page finds back after a restart; where others get in, every start has its own."""

    def key(*words):
        return re.split("token=|#", run(*words)[0].stdout)[1].strip()

    first = key()
    kept = next((tmp_path / "state" / "kappasharp").glob("key-*"))
    assert key() == first and len(first) == 48 and kept.stat().st_mode & 0o077 == 0
    assert key("--storage", f"sqlite:///{tmp_path / 'other.db'}") != first
    assert key("--expose") != key("--expose", "--host", "0.0.0.0") != first
    kept.chmod(0o644)
    second = key()
    assert second != first and key("--new-key") != second
    (tmp_path / "file").touch()
    os.environ["XDG_STATE_HOME"] = str(tmp_path / "file")
    result, _ = run()
    assert "could not be kept" in result.stderr and "token=" in result.stdout


def test_a_study_by_name_by_file_and_none(run, tmp_path):
    storage = f"sqlite:///{tmp_path / 'page.db'}"
    create_study({"x": (0.0, 1.0)}, storage=storage, study_name="mine").storage.close()
    _, service = run("mine")
    assert service.session(service.current).study.name == "mine" and service.session(service.current).renderer is None
    (tmp_path / "pictures.py").write_text("def render(params):\n    return None\n")
    (tmp_path / "file.toml").write_text(
        'name = "typed"\nrender = "pictures:render"\n[parameters]\nx = {low = 0, high = 1}\n'
    )
    _, service = run("file.toml")
    assert (
        service.session(service.current).study.name == "typed"
        and service.session(service.current).renderer == "pictures:render"
    )
    _, service = run()
    assert service.current is None and [one["name"] for one in service.listed()] == ["mine", "typed"]
    _, service = run("mine", "--render", "pictures:render")
    assert service.session(service.current).renderer == "pictures:render"
    # A renderer is for the study that is named with it and for those that remember it; others have their own designs.
    create_study({"z": (0.0, 1.0)}, storage=storage, study_name="third").storage.close()
    _, service = run("mine", "--render", "pictures:render")
    drawn_by = {one["name"]: service.session(one["id"]).renderer for one in service.listed()}
    assert drawn_by == {"mine": "pictures:render", "typed": "pictures:render", "third": None}


def test_a_study_remembers_its_renderer_and_says_how_to_allow_it(run, tmp_path):
    """By name alone: what a database names is not run unless the command line names it too."""
    (tmp_path / "sketches.py").write_text("def draw(params):\n    return '<p>'\n\nnothing = draw\n")
    (tmp_path / "html.toml").write_text('render = "sketches:draw"\n[parameters]\nx = {low = 0, high = 1}\n')
    made = CliRunner().invoke(main, ["new", "html.toml"])
    assert made.exit_code == 0
    command = "kappasharp serve html --render sketches:draw"
    result, service = run("html")
    session = service.session(service.current)
    assert session.renderer is None and f"`{command}`" in service.missing_renderer(session.study)
    assert "drawn by sketches:draw" in result.stderr and f"`{command}`" in result.stderr
    # From Start, on a page that allows it beside another; and by the command that was told.
    for words in (("--render", "sketches:nothing", "--render", "sketches:draw"), ("html", "--render", "sketches:draw")):
        _, service = run(*words)
        session = service.session(service.listed()[0]["id"])
        assert session.renderer == "sketches:draw" and service.missing_renderer(session.study) is None
    # A study file that is named on the command line is allowed with all that it names.
    result, service = run("html.toml")
    assert service.session(service.current).renderer == "sketches:draw" and "drawn by" not in result.stderr
    # An export keeps the name, and a study without one is as it ever was.
    storage = f"sqlite:///{tmp_path / 'page.db'}"
    study = load_study("html", storage=storage)
    again = import_json(study.export(tmp_path / "html.json"), storage=storage, study_name="again")
    assert again.definition.render == "sketches:draw"
    plain = create_study({"x": (0.0, 1.0)}, storage=storage, study_name="plain")
    assert "render" not in plain.definition.plain() and plain.definition.render is None
    study.storage.close()
    again.storage.close()
    plain.storage.close()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nobody",), "No study"),
        (("x", "--example", "pid"), "not both"),
        (("--example", "sid"), "is not one of"),
        (("--render", "nothing"), "module:function"),
        (("--render", "no_such_module:draw"), "cannot be loaded"),
        (("missing.toml",), "could not be read"),
        (("--storage", "sqlite://"), "outlives the page"),
        (("--host", "0.0.0.0"), "only with `--expose`"),
        (("--host", "192.0.2.7"), "only with `--expose`"),
        (("--expose", "--host", "localhost"), "this machine alone"),
        (("--proxy",), "needs `--address`"),
        (("--address", "taste.example.org"), "must be https://NAME"),
        (("--address", "https://taste.example.org/page"), "nothing after it"),
        (("--certificate", "page.pem"), "got one of them"),
        (("--certificate", "page.pem", "--private-key", "key.pem"), "cannot be read"),
    ],
)
def test_what_it_refuses_it_says_in_a_sentence(run, words, sentence):
    result, service = run(*words)
    assert result.exit_code in (1, 2) and service is None
    assert sentence in result.stderr and "Traceback" not in result.stderr


def test_what_other_machines_reach_is_said(run):
    """Which studies, who owns them, whether it is encrypted; and the key is where no log sees it."""
    result, _ = run("--example", "pid", "--expose")
    assert re.search(
        r"other machines can reach this page now, at http://\S+:\d+, and in it.* PID controller\.", result.stderr
    )
    assert "owns all of them" in result.stderr and "NOT encrypted" in result.stderr
    assert "/join#" in result.stdout and "?" not in result.stdout and "127.0.0.1" not in result.stdout
    result, service = run("--proxy", "--address", "https://taste.example.org/")
    assert "is encrypted" in result.stderr and "at https://taste.example.org, and in it" in result.stderr
    assert result.stdout.startswith("https://taste.example.org/join#")
    # Where nobody said that there is a proxy there may be one all the same.
    forgotten, _ = run("--address", "https://taste.example.org/")
    assert forgotten.stdout.startswith("https://taste.example.org/join#")
    link = CliRunner().invoke(main, ["invite", service.listed()[0]["name"]])
    assert link.stdout.startswith("https://taste.example.org/join#") and "█" in link.stderr


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Two certificates for 127.0.0.1 that nobody else signed, with their keys; and the second key with a password."""
    folder = tmp_path_factory.mktemp("certificates")
    new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 -addext"
    for name in ("first", "second"):
        words = [*new.split(), "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
    locked = "openssl pkey -in second.key -aes256 -passout pass:secret -out locked.key"
    subprocess.run(locked.split(), cwd=folder, check=True, capture_output=True)
    return folder


def test_a_certificate_and_a_key_that_do_not_fit_are_refused(run, certificates):
    for certificate, key, sentence in (
        ("first.pem", "second.key", "of another certificate"),
        ("second.pem", "locked.key", "without a password"),
        ("first.key", "first.key", "must be PEM files"),
        ("first.pem", "none.key", "`--private-key` cannot be read"),
    ):
        result, service = run("--certificate", certificates / certificate, "--private-key", certificates / key)
        assert service is None and result.exit_code == 2 and sentence in result.stderr, result.stderr
    pair = ("--certificate", certificates / "first.pem", "--private-key", certificates / "first.key")
    result, _ = run(*pair, "--address", "http://taste.example.org")
    assert "is at https://" in result.stderr and result.exit_code == 2
    result, _ = run(*pair, "--expose")
    assert "is encrypted" in result.stderr and "--address" in result.stderr and result.stdout.startswith("https://")


def test_the_page_over_https(tmp_path, certificates):
    pair = ("--certificate", certificates / "first.pem", "--private-key", certificates / "first.key")
    with serving(tmp_path, "--example", "pid", *map(str, pair)) as server:
        trusted = ssl.create_default_context(cafile=certificates / "first.pem")
        assert server.link.startswith("https://127.0.0.1:")
        with httpx.Client(verify=trusted, timeout=120) as client:
            answer = client.get(server.link)
            assert answer.status_code == 200 and "; Secure" in answer.headers["set-cookie"]
            assert client.get(f"https://127.0.0.1:{server.port}/api/studies").json()["study"]["role"] == "owner"
        with pytest.raises(httpx.HTTPError):
            httpx.get(server.link.replace("https", "http"))


def test_what_a_proxy_says_is_believed_only_where_there_is_one(opened):
    """On the scheme the origin of a write and the cookie depend; and the name of the proxy is answered to."""
    made = connections.exposure(None, False, "https://taste.example.org", True, None, None)
    browser = opened(hosts=made.hosts())

    def joined(by, peer="127.0.0.1"):
        config = connections.configured(browser.app, by)
        config.load()
        transport = httpx.ASGITransport(app=config.loaded_app, client=(peer, 1))
        headers = WRITE | {"x-forwarded-proto": "https", "origin": "https://taste.example.org"}
        client = httpx.AsyncClient(transport=transport, base_url="http://taste.example.org", headers=headers)
        answer = browser.run(client.post("/api/join", json={"secret": TOKEN}))
        return answer.status_code, "; Secure" in answer.headers.get("set-cookie", "")

    assert joined(made) == (200, True)
    assert joined(made, "192.0.2.1") == joined(connections.Exposure()) == (403, False)
    assert browser.get("/join", headers={"host": "evil.example"}).status_code == 400


def test_a_busy_port_is_a_sentence_and_the_default_moves_on():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            connections.listen("127.0.0.1", port)
    with connections.listen("127.0.0.1", None) as first, connections.listen("127.0.0.1", None) as second:
        assert first.getsockname()[1] != second.getsockname()[1]
        assert first.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def descendants(process):
    """The processes that this one started, and theirs."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    started = [tuple(map(int, line.split())) for line in listed.splitlines()[1:]]
    found = [process]
    for parent in found:
        found += [pid for pid, above in started if above == parent]
    return found[1:]


@pytest.mark.skipif(not os.path.exists("/proc"), reason="reads /proc")  # noqa: PTH110
@pytest.mark.parametrize("example", ["pid", "cabin"])
def test_torch_is_the_workers_business(tmp_path, example):
    with serving(tmp_path, "--example", example) as server, client(server.link) as browser:
        study = browser.get("/api/studies").json()["study"]
        at, voter = f"/api/studies/{study['id']}", {"voter": "me"}
        for _ in range(7):
            pair = browser.get(f"{at}/pair", params=voter).json()["pair"]
            answer = {"pair": pair["number"], "answer": "a" if pair["kind"] == "pair" else 0} | voter
            assert browser.post(f"{at}/answer", json=answer, headers=WRITE).status_code == 200
        for view in ("best", "history", "model", "standing", "why"):
            assert browser.get(f"{at}/{view}").status_code == 200
        new = {"name": "one more", "parameters": {"x": {"low": 0, "high": 1}}}
        assert browser.post("/api/studies", json=new, headers=WRITE).status_code == 201
        assert "libtorch" not in Path(f"/proc/{server.process.pid}/maps").read_text()


@pytest.mark.skipif(not os.path.exists("/proc"), reason="reads /proc")  # noqa: PTH110
def test_a_killed_server_leaves_no_workers_behind(tmp_path):
    server = Server(tmp_path, "--example", "pid")
    # The workers of both kinds, and the processes that start and clean up after them.
    wait_until(lambda: len(descendants(server.process.pid)) >= COMPUTING + DRAWING + 2)
    below = descendants(server.process.pid)
    server.kill()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in below))  # noqa: PTH110
    load_study("PID controller", storage=f"sqlite:///{tmp_path / 'page.db'}").storage.close()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.skipif(not os.path.exists("/proc"), reason="reads /proc")  # noqa: PTH110
def test_a_server_that_is_stopped_ends_with_one_word(tmp_path, sent):
    server = Server(tmp_path, "--example", "pid")
    # Its workers hold what a crash would leave behind.
    wait_until(lambda: len(descendants(server.process.pid)) >= COMPUTING + DRAWING + 2)
    below = descendants(server.process.pid)
    for _ in range(2 if sent == signal.SIGINT else 1):
        # A key that is pressed twice says nothing else.
        server.process.send_signal(sent)
    assert server.process.wait(120) == 0
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in below))  # noqa: PTH110
    server.close()
    greeting, *rest = (tmp_path / "errors.txt").read_text().splitlines()
    assert "Ctrl-C stops the page" in greeting and rest == ["Stopped."]
