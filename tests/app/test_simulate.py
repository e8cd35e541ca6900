"""`kappasharp simulate`: a rehearsal that leaves the study alone, says the truth, and is the same for the same seed."""

import sqlite3
from contextlib import closing

import pytest
import torch

import kappasharp as ks
from kappasharp.problems import oracle
from kappasharp.study import rehearsal
from kappasharp.study.questions import sobol
from kappasharp.study.study import Study
from tests.app.shell import Shell, answer


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


def test_the_truth_is_true():
    definition = ks.create_study({"x": (0.0, 1.0), "mode": ["a", "b", "c"]}, storage="sqlite://").definition
    utility, top = rehearsal.taste(definition.space, 3)
    felt = torch.tensor([utility(design) for design in sobol(definition, 0, rehearsal.ORDINARY)])
    assert float(felt.std()) == pytest.approx(1.0, rel=0.05)  # drawn from another sequence than the scale was
    assert float(felt.max()) <= top + 1e-12 and float(felt.max()) == pytest.approx(top, abs=0.05)


def test_a_row_compares_with_what_the_person_feels(monkeypatch):
    definition = ks.create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage="sqlite://").definition
    seen, best = [], Study.best.fget
    monkeypatch.setattr(Study, "best", property(lambda study: seen.append(best(study)) or seen[-1]))
    rows = list(rehearsal.rehearse(definition, 12, oracle.person("exact"), 0))
    utility, top = rehearsal.taste(definition.space, 0)
    everyone = [utility(design) for design in sobol(definition, 0, rehearsal.ORDINARY)]
    assert [row.answers for row in rows] == [5, 10, 12]
    for row, found in zip(rows, seen, strict=True):
        here = utility(found.params)
        assert row.preferred == found.beats_random and row.room_left == found.room_left
        below = sum(one < here for one in everyone) + 0.5 * sum(one == here for one in everyone)
        assert row.truly_preferred == pytest.approx(below / len(everyone))
        assert row.true_room_left == pytest.approx((top - here) / (top - sum(everyone) / len(everyone)))
    assert rows[-1].truly_preferred > 0.8


def test_someone_who_hesitates_answers_ties(monkeypatch):
    told, tell = [], Study.tell
    monkeypatch.setattr(Study, "tell", lambda study, pair, answer: told.append(answer) or tell(study, pair, answer))
    definition = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://").definition
    list(rehearsal.rehearse(definition, 5, oracle.Person(noise=0.0, just_noticeable=100.0), 0))
    assert told == ["tie"] * 5
