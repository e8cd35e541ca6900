"""`kappasharp run`, end to end: progress, Ctrl-C, a killed runner, two runners at once, failures, and clear words."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from click.testing import CliRunner

from kappasharp.cli.main import main
from kappasharp.errors import install_command
from kappasharp.lab.analysis import report
from kappasharp.lab.store import Store
from kappasharp.problems.problem import Problem
from tests.lab import synthetic, tiny

# One run per block, so that a run can be interrupted between two of them.
LONGER = tiny.TOML.replace("queries = 3", "queries = 4\nblock_size = 1")


@pytest.fixture
def toml(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(tiny.TOML)
    return path


def test_where_nothing_can_be_written_is_said_in_a_sentence(toml, tmp_path):
    file = tmp_path / "file"
    file.touch()
    result = run(toml, file / "x")
    assert result.exit_code == 1 and not result.stdout
    assert result.stderr.count("\n") == 1 and "cannot be read or written: Not a directory" in result.stderr


def run(path, out, *options):
    return CliRunner().invoke(main, ["run", str(path), "--out", str(out), "--engine", "serial", *options])


# A runner that has stored a block stands still until it is stopped: however late that comes, the rest is left.
STOPS_SHORT = """
import time
from kappasharp.lab.store import Store
write, written = Store.write, []
def once(*given):
    while written:
        time.sleep(0.01)
    written.append(write(*given))
Store.write = once
"""


def start(path, out, *options, before=""):
    """A runner of its own; it hears Ctrl-C even where the tests run in the background and do not."""
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += f"{before}\nfrom kappasharp.cli.main import main; main()"
    words = [sys.executable, "-c", code, "run", str(path), "--out", str(out), *options]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def results(out):
    """Every stored run by its key, to the last digit."""
    rows = Store(out).existing().read().to_pylist()
    return {row["key"]: tiny.fingerprint(row) for row in rows}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    torch.set_default_dtype(torch.float64)
    folder = tmp_path_factory.mktemp("uninterrupted")
    (folder / "tiny.toml").write_text(LONGER)
    assert run(folder / "tiny.toml", folder / "results").exit_code == 0
    return results(folder / "results")


def everything_in(out):
    return {path.relative_to(out).parts[0] for path in out.rglob("*") if path.is_file()}


def test_a_run_shows_its_progress_and_then_there_is_nothing_to_do(toml, tmp_path):
    out = tmp_path / "deep" / "results"
    first = run(toml, out)
    assert first.exit_code == 0, first.output
    assert "tiny: 8 runs, 0 stored, 8 to do." in first.stderr and "runs/s" in first.stderr
    assert first.stdout == f"8 runs were added to {out}.\n"
    assert len(results(out)) == 8 and everything_in(out) == {"store.json", "blocks", "experiments"}
    before = {path: path.stat().st_mtime_ns for path in (out / "blocks").iterdir()}
    second = run(toml, out, "-f", "json")
    assert second.exit_code == 0 and "tiny: 8 runs, 8 stored, 0 to do." in second.stderr
    assert json.loads(second.stdout) == {"experiment": "tiny", "folder": str(out), "runs": 8, "added": 0}
    assert {path: path.stat().st_mtime_ns for path in (out / "blocks").iterdir()} == before


@pytest.mark.parametrize(
    ("signal_sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_runner_that_is_stopped_leaves_whole_files_and_the_next_one_goes_on(
    tmp_path, uninterrupted, signal_sent, code
):
    path, out = tmp_path / "tiny.toml", tmp_path / "results"
    path.write_text(LONGER)
    runner = start(path, out, "--workers", "1", before=STOPS_SHORT)
    while not list((out / "blocks").glob("*.parquet")) and runner.poll() is None:
        time.sleep(0.01)
    # A terminal's Ctrl-C reaches the workers too.
    os.killpg(runner.pid, signal_sent) if signal_sent == signal.SIGINT else runner.send_signal(signal_sent)
    # Its output ends with the last process that holds it: the workers end too.
    _, words = runner.communicate(timeout=120)
    assert runner.returncode == code, words
    if signal_sent != signal.SIGKILL:
        assert "Stopped." in words and "the same command goes on from there." in words
        assert "Traceback" not in words
        assert list((out / "claims").iterdir()) == []
        assert {file.suffix for file in (out / "blocks").iterdir()} == {".parquet"}
    kept = results(out)
    assert len(kept) == 1 and Store(out).open().broken == []
    again = run(path, out)
    assert again.exit_code == 0, again.output
    assert f"{len(kept)} stored, {8 - len(kept)} to do." in again.stderr
    assert list((out / "claims").iterdir()) == []
    assert results(out) == uninterrupted and len(uninterrupted) == 8


def test_a_budget_of_memory_cuts_blocks_and_one_without_room_is_refused(toml, tmp_path):
    out = tmp_path / "results"
    refused = run(toml, out, "--memory", "100MB")
    assert refused.exit_code != 0 and "`memory` must hold a worker with one run" in refused.stderr
    assert "`memory` must be a number with a unit" in run(toml, out, "--memory", "much").stderr
    result = run(toml, out, "--batch", "1", "--memory", "4GB")
    assert result.exit_code == 0, result.output
    assert len(results(out)) == len(list((out / "blocks").iterdir())) == 8


def test_two_runners_share_a_folder(tmp_path, uninterrupted):
    path, out = tmp_path / "tiny.toml", tmp_path / "results"
    path.write_text(LONGER)
    pair = [start(path, out, "--engine", "serial") for _ in range(2)]
    said = [runner.communicate(timeout=300) for runner in pair]
    assert [runner.returncode for runner in pair] == [0, 0], said
    keys = [key for file in (out / "blocks").iterdir() for key in Store(out)._load(file, ["key"])["key"].to_pylist()]
    assert len(keys) == len(set(keys)) == 8
    added = [int(words[0].split()[0]) for words in said]
    assert sum(added) == 8 and list((out / "claims").iterdir()) == []
    assert results(out) == uninterrupted


def test_a_block_that_fails_is_said_and_run_again(toml, tmp_path, monkeypatch):
    out, evaluate = tmp_path / "results", Problem.unit_utility

    def fails(self, points):
        if self.name == "vehicle-5d":
            raise RuntimeError("the simulator is on fire")
        return evaluate(self, points)

    with monkeypatch.context() as patched:
        patched.setattr(Problem, "unit_utility", fails)
        result = run(toml, out)
    assert result.exit_code == 1
    words = "Failed: 2 of 2 runs of baseline, the first on vehicle-5d, pool_n6_k15, modern: RuntimeError: the simulator"
    assert words in result.stderr and result.stdout == f"4 runs were added to {out}.\n"
    again = run(toml, out)
    assert again.exit_code == 0 and "4 stored, 4 to do." in again.stderr
    assert {json.loads(row)["status"] for row in results(out).values()} == {"ok"} and len(results(out)) == 8


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    torch.set_default_dtype(torch.float64)
    folder = tmp_path_factory.mktemp("finished")
    (folder / "tiny.toml").write_text(tiny.TOML)
    assert run(folder / "tiny.toml", folder / "results").exit_code == 0
    return folder / "results"


def test_a_broken_file_is_said_and_run_again(toml, tmp_path, finished):
    out = shutil.copytree(finished, tmp_path / "results")
    whole, path = results(out), next((out / "blocks").iterdir())
    path.write_bytes(path.read_bytes()[:-20])
    again = run(toml, out)
    assert again.exit_code == 0 and "2 to do." in again.stderr
    assert f"{path.stem}." in again.stderr and "could not be read; it was set aside" in again.stderr
    assert results(out) == whole


def refused(result, words, code=2):
    assert result.exit_code == code and ("Usage" in result.stderr) == (code == 2)
    assert "Traceback" not in result.output and words in " ".join(result.stderr.split()), result.stderr


def test_wrong_input_is_a_sentence(toml, tmp_path):
    out = tmp_path / "results"
    toml.write_text(tiny.TOML.replace("static", "statc"))
    refused(run(toml, out), "`tiny.toml`: No method is called 'statc'. Did you mean 'static'?")
    refused(run(tmp_path / "none.toml", out), "There is no experiment file at")
    toml.write_text("problems = [")
    refused(run(toml, out), "is not valid TOML")
    toml.write_text(tiny.TOML + '[variants.again]\nmethod = "static"\n')
    refused(run(toml, out), "Two cells of the experiment are the same run: static under modern and again under modern")
    toml.write_text(tiny.TOML)
    refused(run(toml, out, "--engine", "ray"), "`engine` must be serial, processes or dask://host:port")
    refused(run(toml, out, "--device", "warp"), "`device` must be one that this machine has, but got 'warp'")
    assert not out.exists()


def test_a_folder_that_is_not_its_own_is_a_sentence(toml, tmp_path):
    refused(run(toml, tmp_path), "is not empty and holds no kappasharp results", code=1)
    out = Store(tmp_path / "results").open()
    out.remember("tiny", tiny.TOML.replace("modern", "paper"))
    refused(run(toml, out.folder), "holds results of another experiment called 'tiny'")
    (out.folder / "store.json").write_text('{"schema": 99}')
    refused(run(toml, out.folder), "has results of schema 99", code=1)


def test_a_report_names_what_could_not_be_read(tmp_path, finished, monkeypatch):
    synthetic.draws_nothing(monkeypatch, report)
    out = shutil.copytree(finished, tmp_path / "results")
    path = next((out / "blocks").iterdir())
    path.write_bytes(path.read_bytes()[:-20])
    reported = CliRunner().invoke(main, ["report", str(out), "-f", "json"])
    assert reported.exit_code == 0 and json.loads(reported.stdout)["files"][0].endswith("index.html")
    assert f"{path.stem}." in reported.stderr and "its runs are missing from the report" in reported.stderr


def test_a_missing_library_is_a_sentence(toml, tmp_path):
    code = "import sys; sys.modules['pyarrow'] = None; from kappasharp.cli.main import main; main()"
    words = [sys.executable, "-c", code, "run", str(toml), "--out", str(tmp_path / "results"), "--workers", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"`kappasharp run` needs 'pyarrow': {install_command('lab')}." in done.stderr
