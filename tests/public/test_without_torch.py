"""In a process that cannot import torch: the package, every command that stores or lists, and the page's server.

What computes needs it, today as before: the first `ask` for a question, `best`, `team`, `diagnose`, a report in HTML,
`import` of a JSON file, and limits between parameters (`new --limit`, and changes of parameters where there are some).
The page leaves that to its workers, which are processes with torch.
"""

import os
import subprocess
import sys

import httpx
import pytest

from kappasharp.study.collection import load_study
from tests.cli.shell import SOURCE, START, Shell
from tests.web.doubles import WRITE

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch cannot be imported here", name="torch")
sys.meta_path.insert(0, Blocked())
"""
RUN_ALL = f"""{BLOCKED}
import shlex
from kappasharp.cli.main import main
for words in sys.stdin.read().splitlines():
    try:
        main(shlex.split(words), prog_name="kappasharp")
    except SystemExit as end:
        assert not end.code, words
"""
ANSWERS = {"pair": "tie", "choice:4": "2", "order:4": "'3 1=2'", "slider": "0.4", "rating": "2"}


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def started(shell, code, *words):
    """A process of its own in the shell's folder, with its database."""
    given = {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "KAPPASHARP_STORAGE": shell.url}
    environment = os.environ | given | {"XDG_STATE_HOME": str(shell.folder / "state")}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=shell.folder, env=environment,
    )  # fmt: skip


def said(process, typed="", *, fails=False):
    """What it writes until it ends."""
    stdout, stderr = process.communicate(typed, timeout=120)
    assert (process.returncode != 0) == fails, stderr
    return stdout, stderr


def test_the_package_needs_none_of_it_nor_numpy_nor_a_database(shell):
    code = f"""{BLOCKED}
import kappasharp
assert not {{"numpy", "sqlalchemy"}} & set(sys.modules)
from kappasharp import Categorical, Float, METHODS, create_study, list_studies, load_study
create_study({{"kp": Float(0.2, 3.0), "mode": Categorical(["a", "b"])}}, study_name="made")
print(load_study("made").history.number, len(list_studies()))
import torch
"""
    stdout, stderr = said(started(shell, code), fails=True)
    assert stdout == "0 1\n" and stderr.endswith("ImportError: torch cannot be imported here\n")


def test_every_command_that_stores_or_lists(shell):
    for kind in ANSWERS:
        shell("new", f"a {kind}", "-p", "x=0:1", "-p", "y=0:1", "--question", kind)
        shell("ask", f"a {kind}")
    shell("new", "pid", "-p", "kp=0.2:3", "-p", "mode=p,pi")
    shell("ask", "pid")
    shell("ask", "pid", "--voter", "bob")
    (shell.folder / "past.csv").write_text("a.x,b.x,answer\n0.1,0.5,b\n0.7,0.2,a\n")
    (shell.folder / "filed.toml").write_text('name = "filed"\n[parameters]\nx = {low = 0.0, high = 1.0}\n')
    answers = [f"tell 'a {kind}' {answer}" for kind, answer in ANSWERS.items()]
    commands = [
        "--help", "--version", "tune --help", "serve --help", "completion bash", *answers,
        "new filed.toml", "new first -p x=0:1 -p n=int:1:5 --favourite x=0.3,n=2", "new asked -p x=0:1 --outcomes mass",
        "studies", "studies -f json", "ask pid", "ask pid -f json", "tell pid a", "undo pid", "ask pid", "tell pid b",
        "tell pid tie --voter bob", "undo pid --voter bob", "log pid", "log pid -f json", "note pid 0 good",
        "note pid", "record asked x=0.5 mass=3", "record asked x=0.5 mass=4 --repeat", "parameters pid",
        "parameters pid --narrow kp=0.3:2", "parameters pid --widen kp=0.1:4", "parameters pid --lock mode=p",
        "undo pid", "export pid x.json", "export pid x.csv", "export pid x.parquet", "check x.parquet",
        "import past.csv --study filed", "log filed", "check", "check pid", "check --accept", "backup copy.db",
        "invite pid --address http://localhost:8642", "invite pid", "rename pid other", "delete first --yes",
    ]  # fmt: skip
    stdout, stderr = said(started(shell, RUN_ALL), "\n".join(commands))
    assert stdout.count("Usage: kappasharp") == 3 and "Removed 'first'" in stderr
    # All of it is stored, and a process with torch goes on with it.
    assert [one["answer"] for one in shell.json("log", "other")] == ["b"]
    assert [len(shell.json("log", name)) for name in ("filed", *(f"a {kind}" for kind in ANSWERS))] == [
        2,
        1,
        1,
        1,
        1,
        1,
    ]
    shell("ask", "other")


def test_the_pages_server(shell):
    shell("new", "pid", "-p", "kp=0.2:3", "-p", "mode=p,pi")
    shell("ask", "pid")
    at = f"/api/studies/{load_study('pid', storage=shell.url).stored.uid}"
    process = started(shell, BLOCKED + START, "serve", "--no-browser", "--port", "0")
    try:
        link = process.stdout.readline().strip()
        with httpx.Client(base_url=link.split("/?")[0], headers=WRITE, follow_redirects=True, timeout=120) as page:
            assert "<html" in page.get(link).text
            assert [one["name"] for one in page.get("/api/studies").json()["studies"]] == ["pid"]
            assert page.get(at).json()["name"] == "pid"
            number = page.get(f"{at}/pair", params={"voter": "me"}).json()["pair"]["number"]
            told = page.post(f"{at}/answer", json={"pair": number, "answer": "a", "seconds": 1.0, "voter": "me"})
            assert told.json()["saved"]["answer"] == "a"
            assert [one["answer"] for one in page.get(f"{at}/history").json()["rows"]] == ["a"]
            assert page.get(f"{at}/export/csv").text.count("\n") == 2
            assert page.post(f"{at}/undo", json={"voter": "me"}).status_code == 200
    finally:
        process.terminate()
        process.communicate(timeout=60)
