"""Simulators beside the analytic problems: shared out among real processes, or missing."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from kappasharp import errors
from kappasharp.errors import InvalidValueError, KappaSharpError, MissingLibraryError, needed
from kappasharp.problems import plasma_jet, robot_push, worker_pool
from kappasharp.problems.registry import find_problem


@pytest.fixture
def two_processes(monkeypatch):
    monkeypatch.setenv("KAPPASHARP_WORKERS", "2")
    yield
    worker_pool._pool(2).shutdown()
    worker_pool._pool.cache_clear()


def points(name, count):
    row = find_problem(name)
    return torch.rand(count, row.dimensions, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


@pytest.mark.usefixtures("two_processes")
def test_two_processes_give_what_one_gives_in_the_same_order(monkeypatch):
    names = ("plasma-16d", "robotpush-14d", "robotpush-14d-noisy")
    shared = {name: find_problem(name).unit_utility(points(name, 9)) for name in names}
    # Nothing is left to do in this process.
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(plasma_jet, "treat", None)
        assert torch.equal(find_problem("plasma-16d").unit_utility(points("plasma-16d", 9)), shared["plasma-16d"])
    monkeypatch.setenv("KAPPASHARP_WORKERS", "1")
    for name in names:
        alone = find_problem(name).unit_utility(points(name, 9))
        assert len(alone.unique()) > 3
        assert torch.equal(shared[name], alone)


def test_one_process_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("KAPPASHARP_WORKERS", raising=False)
    assert worker_pool.workers_wanted() == 1
    monkeypatch.setenv("KAPPASHARP_WORKERS", "3")
    assert worker_pool.workers_wanted() == 3


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "many", "", "²"])
def test_a_number_of_processes_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("KAPPASHARP_WORKERS", text)
    words = rf"`KAPPASHARP_WORKERS` must be a whole number from 1 up, but got '{text}'\."
    with pytest.raises(InvalidValueError, match=words):
        find_problem("robotpush-14d").unit_utility(points("robotpush-14d", 2))


def test_each_point_is_simulated_once_in_its_order():
    seen = []

    def simulate(point):
        seen.append(point)
        return sum(point)

    X = torch.arange(12.0).reshape(4, 3)
    assert worker_pool.each(simulate, X).tolist() == [3.0, 12.0, 21.0, 30.0]
    assert seen == X.tolist()
    assert worker_pool.each(simulate, X.float()).dtype == torch.float32


def test_a_library_that_is_there_is_returned():
    assert needed("math", "The problem levy-10d", "lab").sqrt(4.0) == 2.0


def test_a_missing_library_is_a_sentence_with_the_command():
    words = (
        r"The problem plasma-16d needs the library 'no_such_module'.*`python -m pip install '.*\[lab\]'` installs it\."
    )
    with pytest.raises(MissingLibraryError, match=words) as caught:
        needed("no_such_module", "The problem plasma-16d", "lab")
    assert isinstance(caught.value, KappaSharpError) and isinstance(caught.value, ImportError)


@pytest.mark.parametrize(
    ("url", "command"),
    [
        (None, "`python -m pip install 'kappasharp[lab]'`"),
        ("file:///", "`python -m pip install '/[lab]'`"),
        ("file:///no%20such/clone", "`python -m pip install '.[lab]'` in a clone"),
        ("https://example.org/kappasharp.whl", "`python -m pip install '.[lab]'` in a clone"),
    ],
)
def test_an_extra_comes_from_where_the_package_came_from(monkeypatch, url, command):
    found = None if url is None else json.dumps({"url": url, "dir_info": {}})
    monkeypatch.setattr(errors, "distribution", lambda _: SimpleNamespace(read_text=lambda _: found))
    assert errors.install_command("lab") == command


@pytest.mark.parametrize(("name", "library"), [("plasma-16d", "daqp"), ("robotpush-14d", "Box2D")])
def test_a_problem_without_its_library_says_which(monkeypatch, name, library):
    monkeypatch.setitem(sys.modules, library, None)
    robot_push.check_engine.cache_clear()
    with pytest.raises(MissingLibraryError, match=f"The problem {name} needs the library '{library}'"):
        find_problem(name).unit_utility(points(name, 1))


@pytest.mark.parametrize("problem", ["plasma-16d", "robotpush-14d"])
def test_a_library_is_imported_where_every_warning_is_an_error(problem):
    """The engine's wheel warns as it is imported, and would end the process."""
    code = f"from kappasharp.problems.registry import find_problem as p; import torch; d = p({problem!r}).dimensions; "
    code += f"print(p({problem!r}).unit_utility(torch.full((1, d), 0.5, dtype=torch.float64)))"
    ended = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_where_the_engine_has_no_wheel_the_commands_that_build_it_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.setattr(robot_push, "HAS_WHEEL", False)
    with pytest.raises(MissingLibraryError) as caught:
        robot_push.reward(robot_push.KNOWN_POINT)
    assert all(command in str(caught.value) for command in robot_push.BUILD)
