"""What users see is what was recorded, within 1e-9: the part of it that takes seconds.

`python -m tests.recorded compare --exact` compares all of it: every question, every request, every command.
"""

import ast
import copy
import json

import psycopg
import pytest
from sqlalchemy import make_url

from tests.recorded import exports, files, questions, requests, shell
from tests.recorded.differences import differences, masked

EVERY = 5


def now(found):
    """What is found now as a file would hold it."""
    return json.loads(json.dumps(found))


def test_every_fifth_question_is_asked_as_it_was():
    recorded = files.read("questions")
    found = now(questions.again(recorded, EVERY))
    asked = {name: one["questions"] for name, one in found.items()}
    before = {
        name: one | {"questions": {key: one["questions"][key] for key in asked[name]}} for name, one in recorded.items()
    }
    for one in before.values():
        del one["end"]
    assert sum(map(len, asked.values())) == files.count("questions", recorded) // EVERY > 30
    assert files.of("questions", before, found, exact=False) == []


def test_stored_studies_are_exported_and_go_on_as_they_did():
    assert files.compare("exports", exact=False) == []


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
    found = now(exports.of_database(url, tmp_path))
    assert differences(files.read("exports")[version.name], found, exact=False) == []


def test_the_help_of_every_command_is_what_it_was():
    assert differences(files.read("shell")["help"], now(shell.helps()), exact=True) == []


def test_who_may_see_what_is_what_it_was():
    """Every role's files, views that cost nothing, and requests that the server lets nobody make."""
    recorded, found = files.read("requests"), now(requests.record(briefly=True))
    before = {name: recorded["answers"].get(name) for name in found["answers"]}
    assert len(before) > 150
    assert differences(before, found["answers"], exact=False) == []
    assert {name: recorded["headers"].get(name) for name in found["headers"]} == found["headers"]


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
