"""A Dask scheduler that is killed during a run: a sentence, nothing stored is lost, and the same command goes on."""

import json
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from kappasharp.cli.main import main
from kappasharp.lab import schedule
from kappasharp.lab.schedule import SchedulerLostError, plan
from kappasharp.lab.store import Store
from tests.lab import tiny

ROOT = Path(__file__).parents[2]


@contextmanager
def started(*words):
    """One of Dask's own programs."""
    process = subprocess.Popen([sys.executable, "-m", "dask", *words], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler in a process of its own, and its address."""
    file = tmp_path / "scheduler.json"
    words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", "--scheduler-file", str(file))
    with started("scheduler", *words) as process:
        process.address = told(process, file)["address"].removeprefix("tcp://")
        yield process


def told(process, file):
    """What the scheduler wrote of itself. A file is there before its text is: half of it is waited for as none is."""
    while True:
        try:
            return json.loads(file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            assert process.poll() is None, "The scheduler has ended."
            time.sleep(0.05)


def test_half_a_file_is_waited_for(tmp_path):
    file, words = tmp_path / "scheduler.json", json.dumps({"address": "tcp://here"})
    file.touch()
    threading.Timer(0.2, file.write_text, [words]).start()
    assert told(SimpleNamespace(poll=lambda: None), file) == {"address": "tcp://here"}


def test_while_a_run_waits(scheduler):
    """There is no worker, so that the kill comes while jobs are under way."""

    def supply():
        yield from ((block,) for block in tiny.blocks())
        threading.Timer(0.5, scheduler.kill).start()

    with pytest.raises(SchedulerLostError, match=rf"The Dask scheduler at '{scheduler.address}' was lost \("):
        list(schedule.engine(f"dask://{scheduler.address}")(supply()))


def test_the_command_says_it_and_goes_on_with_the_rest(scheduler, tmp_path, monkeypatch, capfd):
    path, out, write = tmp_path / "tiny.toml", tmp_path / "results", Store.write
    path.write_text(tiny.TOML)

    def last_deed(self, *given):
        scheduler.kill()
        return write(self, *given)

    worker = ("worker", scheduler.address, "--no-nanny", "--nthreads", "1", "--no-dashboard")
    with started(*worker), monkeypatch.context() as patched:
        patched.setattr(Store, "write", last_deed)
        words = ["run", str(path), "--out", str(out)]
        ended = CliRunner().invoke(main, [*words, "--engine", f"dask://{scheduler.address}"])
    todo = plan(path, out)
    assert 0 < todo.n_left < 8 and list((out / "claims").iterdir()) == []
    # Which error a lost connection shows itself by is a matter of the moment.
    said = rf"was lost \(\w+\)\. {8 - todo.n_left} of 8 runs were stored before; start a scheduler, and the same"
    assert ended.exit_code == 1 and "Usage" not in ended.output and re.search(said, " ".join(ended.output.split()))
    assert "Traceback" not in capfd.readouterr().err
    assert {row["status"] for row in todo.store.read().to_pylist()} == {"ok"}
    again = CliRunner().invoke(main, [*words, "--engine", "serial"])
    assert again.exit_code == 0 and f"{todo.n_left} runs were added" in again.output and plan(path, out).n_left == 0
