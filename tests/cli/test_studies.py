"""A study through its commands: data on stdout, talk on stderr, exit codes, and sentences for what is refused."""

import csv
import json
import re
import sqlite3

import pytest

import kappasharp as ks
from kappasharp.cli import answer_keys
from kappasharp.exchange import study_json
from kappasharp.questions import kind
from kappasharp.store import invites
from kappasharp.store.storage import Storage
from tests.cli.shell import Shell, answer

PARAMETERS = ("-p", "kp=0.2:3", "-p", "ki=1e-3:2:log", "-p", "n=int:1:8", "-p", "mode=soft,hard", "-p", "c=7")
NAMES = ["kp", "ki", "n", "mode", "c"]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """A study with eight answers, for commands that only read."""
    shell = Shell(tmp_path_factory.mktemp("answered"))
    shell("new", "pid", *PARAMETERS, "--seed", "3")
    answer(shell, "pid", "abtasabba")
    return shell


def stored(shell, name="pid"):
    return ks.load_study(name, storage=shell.url)


def test_a_whole_study(shell):
    made = shell("new", "pid", *PARAMETERS, "--seed", "3")
    assert made.stdout == "pid\n"
    assert "`kappasharp ask pid` gives the first pair" in made.stderr and "studies.db" in made.stderr

    first = shell.json("ask", "pid")
    assert first == shell.json("ask", "pid") and first["origin"] == "start" and first["voter"] == "me"
    assert list(first["a"]) == list(first["b"]) == NAMES and first["a"] != first["b"]

    for word in ("a", "b", "tie", "skip", "a", "b", "a", "B"):
        pair = shell.json("ask", "pid")
        told = shell.json("tell", "pid", word)
        assert told["pair"] == pair["pair"] and told["answer"] == word.lower() and told["voter"] == "me"
    assert [one.answer for one in stored(shell).history.comparisons.values()] == "a b tie skip a b a b".split()

    back = shell.json("undo", "pid")
    assert back["pair"] == pair["pair"] and (back["a"], back["b"]) == (pair["a"], pair["b"])
    assert shell.json("ask", "pid") == pair and len(stored(shell).history.comparisons) == 7
    shell("tell", "pid", "tie", "--pair", pair["pair"])

    study = stored(shell)
    events, coming = study.plain()["events"], study.propose()
    best = shell.json("best", "pid")
    assert best["params"] == dict(study.best_params) and best["n_comparisons"] == 7 and best["status"] == "ok"
    assert best["beats_random"] == pytest.approx(study.best.beats_random)
    assert best["advice"]["sentence"] == str(study.best.advice)
    rows = shell.json("log", "pid")
    assert [row["answer"] for row in rows] == "a b tie skip a b a tie".split()
    assert rows[0]["a_params_kp"] == first["a"]["kp"] and rows[0]["b_params_mode"] == first["b"]["mode"]
    found = shell.json("diagnose", "pid")
    assert (found["n_comparisons"], found["n_ties"], found["n_skips"], found["voters"]) == (7, 2, 1, {"me": 7})

    files = {
        ending: shell.json("export", "pid", f"pid.{ending}")["path"] for ending in ("json", "csv", "parquet", "html")
    }
    assert files == {ending: f"pid.{ending}" for ending in files}
    assert shell("delete", "pid", "--yes").stdout == ""
    shell.refused("best", "pid", code=2, says="There is none yet")

    again = shell.json("import", "pid.json", "--name", "again")
    assert again == {"study": "again", "storage": shell.url, "answers": 7}
    copy = stored(shell, "again")
    assert copy.plain()["events"] == events and dict(copy.best_params) == best["params"]
    assert shell.json("ask", "again")["a"] == coming.a
    assert [row["name"] for row in shell.json("studies")] == ["again"]


def test_files_hold_the_study(answered, tmp_path):
    rows = stored(answered).rows("comparisons")
    answered("export", "pid", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["answer"] for row in read] == [row["answer"] for row in rows]
    assert [float(row["a_params_ki"]) for row in read] == [row["a_params_ki"] for row in rows]
    answered("export", "pid", tmp_path / "x.parquet", "--table", "options")
    parquet = pytest.importorskip("pyarrow.parquet")
    options = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["params_mode"] for row in options] == [design["mode"] for design in stored(answered).history.options]
    answered("export", "pid", tmp_path / "x.json")
    assert len(json.loads((tmp_path / "x.json").read_text())["events"]) == stored(answered).history.number
    earlier = answered.json("export", "pid", tmp_path / "then.json", "--through", 4)
    assert earlier == {"study": "pid", "path": str(tmp_path / "then.json")}
    assert len(json.loads((tmp_path / "then.json").read_text())["events"]) == 4
    answered("export", "pid", tmp_path / "then.html", "--through", 4)
    assert "Up to answer 2 (event 4); answers that count: 2." in (tmp_path / "then.html").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"x.csv", "x.parquet", "x.json", "then.json", "then.html"}


def test_tables_are_for_people(answered):
    best = answered("best", "pid").stdout
    study = stored(answered)
    assert [line.split()[0] for line in best.splitlines()[:5]] == NAMES
    assert f"preferred to  {study.best.beats_random:.0%} of designs" in best and str(study.best.advice) in best
    assert answered("log", "pid").stderr == ""
    log = answered("log", "pid").stdout.splitlines()
    assert log[0].split() == ["event", "pair", "time", "voter", "answer", "a", "b"] and len(log) == 10
    assert [line.split()[4] for line in log[1:]] == "a b tie a skip a b b a".split()
    assert answered("diagnose", "pid").stdout.rstrip() == str(study.diagnostics())
    listed = answered("studies").stdout.splitlines()
    assert listed[0].split()[:4] == ["name", "parameters", "answers", "voters"]
    assert listed[1].split()[:4] == ["pid", "4", "8", "1"]


def test_a_pair_marks_where_its_designs_differ(shell):
    shell("new", "x", "-p", "kp=0:1", "-p", "c=7")
    asked = shell("ask", "x")
    head, moving, fixed = asked.stdout.splitlines()
    pair = stored(shell, "x").ask()
    assert head.split() == ["parameter", "A", "B"]
    assert moving.split() == ["≠", "kp", f"{pair.a['kp']:.5g}", f"{pair.b['kp']:.5g}"]
    assert fixed.split() == ["c", "7", "7"]
    assert f"Pair {pair.number}." in asked.stderr and "`kappasharp tell x a`" in asked.stderr


def test_new_says_what_it_made(shell):
    made = shell.json("new", "x", *PARAMETERS, "--method", "adaptive", "--preset", "paper", "--seed", "9")
    assert (made["study"], made["storage"]) == ("x", shell.url)
    assert (made["seed"], made["method"], made["preset"], made["first_pairs"]) == (9, "adaptive", "paper", 5)
    assert made["space"] == stored(shell, "x").space.definition()


@pytest.mark.parametrize(
    ("entry", "parameter"),
    [
        ("x=0.2:3", ks.Float(0.2, 3)),
        ("x=-1:1e2", ks.Float(-1, 100.0)),
        ("x=1e-3:2:log", ks.Float(1e-3, 2, log=True)),
        ("x=int:1:8", ks.Int(1, 8)),
        ("x=int:1:1000:log", ks.Int(1, 1000, log=True)),
        ("x=soft,hard", ks.Categorical(("soft", "hard"))),
        ("x=1, 2.5, auto", ks.Categorical((1, 2.5, "auto"))),
        ("x=true,false", ks.Categorical((True, False))),
        ("x=a=b,c=d", ks.Categorical(("a=b", "c=d"))),
    ],
)
def test_every_form_of_a_parameter(shell, entry, parameter):
    shell("new", "s", "-p", entry)
    found = stored(shell, "s").space.parameters["x"]
    assert found == parameter and repr(found) == repr(parameter)


def test_one_value_is_fixed(shell):
    shell("new", "s", "-p", "x=0:1", "-p", "c=7", "-p", "word=inf", "-p", "flag=true")
    assert stored(shell, "s").space.fixed == {"c": 7, "word": "inf", "flag": True}


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([], "A study needs parameters: `--param kp=0.2:3`"),
        (["x"], "`--param` must be name=low:high or name=choice,choice, but got 'x'"),
        (["=0:1"], "but got '=0:1'"),
        (["x="], "but got 'x='"),
        (["x=0:1:lg"], "but got 'x=0:1:lg'"),
        (["x=0:1:log:2"], "but got 'x=0:1:log:2'"),
        (["x=int:8"], "name=int:low:high, but got 'x=int:8'"),
        (["x=a,"], "`--param` must have a text between commas, but got 'x=a,'"),
        (["x=0:1", "x=0:2"], "`--param` must name each parameter once, but got 'x' twice"),
        (["x=1:0"], "must have low < high, but got low=1, high=0"),
        (["x=0:1:log"], "must have low > 0"),
        (["x=0:nan"], "must be a number, but got 'nan'"),
        (["x=int:0.5:8"], "must be a whole number, but got 0.5"),
        (["x=a,a"], "must not have a choice twice"),
        (["c=7"], "must hold a parameter to tune"),
    ],
)
def test_a_bad_parameter_is_a_sentence(shell, entries, says):
    words = [word for entry in entries for word in ("-p", entry)]
    shell.refused("new", "x", *words, code=2, says=says)
    assert not (shell.folder / "studies.db").exists()


def test_bad_options_are_sentences(shell):
    one = ("-p", "x=0:1")
    shell.refused("new", "s", *one, "--method", "adaptve", code=2, says="Did you mean 'adaptive'?")
    shell.refused("new", "s", *one, "--preset", "moder", code=2, says="Did you mean 'modern'?")
    shell.refused("new", "s", *one, "--seed", "-1", code=2, says="`--seed` must be 0 or more, but got -1")
    shell.refused("new", "s", *one, "--seed", "x", code=2, says="'x' is not a valid integer")
    shell.refused("new", "  ", *one, code=2, says="Error: NAME must be a printable text")
    shell.refused("new", "s", "-p", "kp=3:1", code=2, says="`kp`: a range must have low < high, but got low=3, high=1")
    shell.refused("new", "s", *one, "--favourite", "x=9", code=2, says="`--favourite` number 1: `x` must be from")
    shell("new", "s", *one)
    shell.refused("new", "s", *one, code=2, says="A study called 's' is already in")
    assert "load_if_exists" not in shell("new", "s", *one, code=2).stderr
    shell.refused("ask", "s", "--voter", "", code=2, says="`--voter` must be a printable text")
    shell("ask", "s")
    shell.refused("tell", "s", "c", code=2, says="must be a, b, tie or skip, but got 'c'")
    shell.refused("best", "s", code=2, says="The study 's' has no answers yet")
    shell.refused("undo", "s", code=2, says="There is nothing to undo: 'me' has no answer in 's'")
    shell.refused("export", "s", "x.txt", code=2, says="must end in .json, .csv, .parquet or .html")
    shell.refused("export", "s", "x.html", code=2, says="has no answers yet")


@pytest.mark.parametrize("command", ["ask", "undo", "best", "log", "diagnose", "simulate", "delete"])
def test_an_unknown_study_is_refused_with_a_suggestion(answered, command):
    answered.refused(command, "PIDD", code=2, says="is called 'PIDD'. Did you mean 'pid'? There are: pid.")


@pytest.mark.parametrize("command", ["ask", "undo", "best", "log", "diagnose", "simulate", "delete"])
def test_looking_makes_no_database(shell, command):
    shell.refused(command, "pid", code=1, says=f"There is no database {shell.url} yet")
    assert shell.json("studies") == [] and list(shell.folder.iterdir()) == []


def test_an_answer_is_taken_once(shell):
    shell("new", "s", "-p", "x=0:1")
    shell.refused("tell", "s", "a", code=3, says="No pair is open for 'me'; `kappasharp ask s` gives one.")
    shell("ask", "s")
    shell("tell", "s", "a")
    shell.refused("tell", "s", "b", "--pair", 1, code=3, says="Pair 1 takes no answer: it was answered 'a' already.")
    shell("ask", "s")
    shell.refused("tell", "s", "b", "--pair", 1, code=3, says="Pair 3 is open now")
    shell.refused("tell", "s", "b", "--pair", 99, code=2, says="there is no question 99")
    assert [one.answer for one in stored(shell, "s").history.comparisons.values()] == ["a"]


def test_voters_have_pairs_of_their_own(shell):
    shell("new", "my study", "-p", "x=0:1", "-p", "y=0:1")
    mine, hers = shell.json("ask", "my study"), shell.json("ask", "my study", "--voter", "bench 2")
    assert mine["pair"] != hers["pair"] and mine["a"] != hers["a"]
    said = shell("ask", "my study", "--voter", "bench 2").stderr
    assert "`kappasharp tell 'my study' a --voter 'bench 2'`" in said
    shell.refused(
        "tell", "my study", "a", "--pair", hers["pair"], "--voter", "me", code=2, says="who was asked pair 2, 'bench 2'"
    )
    assert shell.json("tell", "my study", "b", "--pair", hers["pair"])["voter"] == "bench 2"
    shell.refused("undo", "my study", code=2, says="'me' has no answer")
    assert shell.json("undo", "my study", "--voter", "bench 2")["pair"] == hers["pair"]
    assert shell.json("tell", "my study", "b", "--voter", " bench 2 ")["voter"] == "bench 2"


def test_undoing_a_comparison_from_elsewhere_opens_no_pair(shell):
    shell("new", "s", "-p", "x=0:1")
    stored(shell, "s").add_comparison({"x": 0.2}, {"x": 0.8})
    assert shell.json("undo", "s") is None and shell.json("log", "s") == []
    assert "No answers yet" in shell("log", "s").stderr


def test_the_database_and_files_refuse_in_words(shell):
    shell("new", "s", "-p", "x=0:1")
    answer(shell, "s", "a")
    shell.refused("export", "s", "none/x.json", code=1, says="none/x.json could not be written: No such file")
    shell.refused("export", "s", "none/x.html", code=1, says="none/x.html could not be written: No such file")
    shell.refused("import", "none.json", code=1, says="none.json could not be read: No such file")
    (shell.folder / "broken.json").write_text("{")
    shell.refused("import", "broken.json", code=1, says="broken.json is not JSON")
    (shell.folder / "other.json").write_text("{}")
    shell.refused("import", "other.json", code=2, says="must be what `kappasharp export` wrote")
    (shell.folder / "text.db").write_text("this is no database, and long enough to be none " * 50)
    shell.refused("ask", "s", "--storage", "sqlite:///text.db", code=1, says="the file is not a database")
    readable = f"sqlite:///file:{shell.folder / 'studies.db'}?mode=ro&uri=true"
    assert len(shell.json("log", "s", "--storage", readable)) == 1
    shell.refused("ask", "s", "--storage", readable, code=1, says="it may only be read. Nothing was written")
    shell.refused("ask", "s", "--storage", "nonsense", code=1, says="`--storage` must be a URL such as")
    shell.refused(
        "new", "s", "-p", "x=0:1", "--storage", "sqlite:///none/x.db", code=1, says="the file cannot be opened"
    )


def test_a_damaged_study_is_listed_exported_to_where_it_is_whole_and_deleted(shell):
    shell("new", "whole", "-p", "x=0:1")
    shell("new", "damaged", "-p", "x=0:1")
    answer(shell, "damaged", "aab")
    with sqlite3.connect(shell.folder / "studies.db") as connection:
        connection.execute("UPDATE kappasharp_events SET body = replace(body, 'a', 'b') WHERE number = 4")
    connection.close()
    shell.refused("best", "damaged", code=1, says="Event 4 of the study 'damaged' is damaged or missing")
    listed = shell("studies", "-f", "json")
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert rows["whole"]["answers"] == 0 and rows["damaged"]["answers"] is None
    assert "Event 4 of the study 'damaged'" in listed.stderr
    shell("export", "damaged", "saved.json", "--through", 3)
    shell("delete", "damaged", "--yes")
    assert shell.json("import", "saved.json")["answers"] == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data["events"][0]["body"]["a"].update(x=7.0),
        lambda data: data["events"][0]["body"].update(a={"y": 1}),
        lambda data: data["events"][1]["body"].update(answer="c"),
        lambda data: data["events"][1]["body"].update(pair=99),
        lambda data: data["events"][1].update(voter=3),
        lambda data: data["events"][1].update(time=3),
        lambda data: data["events"][1].update(kind="shouted"),
        lambda data: data["events"].pop(0),
        lambda data: data.update(name="\x1b[2J"),
        lambda data: data.pop("definition"),
    ],
)
def test_a_spoilt_file_is_not_imported(shell, spoil):
    shell("new", "s", "-p", "x=0:1")
    answer(shell, "s", "ab")
    shell("export", "s", "s.json")
    shell("delete", "s", "--yes")
    data = json.loads((shell.folder / "s.json").read_text())
    spoil(data)
    (shell.folder / "s.json").write_text(json.dumps(study_json.sealed(data)))
    shell.refused("import", "s.json", code=1, says="s.json cannot be read as a study")
    assert shell.json("studies") == []


def test_delete_asks_first(shell):
    shell("new", "s", "-p", "x=0:1")
    answer(shell, "s", "a")
    asked = shell("delete", "s", typed="n\n", code=1)
    assert asked.stdout == "" and "Remove 's' with 1 answer for good?" in asked.stderr
    assert len(shell.json("studies")) == 1
    assert shell.json("delete", "s", typed="y\n") == {"study": "s", "answers": 1} and shell.json("studies") == []


def test_what_would_move_the_cursor_is_written_out(shell):
    ks.create_study({"x": ["\x1b[2J", "b\nc"]}, storage=shell.url, study_name="s")
    shown = shell("ask", "s").stdout
    assert "\x1b" not in shown and "'\\x1b[2J'" in shown and "'b\\nc'" in shown


def test_storage_may_be_named_beside_the_environment(shell):
    other = f"sqlite:///{shell.folder / 'other.db'}"
    shell("new", "s", "-p", "x=0:1", "--storage", other)
    assert [row["name"] for row in shell.json("studies", "--storage", other)] == ["s"]
    assert shell.json("studies") == []


def test_a_process_of_its_own_writes_data_to_stdout_and_talk_to_stderr(shell):
    code = """
try:
    main(["new", "s", "-p", "x=0:1", "-f", "json"])
except SystemExit as end:
    assert end.code == 0
main(["tell", "s", "a"])
"""
    done = shell.process(code=code, KAPPASHARP_STORAGE="")
    assert done.returncode == 3 and json.loads(done.stdout)["storage"] == "sqlite:///kappasharp.db"
    made, stale = done.stderr.splitlines()
    assert made.startswith("Made in") and (shell.folder / "kappasharp.db").exists()
    assert stale.startswith("Error: No pair is open")


FORMS = {
    "choice:4": ("3", 2),
    "order:4": ("3 1=4 2", [2, [0, 3], 1]),
    "slider:2": ("0.35", 0.35),
    "slider:4": ("0.35", 0.35),
    "rating": ("-2", -2),
}


@pytest.mark.parametrize("form", FORMS)
def test_questions_that_carry_more(shell, form):
    typed, stored_as = FORMS[form]
    shell("new", "pid", *PARAMETERS, "--question", form)
    asked = shell.json("ask", "pid")
    assert asked["kind"] == form.partition(":")[0] and len(asked["designs"]) == int(form.partition(":")[2] or 2)
    assert ("a" in asked) is (form in ("slider:2", "rating"))
    told = shell.json("tell", "pid", json.dumps(stored_as))
    assert told["answer"] == stored_as
    table = shell("ask", "pid")
    assert f"`kappasharp tell pid {'2' if form in ('choice:4', 'rating') else ''}" in table.stderr
    shell("tell", "pid", typed)
    shell.json("ask", "pid")
    assert shell.json("tell", "pid", "SKIP")["answer"] == "skip"
    assert [one.answer for one in stored(shell).history.comparisons.values()] == [stored_as, stored_as, "skip"]
    log = shell("log", "pid").stdout.splitlines()
    assert log[0].split()[4:7] == ["kind", "answer", "first"]
    # People count designs from 1 here too, as they typed it.
    assert answer_keys.short(kind.parse(form), stored_as) in log[1] and (
        form != "choice:4" or "3 is the best" in log[1]
    )
    assert shell.json("best", "pid")["n_comparisons"] == 2
    shell("export", "pid", "pid.html")
    shell("export", "pid", "pid.json")
    assert shell.json("import", "pid.json", "--name", "copy")["answers"] == 2
    before = stored(shell).history.number
    shell("ask", "pid")
    for wrong in ("a", "9", "1 1", "2.5", "x=1", "", "tie"):
        shell.refused("tell", "pid", wrong, code=2, says=f"must be {'a' if form in ('slider', 'rating') else ''}")
    shell.refused("tell", "pid", "-f", "json", "[", code=2, says="must be JSON")
    assert stored(shell).history.number == before + 1


def test_the_log_of_an_order_can_be_read(shell):
    """An answer calls the designs by the heads of their columns."""
    shell("new", "tea", "-p", "x=0:1", "-p", "y=0:1", "--question", "order:4")
    for typed in ("3 1=4 2", "2"):
        shell("ask", "tea")
        shell("tell", "tea", typed)
    log = shell("log", "tea")
    assert "numbers in the study" in log.stderr and shell("log", "tea", "-f", "json").stderr == ""
    head, first, second = (line.split() for line in log.stdout.splitlines())
    assert head[-5:] == ["first", "1", "2", "3", "4"]
    for line, row in zip((first, second), shell.json("log", "tea"), strict=True):
        assert line[-4:] == [str(row[letter]) for letter in "abcd"]
    assert first[-5] == first[-2] and second[-5] == second[-3]


def test_the_log_of_several_kinds_can_be_read(shell):
    shell("new", "tea", "-p", "x=0:1", "-p", "y=0:1", "--outcomes", "taste")
    shell("record", "tea", "x=0", "y=0", "taste=1")
    shell("ask", "tea", "--question", "rating")
    shell("tell", "tea", "-1")
    assert shell("log", "tea").stdout.splitlines()[0].split()[-7:] == ["first", "a", "b", "a", "taste", "b", "taste"]
    shell("ask", "tea", "--question", "choice:3")
    shell("tell", "tea", "3")
    head, rated, chosen = (re.split(r" {2,}", line.strip()) for line in shell("log", "tea").stdout.splitlines())
    assert head[-7:] == ["first", "a/1", "b/2", "3", "a/1 taste", "b/2 taste", "3 taste"]
    assert rated[-7:-3] == ["1", "0", "1", "–"] and chosen[-7] == chosen[-4]


def test_the_ends_of_a_slider_have_no_number(shell):
    """Also where a design that was seen happens to be one of them."""
    shell("new", "tea", "-p", "x=0:1")
    study = stored(shell, "tea")
    study.enqueue({"x": 0.0}, {"x": 1.0}, kind="slider")
    study.add_comparison({"x": 0.0}, {"x": 1.0})
    study.tell(study.ask(), 0.0)
    row = shell.json("log", "tea")[-1]
    assert (row["kind"], row["first"], row["a"], row["b"]) == ("slider", 0, None, None)
    assert (row["a_params_x"], row["b_params_x"]) == (0.0, 1.0)


@pytest.mark.parametrize("words", [("--", "-0"), ("--", "-0.0"), ("-f", "json", "--", "-0.0")])
def test_there_is_one_zero_of_a_slider(shell, words):
    shell("new", "tea", "-p", "x=0:1", "--question", "slider")
    shell("ask", "tea")
    assert "-0" not in shell("tell", "tea", *words).stdout
    assert [str(one.answer) for one in stored(shell, "tea").history.comparisons.values()] == ["0.0"]


def test_a_number_that_no_question_has(shell):
    shell("new", "tea", "-p", "x=0:1", "--question", "order:4")
    for words in (("1",), ("1", "--voter", "anna"), ("[", "-f", "json")):
        shell.refused("tell", "tea", *words, "--pair", 999, code=2, says="in 'tea', but there is no question 999.")


@pytest.mark.parametrize(
    ("question", "word"), [("pair", "pair"), ("order:4", "question"), ("slider", "question"), ("auto", "question")]
)
def test_the_first_question_is_called_what_it_is(shell, question, word):
    made = shell("new", "tea", "-p", "x=0:1", "-p", "n=int:1:9", "--question", question)
    assert f"`kappasharp ask tea` gives the first {word}." in made.stderr
    assert f"`kappasharp ask tea` gives the first {word}." in shell("log", "tea").stderr
    asked = shell.json("ask", "tea")
    shell("tell", "tea", "skip")
    assert f"{asked['kind']} {asked['pair']} is open again" in shell("undo", "tea").stderr


def test_another_kind_once(shell):
    shell("new", "pid", *PARAMETERS)
    found = shell.json("ask", "pid", "--question", "slider", "--place", "0.25")
    assert found["kind"] == "slider" and list(found["at"]["params"]) == NAMES and found["at"]["place"] == 0.25
    assert "at 0.3333" in shell("ask", "pid", "--place", "1").stdout
    assert "at 0.5" in shell("ask", "pid", "--question", "slider:2").stdout
    shell("tell", "pid", "0.5")
    shell("ask", "pid", "--question", "slider")
    shell.refused("ask", "pid", "--place", "2", code=2, says="from 0 to 1")
    shell("tell", "pid", "1")
    assert shell.json("ask", "pid")["kind"] == "pair"
    for guess in ("guess", "auto", "order:10"):
        shell.refused("ask", "pid", "--question", guess, code=2, says="Error: `--question` must ")
    shell.refused("ask", "pid", "--question", "guess", code=2, says="'pair', 'choice', 'order', 'slider' or 'rating'")
    (shell.folder / "tea.toml").write_text("[parameters]\nx = {low = 0, high = 1}\n")
    shell.refused("ask", "tea.toml", "--question", "guess", code=2, says="Error: `--question` must be")
    shell.refused("new", "other", *PARAMETERS, "--question", "triple", code=2, says="`--question` must be")
    shell.refused("new", "other", "-p", "n=int:1:8", "--question", "slider", code=2, says="continuous")


def test_changes_of_one_command_are_taken_back_one_at_a_time_and_it_says_so(shell):
    shell("new", "chair", "-p", "width=30:50", "-p", "depth=30:50", "-p", "wood=oak,pine")
    told = shell("parameters", "chair", "--narrow", "width=35:", "--lock", "wood=oak").stderr
    assert "Made 2 changes; `kappasharp undo chair` takes back one at a time, the last first." in told
    assert "at a time" not in shell("parameters", "chair", "--narrow", "depth=35:").stderr
    assert "at a time" not in shell("parameters", "chair").stderr
    for left in (["width", "wood"], ["width"], []):
        shell("undo", "chair")
        rows = shell.json("parameters", "chair")
        whole = {"width": {"low": 30.0, "high": 50.0}, "depth": {"low": 30.0, "high": 50.0}}
        assert [
            row["name"] for row in rows if row["open"] != whole.get(row["name"], {"choices": ["oak", "pine"]})
        ] == left


def test_an_end_between_two_steps_is_told(shell):
    (shell.folder / "coffee.toml").write_text(
        'name = "coffee"\n[parameters]\ngrind = {type = "int", low = 10, high = 30, step = 4}\n'
        "dose = {low = 0.0, high = 1.0, step = 0.1}\nmilk = {low = 0.0, high = 1.0}\n"
    )
    shell("new", "coffee.toml")
    widened = shell("parameters", "coffee", "--widen", "grind=:40", "--widen", "dose=:1.3", "--widen", "milk=:1.5")
    assert "Note: grind goes in steps of 4: it is open to 38, the last before 40.\n" in widened.stderr
    assert "dose" not in widened.stderr and "milk" not in widened.stderr
    narrowed = shell("parameters", "coffee", "--narrow", "grind=12:34", "--narrow", "dose=0.3:0.7").stderr
    assert "steps of 4: it is open from 14, the first after 12." in narrowed and narrowed.count("Note") == 1
    shell.refused("parameters", "coffee", "--widen", "grind=7:", code=2, says="6 is the nearest")


def test_a_study_is_arranged(shell):
    """A favourite first; all changes of a command or none; notes, a file with a bad line, names and counts."""
    chair = ("-p", "width=30:50", "-p", "wood=oak,pine,3", "--favourite", "width=44,wood=oak")
    shell("new", "chair", *chair)
    assert {"width": 44.0, "wood": "oak"} in [shell.json("ask", "chair")[side] for side in "ab"]
    answer(shell, "chair", "aab")
    shell.refused("new", "other", *chair[:2], "--favourite", "width", code=2, says="NAME=VALUE")
    changed = shell.json(
        "parameters", "chair", "--narrow", "width=35:", "--narrow", "wood=oak,3", "--widen", "width=:60"
    )
    assert [one["open"] for one in changed] == [{"low": 35.0, "high": 60.0}, {"choices": ["oak", 3]}]
    wrong = ("--lock", "wood=oak", "--lock", "width=99")
    shell.refused("parameters", "chair", *wrong, code=2, says="`--widen` opens more")
    assert shell.json("parameters", "chair") == changed
    assert "Taken back" in shell("undo", "chair").stderr
    assert shell.json("parameters", "chair")[0]["open"] == {"low": 35.0, "high": 50.0}
    shell.refused("parameters", "chair", "--widen", "width=wide", code=2, says="A range must be")
    assert "ever open" in shell("parameters", "chair").stdout
    best = shell.json("best", "chair")["params"]
    assert [one["best"] for one in shell.json("parameters", "chair", "--best")] == list(best.values())

    shell("note", "chair", "0", "too low")
    shell.refused("note", "chair", "99", "x", code=2, says="one of the")
    assert shell.json("note", "chair") == [{"option": 0, "voter": "me", "note": "too low"}]
    assert shell.json("note", "chair", "0", "--forget") == []

    past = shell.folder / "past.csv"
    past.write_text("a.width,a.wood,b.width,b.wood,answer\n40,oak,45,3,a\n40,oak,45,ash,b\n")
    shell.refused("import", past, "--study", "chair", code=2, says="line 3: `b.wood` must be one of")
    shell.refused("import", past, code=2, says="--study NAME")
    past.write_text("a.width,a.wood,b.width,b.wood,answer\n40,oak,45,3,a\n40,oak,45,oak,skip\n")
    assert shell.json("import", past, "--study", "chair", "--voter", "ann")["skips"] == 1

    shell("new", "table", "-p", "x=0:1")
    shell.refused("rename", "chair", "table", code=2, says="'table' already")
    assert shell("rename", "chair", "stool").stdout == "stool\n"
    rows = {row["name"]: row for row in shell.json("studies")}
    assert rows.keys() == {"stool", "table"} and (rows["stool"]["answers"], rows["stool"]["voters"]) == (4, 2)
    assert rows["stool"]["last_answer"] and rows["table"]["last_answer"] is None
    assert len(shell.json("check")["studies"]) == 2


def test_invitations(shell, monkeypatch):
    """The link alone on stdout, a code to scan beside it; listed without their secrets, and revoked."""
    monkeypatch.setenv("XDG_STATE_HOME", str(shell.folder))
    shell("new", "chair", "-p", "x=0:1")
    assert shell.json("invite", "chair", "--list") == []
    made = shell("invite", "chair")
    assert re.fullmatch(r"http://127\.0\.0\.1:8642/join#[\w-]{43}\n", made.stdout) and "█" in made.stderr
    assert "not served from here yet" in made.stderr and "as a voter" in made.stderr
    owner = shell.json("invite", "chair", "--role", "owner", "--address", "https://taste.example.org/")
    assert owner["link"].startswith("https://taste.example.org/join#") and owner["role"] == "owner"
    storage = Storage(shell.url)
    invites.join(storage, made.stdout.strip().partition("#")[2], "Ann")
    rows = {one["role"]: one for one in shell.json("invite", "chair", "--list")}
    assert rows["voter"]["people"] == ["Ann"] and rows["owner"]["id"] == owner["id"]
    assert shell.json("invite", "chair", "--revoke", owner["id"]) == {"study": "chair", "revoked": owner["id"]}
    assert {one["role"]: one["revoked"] is None for one in shell.json("invite", "chair", "--list")} == {
        "voter": True,
        "owner": False,
    }
    assert "Ann" in shell("invite", "chair", "--list").stdout
    shell.refused("invite", "chair", "--revoke", "none", code=2, says="has no link 'none'")
    shell.refused("invite", "chair", "--revoke", "x", "--list", code=2, says="got both")
    shell.refused("invite", "nobody", code=2, says="No study")
    shell.refused("invite", "chair", "--address", "taste", code=2, says="must be https://NAME")
    storage.close()


def test_a_team_and_how_much_each_of_it_counts(shell):
    shell("new", "pid", *PARAMETERS, "--seed", "3")
    for voter in ("anna", "ben"):
        answer(shell, "pid", "ab", "--voter", voter)
    shell("ask", "pid", "--voter", "cleo")
    said = shell("team", "pid", "--weigh", "anna=2").stdout
    assert "Too few answers to tell" in said and "Weights are set: anna 2" in said and "predicted" in said
    shell("team", "pid", "--weigh", "ben=0.5")
    found = shell.json("team", "pid")
    assert {one["voter"]: one["weight"] for one in found["voters"]} == {"anna": 2, "ben": 0.5, "cleo": 1}
    assert found["sentences"] and found["best"]["params"].keys() == set(NAMES)
    for wrong, words in (("nora=1", "No voter is called"), ("anna", "VOTER=NUMBER"), ("anna=-1", "from 0 to")):
        assert words in shell("team", "pid", "--weigh", wrong, code=2).stderr
    assert "got both" in shell("team", "pid", "--weigh", "anna=1", "--count-alike", code=2).stderr
    assert "every voter once" in shell("team", "pid", "--weigh", "anna=1", "--weigh", "anna=3", code=2).stderr
    assert stored(shell).history.weights == {"anna": 2.0, "ben": 0.5}
    shell("team", "pid", "--count-alike")
    assert stored(shell).history.weights == {}
    predicted = shell("best", "pid", "--for", "cleo")
    assert "cleo has not answered yet" in predicted.stderr and predicted.stdout


def test_a_team_hears_of_limits(shell):
    shell("new", "chair", "-p", "width=0:1", "-p", "depth=0:1", "--limit", "width + depth <= 1")
    held = stored(shell, "chair")
    for voter in ("anna", "ben"):
        held.add_comparison({"width": 0.9, "depth": 0.9}, {"width": 0.5, "depth": 0.4}, voter=voter)
        held.add_comparison({"width": 0.5, "depth": 0.4}, {"width": 0.2, "depth": 0.2}, voter=voter)
    said = "Option 0 seems better still, but it breaks a limit, and no such design is told."
    assert said in shell("team", "chair").stdout and said in shell.json("team", "chair")["sentences"]
    assert said in shell("best", "chair").stderr
