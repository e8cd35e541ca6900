"""What the shell says: the help of every command, what commands print on stdout and stderr, their exit codes."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kappasharp as ks
from tests.recorded.differences import masked
from tests.recorded.exports import fill, versions
from tests.recorded.server import environment

TABLE, JSON = "table", "json"
SECONDS = 300.0
# Random or as long as this machine takes: identities, codes drawn for cameras, durations.
RANDOM = (
    (re.compile(r'\b[0-9a-f]{32}\b'), "UID"),
    (re.compile(r"(?<![\w.])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8}(?![\w.])"), "ID"),
    (re.compile(r"^.*[█▀▄].*\n", re.MULTILINE), ""),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|seconds)\b"), r"N \2"),
)  # fmt: skip
FILES = {
    "espresso.toml": 'limits = ["dose + time <= 55"]\nquestion = "choice:3"\n[parameters]\n'
    "dose = {low = 14, high = 20}\ntime = {low = 20.0, high = 40.0, jnd = 1.0}\nmode = [true, false]\n",
    "past.csv": "a.x,a.y,b.x,b.y,answer\n0.1,0.2,0.3,0.4,a\n0.5,0.2,0.3,0.9,tie\n",
    "bad.csv": "a.x,a.y,b.x,b.y,answer\n0.1,0.2,0.3,0.4,c\n",
}
# One after the other in one folder; `<` stands before what is typed. Then those that are long or
# refused, in one style each.
BOTH = """
new plane -p x=0:1 -p y=0:1 --seed 1
new mixed -p gain=1e-3:2:log -p n=int:1:8 -p mode=soft,hard -p rate=7 --method adaptive --preset paper
new measured -p x=0:1 --outcomes comfort,mass --limit x<=0.9 --question rating --favourite x=0.5
new espresso.toml
ask plane
ask plane
tell plane a
tell plane b --pair 1
ask plane --voter anna --question rating
tell plane -2 --voter anna
import past.csv --study plane --voter ben
undo plane --voter anna
log plane
note plane 0 hums --voter anna
note plane
note plane 0 --forget --voter anna
parameters plane --narrow x=0.1:0.8 --lock y=0.5
parameters plane --widen y
record measured x=0.3 comfort=7 mass=2
record measured x=0.3 comfort=8 --repeat
record measured x=0.3 --forget
team apart --weigh anna=2
team apart --count-alike
rename mixed other
invite plane --role viewer --address https://taste.example.org
invite plane --list
export everything whole.json
export everything answers.csv
export everything early.json --through 12
import whole.json --name again
studies
check
check plane
backup copy.db
log everything
problems
methods
"""
LONG = {
    TABLE: """
new plane -p x=0:1
new bad -p x=1:0
tell plane maybe
import bad.csv --study plane
note plane 99 words
parameters plane --widen z
record measured x=3 comfort=1
rename other plane
invite plane --revoke nothing
export everything table.txt
import whole.json
import nothing.json
delete nobody --yes
best nobody
backup copy.db
delete other --yes
best everything
diagnose everything
team apart
ask everything --question slider --voter new --place 0.35
parameters everything --best
export everything report.html
simulate espresso.toml --questions 4
judge plane --command JUDGE --questions 2 --unsure leave
tune plane --questions 2 < abq
demo --questions 3 --out demo
completion bash
serve nobody --no-browser
run nothing.toml
report nothing
leaderboard nothing
check-method nothing:method
--version
nothing
""",
    JSON: """
best everything
best apart
diagnose everything
team apart
ask espresso --voter new
ask everything --question order:4 --voter new
judge plane --command JUDGE --questions 2 --once
simulate plane --questions 4 --person exact
export everything designs.parquet --table options
check designs.parquet
best espresso
""",
}  # fmt: skip
JUDGE = f"{sys.executable} -m tests.recorded.functions"
# These say nothing in JSON, or take no format.
PLAIN = ("demo", "completion", "serve", "run", "report", "leaderboard", "check-method", "--version", "nothing", "tune")


class Shell:
    """Commands in one folder over one database."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder / 'studies.db'}"

    def __call__(self, words: Sequence[str], typed: str = "") -> dict[str, Any]:
        """What a command says, without what is random or dated."""
        done = subprocess.run(
            [sys.executable, "-m", "kappasharp", *words], cwd=self.folder, env=environment(self.folder, self.url),
            input=typed, capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        return {
            "code": done.returncode,
            "stdout": _document(self._hide(done.stdout)),
            "stderr": self._hide(done.stderr),
        }

    def _hide(self, text: str) -> str:
        text = masked(text, (self.url, "URL"), (str(self.folder), "FOLDER"), (sys.executable, "PYTHON"))
        text = text.replace(f"version {ks.__version__}", "version VERSION")
        for pattern, place in RANDOM:
            text = pattern.sub(place, text)
        return text


def _document(text: str) -> Any:
    """JSON as the data that it is, so that floats are compared as such."""
    try:
        return json.loads(text)
    except ValueError:
        return text.splitlines()


def record(*, briefly: bool = False) -> dict[str, Any]:
    """What every command says; briefly, of itself alone."""
    if briefly:
        return {"help": helps()}
    with ThreadPoolExecutor(2) as pool:
        table, documents = pool.map(_run, (TABLE, JSON))
    return {"help": helps()} | {TABLE: table, JSON: documents}


def helps() -> dict[str, Any]:
    """The help of the program and of every command that it lists."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        shell = Shell(Path(name))
        whole = shell(["--help"])
        # A command's name stands two columns in, its summary after at least two more.
        commands = re.findall(
            r"^  ([a-z][\w-]*)(?=  )", "\n".join(whole["stdout"]).partition("Commands:")[2], re.MULTILINE
        )
        said = pool.map(lambda command: shell([command, "--help"]), commands)
        return {"": whole} | dict(zip(commands, said, strict=True))


def _run(style: str, lines: str | None = None) -> dict[str, Any]:
    """All lines in a folder of their own, over the newest stored database."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        shell = Shell(Path(name))
        fill(shell.folder / "studies.db", versions()[-1])
        for file, text in FILES.items():
            (shell.folder / file).write_text(text, encoding="utf-8")
        for line in filter(None, (lines or BOTH + LONG[style]).splitlines()):
            command, _, typed = line.partition(" < ")
            words = [JUDGE if word == "JUDGE" else word for word in command.split()]
            called = line if line not in found else f"{line} (once more)"
            found[called] = shell([*words, *(("-f", style) if words[0] not in PLAIN else ())], typed)
    return found
