"""docs/architecture.md's table of files is the one that the modules' docstrings make."""

import importlib.util
from pathlib import Path

import pytest

from tests.house.test_floors import FLOORS

ROOT = Path(__file__).parents[2]
FRONT_DOOR = "__init__"


@pytest.fixture(scope="module")
def files():
    spec = importlib.util.spec_from_file_location("file_table", ROOT / "docs" / "file_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_what_the_docstrings_say(files):
    page = files.PAGE.read_text("utf-8")
    assert files.renewed(page) == page, "`python docs/file_table.py` writes the table anew."


def test_every_file_says_what_it_holds(files):
    sources = files.read_sources()
    assert [name for name, source in sources.items() if len(files.first_sentence(source).split()) < 3] == []
    assert {"inference/laplace.py", "cli/main.py", "__init__.py"} <= set(sources)


def test_rooms_stand_in_the_order_of_their_floors(files):
    floors = [FLOORS["kappasharp" if room == FRONT_DOOR else room.replace("/", ".")] for room in files.ROOMS]
    assert floors == sorted(floors) and len(floors) == len(FLOORS)


def test_the_check_bites(files, monkeypatch):
    monkeypatch.setattr(
        files, "read_sources", lambda: {"core/a.py": '"""One, as in\n2.5 | x. Two."""', "errors.py": "'E'"}
    )
    page = f"before\n{files.BEGIN}| old |\n{files.END}after\n"
    table = "\n| file | holds |\n| --- | --- |\n| `errors.py` | E |\n| `core/a.py` | One, as in 2.5 \\| x |\n\n"
    assert files.renewed(page) == f"before\n{files.BEGIN}{table}{files.END}after\n"
    with pytest.raises(SystemExit, match="must hold the lines"):
        files.renewed("no markers")
