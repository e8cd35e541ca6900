"""What users see is what was recorded, within 1e-9: the part of it that takes seconds.

`python -m tests.recorded compare --exact` compares all of it: every question, every request, every command.
"""

import ast
import copy
import json
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import psycopg
import pytest
from sqlalchemy import make_url

from tests.recorded import exports, files
from tests.recorded.differences import differences, masked
from tests.recorded.server import environment


@pytest.mark.parametrize("part", files.PARTS)
def test_what_users_see_is_what_was_recorded(part, tmp_path):
    """In a process of its own: a first question hangs on torch's default precision, which tests change."""
    words = [sys.executable, "-m", "tests.recorded", "compare", "--briefly", "--only", part]
    env = environment(tmp_path, "sqlite://")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=250, env=env)
    assert done.returncode == 0 and f"{part}: 0 differences" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("version", exports.versions(), ids=lambda version: version.name)
def test_on_postgresql_too(version, postgres, tmp_path):
    address = make_url(postgres)
    plain = address.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as database:
        database.execute("DROP SCHEMA public CASCADE")
        database.execute("CREATE SCHEMA public")
        tables, reset, _ = (version / "postgresql.sql").read_text("utf-8").partition("SELECT setval")
        for text in (tables, (version / "rows.sql").read_text("utf-8"), reset + _):
            database.execute(text)
    url = address.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = json.loads(json.dumps(pool.submit(exports.of_database, url, tmp_path).result()))
    assert differences(files.read("exports")[version.name], found, exact=True) == []


def test_no_inner_module_is_named():
    """So that all of them may be moved, and this still says whether anything changed for a user."""
    named = set()
    for file in files.FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                named |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert {name for name in named if name.split(".")[0] == "kappasharp"} == {"kappasharp"}


def test_the_comparison_bites():
    recorded = files.read("questions")
    other = copy.deepcopy(recorded)
    assert files.of("questions", recorded, other, exact=True) == []
    asked = other["pairs"]["questions"]["after 0"]
    asked["designs"][0]["x"] += 5e-12
    assert files.of("questions", recorded, other, exact=False) == []
    (said,) = files.of("questions", recorded, other, exact=True)
    assert said.startswith("questions/pairs/questions/after 0/designs/0/x: recorded 0.")
    asked["designs"][0]["x"] += 5e-9
    assert len(files.of("questions", recorded, other, exact=False)) == 1
    del asked["voter"], other["mixed"]
    assert len(files.of("questions", recorded, other, exact=False)) == 3


@pytest.mark.parametrize(
    ("old", "new", "exact", "count"),
    [
        (1.0, 1.0 + 1e-10, False, 0),
        (1.0, 1.0 + 1e-10, True, 1),
        (1e6, 1e6 + 1e-4, False, 0),
        (0.0, -0.0, True, 1),
        (1, 1.0, True, 1),
        (True, 1, False, 1),
        (None, 0.0, False, 1),
        ([1], [1, 2], False, 1),
        ({"bytes": "x"}, {"bytes": "y"}, False, 0),
        ({"bytes": "x"}, {"bytes": "y"}, True, 1),
        ({"a": 1}, {"b": 1}, False, 2),
    ],
)
def test_what_is_a_difference(old, new, exact, count):
    assert len(differences(old, new, exact=exact)) == count


def test_the_range_of_a_parameter_is_what_its_difference_is_measured_by():
    assert differences({"x": 0.5}, {"x": 0.5 + 1e-10}, exact=False, scales={"x": 1e-3}) != []
    assert differences({"x": 0.5}, {"x": 0.5 + 1e-7}, exact=False, scales={"x": 1e3}) == []


def test_what_is_dated_or_random_is_replaced():
    text = f"made 2026-01-02T03:04:05.678+00:00 at http://127.0.0.1:43210/join#a_b-c by {'0f' * 24} in /tmp/x"
    assert masked(text, ("/tmp/x", "FOLDER")) == "made TIME at http://127.0.0.1:PORT/join#CODE by KEY in FOLDER"
