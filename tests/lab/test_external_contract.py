"""Methods of one's own: the example of the page, a program in any language, and what is said when a rule is broken."""

import json
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from kappasharp.cli.main import main
from kappasharp.errors import InvalidValueError, UnknownNameError
from kappasharp.lab import schedule
from kappasharp.lab.external import contract, methods
from kappasharp.lab.external.contract import RULES, OwnProcess
from kappasharp.lab.run import error_rows, run_together
from kappasharp.lab.schedule import engine
from kappasharp.settings import METHODS
from tests.lab import tiny
from tests.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "benchmark.md").read_text("utf-8")
EXAMPLE, PROGRAM = (
    next(code for code in re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if mark in code)
    for kind, mark in (("python", "class Climber"), ("text", "for line in sys.stdin"))
)
BROKEN = """
import itertools, os, sys, time

COUNT = itertools.count()

class Broken:
    def __init__(self, dimensions, seed):
        self.dimensions, self.seed, self.asked = dimensions, seed, 0
    def ask(self):
        self.asked += 1
        return {ask}
    def tell(self, pair, answer):
        {tell}
    def best(self):
        return {best}
"""
RIGHT = {
    "ask": "[[0.1] * self.dimensions, [0.2] * self.dimensions]",
    "tell": "print('noise on stdout')",
    "best": "None",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with somebody's modules, where the command is called."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "climbing.py").write_text(EXAMPLE, "utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    return tmp_path


def kappasharp(*words):
    result = CliRunner().invoke(main, [*words, "--format", "json"])
    return result.exit_code, result


def test_the_pages_example_is_twenty_lines_and_keeps_every_rule(here):
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 20
    code, result = kappasharp("check-method", "climbing:Climber")
    assert code == 0, result.output
    said = json.loads(result.stdout)
    assert said["kept"] and [rule["name"] for rule in said["rules"]] == list(RULES)


def test_a_program_that_speaks_json_lines_runs_like_any_method(here):
    """It imports nothing of ours, and the same runs come out of it in every process."""
    command = shlex.join([sys.executable, "-I", "program.py"])
    (block,) = tiny.blocks(methods=[], commands={"mine": command}, seeds=[7, 8], queries=3)
    first, again = (run_together([block])[0] for _ in range(2))
    assert [row["status"] for row in first] == ["ok", "ok"]
    assert [row["best_utility"] for row in first] == [row["best_utility"] for row in again]
    assert first[0]["told_utility"] == [None] * 4 and first[0]["method"] == "mine"
    assert json.loads(first[0]["method_values"])["command"] == shlex.split(command)


@pytest.mark.parametrize(
    ("changed", "rule", "words"),
    [
        ({"ask": "[[0.1] * self.dimensions]"}, 2, r"`ask` must return two designs, but got \[\[0.1, 0.1, 0.1\]\]"),
        ({"ask": "[[0.1], [0.2]]"}, 2, r"`ask` must give designs of 3 numbers, but got \[0.1\]"),
        ({"ask": "[[0.1] * self.dimensions, [1.5] * self.dimensions]"}, 2, r"from 0 to 1, but got 1.5"),
        ({"ask": "[[float('nan')] * self.dimensions] * 2"}, 2, r"from 0 to 1, but got nan"),
        ({"tell": "{0: 0, 1: 1}[answer]"}, 1, r"`tell` failed: KeyError: 2 \(.*broken.py, line 13\)"),
        ({"best": "[0.5]"}, 3, r"`best` must give designs of 3 numbers"),
        ({"best": "[1 / self.asked] * self.dimensions"}, 3, r"`best` failed: ZeroDivisionError"),
        ({"ask": "[[next(COUNT) / 100] * self.dimensions] * 2"}, 4, r"The same seed and answers must give the same"),
        ({"ask": "time.sleep(60)"}, 2, r"`ask` must be answered within 2 seconds, but was not"),
        ({"ask": "os._exit(3)"}, 2, r"`ask` must be answered, but the process ended with the code 3.*noise on stdout"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_said_with_evidence(here, changed, rule, words):
    (here / "broken.py").write_text(BROKEN.format(**(RIGHT | changed)), "utf-8")
    patience = 2.0 if "sleep" in changed.get("ask", "") else 60.0
    found = list(contract.check(contract.command("broken:Broken"), seconds=patience))
    assert [one.name for one in found] == list(RULES[: rule + 1])
    assert all(one.broken is None for one in found[:-1]) and re.search(words, found[-1].broken, re.DOTALL)


def test_what_is_no_method_is_refused_before_a_run(here):
    with pytest.raises(InvalidValueError, match=r"called `module:factory`.*but got 'nowhere:Thing'"):
        methods.find("nowhere:Thing", METHODS)
    with pytest.raises(UnknownNameError, match="Did you mean 'baseline'"):
        methods.find("baselin", METHODS)
    (rule,) = contract.check(contract.command("climbing:Nothing"))
    assert rule.name == RULES[0] and "has no attribute 'Nothing'" in rule.broken
    (rule,) = contract.check(["no-such-program"])
    assert "'no-such-program' cannot be started" in rule.broken
    code, result = kappasharp("check-method")
    assert code and "either MODULE:FACTORY or --method-command" in result.output
    code, result = kappasharp("check-method", "--method-command", "mine=no-such-program")  # as `run` takes it
    assert code and "'no-such-program' cannot be started" in result.output


def test_a_changed_source_is_another_method(here):
    before = tiny.blocks(methods=["climbing:Climber"])[0].keys
    assert tiny.blocks(methods=["climbing:Climber"])[0].keys == before
    (here / "climbing.py").write_text(EXAMPLE + "\n# changed\n", "utf-8")
    assert not set(tiny.blocks(methods=["climbing:Climber"])[0].keys) & set(before)


def test_an_entry_point_is_a_method(here, monkeypatch):
    made = here / "theirs-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
    (made / "entry_points.txt").write_text("[kappasharp.methods]\nclimber = climbing:Climber\n", "utf-8")
    monkeypatch.syspath_prepend(here)
    assert methods.find("climber", METHODS).factory == "climbing:Climber"


def test_a_failed_run_is_a_row_and_stops_no_other(here):
    """The second seed's run dies; the first and the third are whole, and the next command runs the second again."""
    text = BROKEN.format(**RIGHT) + f"\nfrom pathlib import Path\nhere = Path({str(here)!r})\n"
    once = textwrap.dedent("""
        class Once(Broken):
            def ask(self):
                if not (here / "second").exists() and (here / "first").exists():
                    (here / "second").touch()
                    os._exit(4)
                (here / "first").touch() if self.asked == 2 else None
                return super().ask()
    """)
    (here / "broken.py").write_text(text + once, "utf-8")
    path = here / "own.toml"
    path.write_text(
        'problems = ["hartmann-6d"]\ninitializations = ["pool_n6_k15"]\nmethods = ["broken:Once"]\n'
        'presets = ["modern"]\nseeds = 3\nqueries = 3\n', "utf-8",
    )  # fmt: skip
    todo = schedule.plan(path, here / "out")
    (step,) = schedule.run_missing(todo, engine("serial"))
    assert (step.runs, step.failed) == (3, 1) and "the process ended with the code 4" in step.error
    rows = todo.store.read().to_pylist()
    assert [row["status"] for row in rows] == ["ok", "error", "ok"]
    assert rows[1]["error"] == step.error and rows[1]["final_best"] is None and rows[2]["n_points"] == [6, 8, 8, 8]
    left = schedule.plan(path, here / "out").left
    assert [block.seeds for block in left] == [(1,)]


def test_a_process_ends_with_its_run():
    with OwnProcess(contract.command("kappasharp.lab.libraries:RandomKing")) as player:
        player.begin(3, 7)
        running = player.process
        assert running.poll() is None
    assert running.poll() is not None


def test_a_method_ends_with_a_runner_that_is_killed_while_it_thinks(here):
    """A question of an hour is under way when the runner is killed."""
    ask = "open('thinks', 'w').write(str(os.getpid())), time.sleep(3600)"
    (here / "slow.py").write_text(BROKEN.format(**RIGHT | {"ask": ask}), "utf-8")
    asking = (
        "from kappasharp.lab.external import contract; player = contract.OwnProcess(contract.command('slow:Broken')); "
    )
    runner = subprocess.Popen([sys.executable, "-c", asking + "player.begin(3, 7); player.ask()"], cwd=here)
    thinks = here / "thinks"
    wait_until(lambda: thinks.exists() and thinks.read_text())
    runner.kill()
    runner.wait()
    wait_until(lambda: not is_alive(int(thinks.read_text())))


def is_alive(number):
    """Whether a process runs; one that has ended and is not yet collected does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("parameters", "heard"), [("", [None] * 3), (", voter=None", [2, 0, None])])
def test_who_answers_is_told_to_a_method_that_wants_to_know(here, parameters, heard):
    (here / "listening.py").write_text(
        textwrap.dedent(f"""
        class Listener:
            def __init__(self, dimensions, seed):
                self.heard = []
            def ask(self{parameters}):
                self.heard.append(locals().get("voter"))
                return [[0.1, 0.2], [0.3, 0.4]]
            def tell(self, pair, answer{parameters}):
                self.heard.append(locals().get("voter"))
            def best(self):
                raise ValueError(repr(self.heard))
        """),
        "utf-8",
    )
    with OwnProcess(contract.command("listening:Listener")) as player:
        player.begin(2, 1)
        player.tell(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), 1, 2)
        player.ask(0)
        player.ask()
        with pytest.raises(contract.MethodError, match=re.escape(repr(heard))):
            player.best()


def test_a_factory_that_is_not_there_costs_no_run(here):
    toml = here / "typo.toml"
    toml.write_text(tiny.TOML.replace('["baseline", "static"]', '["climbing:Climbre"]'), "utf-8")
    result = CliRunner().invoke(main, ["run", str(toml), "--out", "out", "--engine", "serial"])
    assert result.exit_code and "climbing:Climbre cannot begin, so nothing was run" in result.output
    assert "has no attribute 'Climbre'" in result.output and not list((here / "out" / "blocks").glob("*"))


def test_more_questions_find_what_four_do_not(here):
    late = "[[0.1] * self.dimensions, [0.2 if self.asked < 9 else 1.2] * self.dimensions]"
    (here / "broken.py").write_text(BROKEN.format(**(RIGHT | {"ask": late})), "utf-8")
    assert kappasharp("check-method", "broken:Broken")[0] == 0
    code, result = kappasharp("check-method", "broken:Broken", "--questions", "10")
    assert code and "from 0 to 1, but got 1.2" in result.output


def test_in_a_suite_a_failure_is_not_tried_again(here):
    """Of an experiment it is; a worker that was lost is no failure of the method's."""
    text = BROKEN.format(**(RIGHT | {"ask": "open('lucky') and [[0.1] * self.dimensions, [0.2] * self.dimensions]"}))
    (here / "broken.py").write_text(text, "utf-8")
    table = {"methods": ["broken:Broken"], "suite": "mine-1 abc"}
    left = {}
    for suite in ("", "mine-1 abc"):
        plan = tiny.experiment(**(table | {"suite": suite}))
        todo = schedule.plan_all("mine", [(plan, "")], here / f"out{suite[:4]}")
        assert {step.failed for step in schedule.run_missing(todo, engine("serial"))} == {2}
        again = schedule.plan_all("mine", [(plan, "")], here / f"out{suite[:4]}")
        left[suite] = again.n_left, again.n_failed
    assert left == {"": (2, 0), "mine-1 abc": (0, 2)}
    lost = schedule.plan_all("mine", [(tiny.experiment(**table), "")], here / "lost")
    lost.store.write("block", error_rows(lost.left[0], "the worker died"))
    assert schedule.plan_all("mine", [(tiny.experiment(**table), "")], here / "lost").n_left == 2


def test_a_program_is_text():
    with pytest.raises(InvalidValueError, match="must be a program as text, but got 3"):
        tiny.blocks(commands={"mine": 3})


def test_a_module_has_no_ending(here):
    with pytest.raises(InvalidValueError, match="named without its ending: climbing:Climber"):
        methods.find("climbing.py:Climber", METHODS)
