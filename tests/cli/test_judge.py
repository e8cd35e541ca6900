"""`kappasharp judge`: a program that is run as a real process answers as a voter; and every way in which it fails."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from kappasharp import processes
from kappasharp.study.collection import load_study
from tests.cli.shell import SOURCE, START, Shell

# Prefers x near 0.3; another first word is another way to fail. Everything that it gets goes to a file.
STUB = """
import json, os, sys, time
from pathlib import Path

way, question = sys.argv[1], json.load(sys.stdin)
with open("asked.txt", "a") as file:
    file.write(json.dumps(question | {"pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")}) + "\\n")
far = [abs(one["params"]["x"] - 0.3) for one in question["designs"]]
best = far.index(min(far))
if way == "near":
    print("ab"[best] if question["kind"] == "pair" else best)
elif way == "sure":
    print(json.dumps({"answer": "ab"[best], "confidence": 0.95 if abs(far[0] - far[1]) > 0.2 else 0.5}))
elif way == "pictures":
    assert all(Path(one["picture"]).read_text().startswith("<svg") for one in question["designs"])
    print("A")
elif way == "hangs":
    time.sleep(600)
elif way == "crashes":
    sys.exit("the model is not there")
elif way == "endless":
    while True:
        print("a" * 1000)
elif way == "once":
    if not Path("failed").exists():
        Path("failed").touch()
        sys.exit(1)
    print("tie")
else:
    wrong, both = '{"answer": 7}', '{"answer": "a", "answer": "b"}'
    print({"rubbish": "I like the left one", "two": "a\\nb", "nothing": "", "wrong": wrong, "both": both}[way])
"""


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Another file's test may have imported pictures of its own.
    monkeypatch.delitem(sys.modules, "pictures", raising=False)
    (tmp_path / "stub.py").write_text(STUB)
    (tmp_path / "pictures.py").write_text("def draw(params):\n    return '<svg>' if params['x'] >= 0 else None\n")
    found = Shell(tmp_path)
    found("new", "s", "-p", "x=0:1", "-p", "y=0:1")
    return found


def command(way):
    return f"'{sys.executable}' stub.py {way}"


def asked(shell):
    return [json.loads(line) for line in (shell.folder / "asked.txt").read_text().splitlines()]


def test_a_program_answers_and_is_marked(shell):
    found = shell.json("judge", "s", "--command", command("near"), "--questions", 3)
    assert found["answers"] == 3 and load_study("s", storage=shell.url).history.programs.about == {"judge": "stub.py"}
    assert found["calls"] == 6 and found["ended"] == "questions"
    first, second = asked(shell)[:2]
    assert first["designs"] == second["designs"][::-1] and first["designs"][0].keys() == {
        "params",
        "outcomes",
        "picture",
    }
    assert (first["study"], first["kind"], first["threads"]) == ("s", "pair", None)
    rows = shell.json("log", "s")
    assert [(row["voter"], row["program"]) for row in rows] == [("judge", True)] * 3
    assert "program" in shell("log", "s").stdout and shell.json("studies")[0]["programs"] == 1
    said = shell("judge", "s", "--command", command("near"), "--questions", 1, "--once", "--question", "choice:3")
    assert "choice" in said.stderr and "is the best" in said.stderr and "answers" in said.stdout
    for _ in range(3):
        pair = shell.json("ask", "s", "--voter", "anna")
        shell("tell", "s", "a" if abs(pair["a"]["x"] - 0.3) < abs(pair["b"]["x"] - 0.3) else "b", "--voter", "anna")
    # The dull questions are the program's, the others wait for people.
    found = shell.json("judge", "s", "--command", command("sure"), "--unsure", "leave", "--questions", 5)
    assert found["beside_people"]["alike"]["anna"] > 0.5 and found["beside_people"]["consistency"] > 0.0
    assert found["left"] > 0 and shell.json("ask", "s", "--voter", "anna")["origin"] == "queue"


def test_pictures_are_files_while_it_runs(shell):
    words = ("judge", "s", "--command", command("pictures"), "--questions", 1)
    shell.json(*words, "--render", "pictures:draw")
    path = asked(shell)[0]["designs"][0]["picture"]
    assert path.endswith(".svg") and not Path(path).exists()
    shell.refused(*words, "--render", "pictures:drew", code=2, says="cannot be loaded")
    (shell.folder / "broken.py").write_text("def draw(params):\n    raise ValueError('no ink')\n")
    assert "no ink" in shell(*words, "--render", "broken:draw", code=1).stderr
    assert len(asked(shell)) == 2


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("hangs", "must answer within 90 seconds, but it took longer and was ended"),
        ("crashes", "must end with code 0, but it ended with 1. It said: 'the model is not there'"),
        ("endless", "printed without end"),
        ("rubbish", "must be 'a', 'b', 'tie' or 'skip', but got 'I like the left one'"),
        ("two", "must print one answer, but it printed 2 lines"),
        ("nothing", "printed nothing"),
        ("wrong", "but got 7"),
        ("both", "must give every entry of its answer once, but gave \"answer: 'a', answer: 'b'\"."),
    ],
)
def test_every_failure_is_a_sentence(shell, way, words, monkeypatch):
    def clock():
        """Of one that hangs the time is over as soon as it has its question: nobody has to guess when."""
        late = way == "hangs" and (shell.folder / "asked.txt").exists() and asked(shell)
        return time.monotonic() + (90.0 if late else 0.0)

    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=clock))
    limits = ("--retries", 0, "--call-seconds", 90)
    done = shell("judge", "s", "--command", command(way), *limits, "-f", "json", code=1)
    assert words in done.stderr and "stays open for 'judge'" in done.stderr
    assert json.loads(done.stdout)["failed_questions"] == 1 and shell.json("log", "s") == []
    with suppress(ProcessLookupError):
        os.kill(asked(shell)[0]["pid"], 0)
        raise AssertionError("it is still running")


def test_what_is_wrong_with_the_command_is_said_before_anything_is_asked(shell):
    shell.refused("judge", "s", "--command", "no-such-program x", code=2, says="there is no 'no-such-program' here")
    shell.refused("judge", "s", "--command", "'", code=2, says="cannot be read")
    shell.refused("judge", "s", code=2, says="--command")
    shell.refused("judge", "s", "--command", command("near"), "--seconds", 0, code=2, says="`--seconds` must be")
    shell("ask", "s", "--voter", "anna")
    shell("tell", "s", "a", "--voter", "anna")
    shell.refused("judge", "s", "--command", command("near"), "--voter", "anna", code=2, says="a person has answered")


def test_a_failed_call_is_tried_again(shell):
    done = shell("judge", "s", "--command", command("once"), "--questions", 1, "--backoff", 0, "-f", "json")
    assert "tried again in 0 seconds" in done.stderr
    found = json.loads(done.stdout)
    assert (found["calls"], found["failed_calls"], found["answers"]) == (3, 1, 1)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_signal_ends_the_program_and_the_study_goes_on(shell):
    env = os.environ | {"KAPPASHARP_STORAGE": shell.url, "PYTHONPATH": SOURCE}
    os.mkfifo(shell.folder / "asked.txt")  # the stub writes to it once it runs: nobody has to guess when
    process = subprocess.Popen(
        [sys.executable, "-c", START, "judge", "s", "--command", command("hangs"), "-f", "json"],
        env=env, cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with (shell.folder / "asked.txt").open() as file:
        stub = json.loads(file.readline())["pid"]
    process.send_signal(signal.SIGTERM)  # as Ctrl-C, which a process without a terminal may not hear
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 1 and json.loads(stdout)["ended"] == "interrupted", stderr
    assert "Traceback" not in stderr and "the open question waits" in stderr
    with pytest.raises(ProcessLookupError):
        os.kill(stub, 0)
    (shell.folder / "asked.txt").unlink()
    assert shell.json("judge", "s", "--command", command("near"), "--questions", 1)["answers"] == 1
    assert "whole" in shell("check", "s").stdout


class Model(BaseHTTPRequestHandler):
    """A model that likes what it is shown first, on this machine."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert [one["type"] for one in asked["messages"][0]["content"]] == ["text", "image_url", "image_url"]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": [{"message": {"content": "A.\n"}}]}).encode())

    def log_message(self, *_):
        """Nothing is printed."""


def test_the_example_of_the_page_works(shell, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "judge.md").read_text("utf-8")
    (script,) = re.findall(r"<<'EOF'\n(.*?)^EOF$", page, re.MULTILINE | re.DOTALL)
    (shell.folder / "look.py").write_text(script)
    with HTTPServer(("127.0.0.1", 0), Model) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MODEL_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("MODEL", "any")
        words = ("--command", f"'{sys.executable}' look.py", "--render", "pictures:draw", "--questions", 1)
        found = shell.json("judge", "s", *words)
        server.shutdown()
    assert (found["disagreed"], [row["answer"] for row in shell.json("log", "s")]) == (1, ["tie"])
