"""`kappasharp simulate`: a rehearsal that leaves the study alone, says the truth, and is the same for the same seed."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.cli.shell import Shell, answer


@pytest.fixture
def shell(tmp_path):
    found = Shell(tmp_path)
    found("new", "s", "-p", "x=0:1", "-p", "n=int:1:5", "-p", "mode=a,b,c")
    return found


def everything(shell):
    with closing(sqlite3.connect(shell.folder / "studies.db")) as connection:
        return list(connection.iterdump())


def test_the_study_is_not_touched(shell):
    answer(shell, "s", "ab")
    before = everything(shell)
    rows = shell.json("simulate", "s", "--questions", "7")
    assert [row["answers"] for row in rows] == [5, 7]
    assert everything(shell) == before
    assert len(shell.json("log", "s")) == 2 and [row["name"] for row in shell.json("studies")] == ["s"]


def test_the_same_seed_gives_the_same_rows(shell):
    first = shell("simulate", "s", "--questions", "6", "--seed", "1", "-f", "json")
    assert first.stdout == shell("simulate", "s", "--questions", "6", "--seed", "1", "-f", "json").stdout
    assert first.stdout != shell("simulate", "s", "--questions", "6", "--seed", "2", "-f", "json").stdout
    assert "   6 answers: preferred to" in first.stderr


def test_a_file_is_rehearsed_without_a_database(shell, tmp_path):
    (tmp_path / "tea.toml").write_text("first_pairs = 2\n[parameters]\nx = {low = 0, high = 1}\nflag = [true, false]\n")
    table = shell("simulate", tmp_path / "tea.toml", "--questions", "3", "--storage", "sqlite:////nowhere/x.db").stdout
    head, row = table.splitlines()
    assert head.split() == ["answers", "preferred", "truly_preferred", "room_left", "true_room_left"]
    assert row.split()[0] == "3" and all(cell.endswith("%") for cell in row.split()[1:])


def test_wrong_words_are_sentences(shell):
    shell.refused("simulate", "s", "--person", "hestant", code=2, says="Did you mean 'hesitant'?")
    shell.refused("simulate", "s", "--questions", "0", code=2, says="0 is not in the range")


@pytest.mark.parametrize("question", ["choice:3", "order:4", "slider:2", "slider:4", "rating"])
def test_a_simulated_person_answers_every_kind(tmp_path, question):
    shell = Shell(tmp_path)
    shell("new", "s", "-p", "x=0:1", "-p", "y=0:1", "--question", question)
    said = shell("simulate", "s", "--questions", "10", "--person", "human", "-f", "json")
    assert f"10 questions ({question})" in said.stderr
    assert json.loads(said.stdout)[-1]["truly_preferred"] > 0.7


def test_a_study_is_rehearsed_with_another_kind_of_question(shell, tmp_path):
    said = shell("simulate", "s", "--questions", "3", "--question", "choice:3", "-f", "json")
    assert "3 questions (choice:3)" in said.stderr
    shell("new", "c", "-p", "x=0:1", "-p", "n=int:1:5", "-p", "mode=a,b,c", "--question", "choice:3")
    assert shell("simulate", "c", "--questions", "3", "-f", "json").stdout == said.stdout
    (tmp_path / "tea.toml").write_text("[parameters]\nx = {low = 0, high = 1}\n")
    assert (
        "1 questions (rating)"
        in shell("simulate", tmp_path / "tea.toml", "--questions", 1, "--question", "rating").stderr
    )
    shell.refused("simulate", "s", "--question", "choce", code=2, says="`--question` must be")
