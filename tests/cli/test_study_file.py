"""TOML study files: what they may say, and a sentence for what they may not."""

import pytest

import kappasharp as ks
from kappasharp.cli.output import typed
from kappasharp.exchange import study_toml
from kappasharp.space.space import space
from tests.cli.shell import Shell, answer

GOOD = """
name = "espresso"
seed = 4
method = "adaptive"
preset = "paper"
first_pairs = 3
render = "coffee:picture"

[parameters]
dose = {low = 14.0, high = 20.0, step = 0.5}
time = {type = "float", low = 20, high = 40, jnd = 1.0}
grind = {type = "int", low = 1, high = 30}
flow = {low = 0.5, high = 8.0, log = true, jnd = 0.05}
basket = ["ridged", "ridgeless"]
preinfusion = [true, false]
paper = {type = "categorical", choices = ["none", "top", "both"]}
machine = {value = "lever"}
"""


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path)


def written(shell, text, name="study.toml"):
    (shell.folder / name).write_text(text)
    return name


def test_a_file_says_all_of_a_study(tmp_path):
    (tmp_path / "x.toml").write_text(GOOD)
    found = study_toml.read(tmp_path / "x.toml")
    assert (found.name, found.render) == ("espresso", "coffee:picture")
    said = {"seed": 4, "method": "adaptive", "preset": "paper", "first_pairs": 3, "render": "coffee:picture"}
    assert found.options == said
    assert found.space.parameters == space({
        "dose": ks.Float(14.0, 20.0, step=0.5),
        "time": ks.Float(20, 40, jnd=1.0),
        "grind": ks.Int(1, 30),
        "flow": ks.Float(0.5, 8.0, log=True, jnd=0.05),
        "basket": ks.Categorical(("ridged", "ridgeless")),
        "preinfusion": ks.Categorical((True, False)),
        "paper": ks.Categorical(("none", "top", "both")),
        "machine": ks.Fixed("lever"),
    }).parameters  # fmt: skip


def test_a_file_without_a_name_lends_its_own(shell):
    written(shell, "[parameters]\nx = {low = 0, high = 1}\n", "tea.toml")
    assert shell("new", "tea.toml").stdout == "tea\n"
    assert ks.load_study("tea", storage=shell.url).definition.method_name == "baseline"


def test_options_come_before_the_files(shell):
    made = shell.json("new", written(shell, GOOD), "--seed", "9", "--preset", "modern")
    assert (made["study"], made["seed"], made["preset"], made["method"]) == ("espresso", 9, "modern", "adaptive")
    shell.refused("new", "study.toml", code=2, says="A study called 'espresso' is already in")
    shell.refused("new", "study.toml", "-p", "x=0:1", code=2, says="`--param` must stand beside a name")


def test_a_study_that_a_file_makes_is_said_to_be_new(shell):
    """After a rename the same file makes another study, and nobody should take it for the old one."""
    path = written(shell, 'name = "tea"\n[parameters]\nx = {low = 0.0, high = 1.0}\n')
    new = "nothing was asked in the study 'tea' yet"
    assert new in shell("ask", path).stderr
    answer(shell, path, "a")
    assert new not in shell("ask", path).stderr
    shell("rename", "tea", "morning")
    assert new in shell("ask", path).stderr


def test_what_widens_is_said_in_the_shells_words():
    assert typed("if so, `study.widen('grams', low=0.0)` opens them") == (
        "if so, `kappasharp parameters STUDY --widen grams=0.0:` opens them"
    )
    assert typed("`study.widen('g', high=2)`") == "`kappasharp parameters STUDY --widen g=:2`"


def test_ask_makes_the_files_study_once(shell):
    path = written(shell, GOOD)
    pair = shell.json("ask", path)
    assert shell.json("ask", path) == pair == shell.json("ask", "espresso")
    assert set(pair["a"]) == {"dose", "time", "grind", "flow", "basket", "preinfusion", "paper", "machine"}
    assert isinstance(pair["a"]["preinfusion"], bool) and pair["a"]["machine"] == "lever"
    written(shell, GOOD.replace("high = 30", "high = 31"))
    shell.refused("ask", path, code=2, says="must be those of the stored study 'espresso', but they differ in grind")


def test_what_a_stored_study_keeps_is_said_where_its_file_says_otherwise(shell):
    path = written(shell, GOOD)
    pair = shell.json("ask", path)
    assert "stands" not in shell("ask", path).stderr
    for old, new, says in (
        ("seed = 4", "seed = 9", "Note: the study 'espresso' was made with `seed` 4, and that stands: 9 in its file"),
        ('method = "adaptive"', 'method = "baseline"', "`method` 'adaptive', and that stands: 'baseline' in its file"),
        ('preset = "paper"', 'preset = "modern"', "`preset` 'paper', and that stands: 'modern' in its file"),
        ("first_pairs = 3", "first_pairs = 4", "`first_pairs` 3, and that stands: 4 in its file changes nothing"),
    ):
        told = shell("ask", written(shell, GOOD.replace(old, new)), "-f", "json")
        assert says in told.stderr and told.stderr.count("that stands") == 1
        assert ks.load_study("espresso", storage=shell.url).definition.seed == 4
        # What is left out is what it was made with.
        assert "stands" not in shell("ask", written(shell, GOOD.replace(old, ""))).stderr
    assert shell.json("ask", path) == pair


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sed = 1\n[parameters]\nx = [1, 2]", "No entry of a study file is called 'sed'. Did you mean 'seed'?"),
        ("[parameter]\nx = [1, 2]", "Did you mean 'parameters'?"),
        ("seed = 1", "must have a table [parameters]"),
        ("parameters = 3", "must have a table [parameters]"),
        ("[parameters]", "must hold a parameter to tune"),
        ("[parameters]\nx = {low = 0, hihg = 1}", "Float parameter is called 'hihg'. Did you mean 'high'?"),
        ("[parameters]\nx = {low = 0}", "A Float parameter must have low and high"),
        ("[parameters]\nx = {type = 'flot', low = 0, high = 1}", "Did you mean 'float'?"),
        ("[parameters]\nx = {low = 2, high = 1}", "`x`: a range must have low < high"),
        ("[parameters]\nx = {low = 0, high = inf}", "must be a finite number, but got inf"),
        ("[parameters]\nx = ['one']", "must have two choices or more"),
        ("[parameters]\nx = 3", "A parameter must be (low, high), a list of choices"),
        ("method = 'adaptve'\n[parameters]\nx = [1, 2]", "Did you mean 'adaptive'?"),
        ("seed = 1.5\n[parameters]\nx = [1, 2]", "`seed` must be a whole number, but got 1.5"),
        ("render = 3\n[parameters]\nx = [1, 2]", "`render` must be module:function"),
        ("name = 3\n[parameters]\nx = [1, 2]", "`name` must be a text"),
        ("name = [\n", "study.toml is not TOML"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["new", "ask", "simulate"])
def test_a_bad_file_is_a_sentence(shell, command, text, says):
    shell.refused(command, written(shell, text), code=2, says=says)
    assert not (shell.folder / "studies.db").exists()


@pytest.mark.parametrize(
    ("favourites", "says"),
    [
        ("x = 9.0", "Error: `[[favourites]]` number 1: `x` must be from 0 to 1, but got 9.0"),
        ("y = 0.5", "Error: `[[favourites]]` number 1: No parameter is called 'y'."),
        ("x = 0.5\n[[favourites]]\nx = 0.5", "`[[favourites]]` number 2 must be told from the others, but it cannot"),
    ],
)
@pytest.mark.parametrize("command", ["new", "ask"])
def test_bad_favourites_of_a_file_are_named_as_the_file_has_them(shell, command, favourites, says):
    path = written(shell, f"[parameters]\nx = {{low = 0.0, high = 1.0}}\n[[favourites]]\n{favourites}\n")
    assert "--favourite" not in shell.refused(command, path, code=2, says=says)
    # Those of the command come before the file's.
    shell.refused("new", path, "--favourite", "x=7", code=2, says="`--favourite` number 1: `x` must be from 0 to 1")
    assert not (shell.folder / "studies.db").exists()


def test_a_file_that_cannot_be_read_is_a_sentence(shell):
    shell.refused("new", "none.toml", code=1, says="none.toml could not be read: No such file")
    (shell.folder / "bytes.toml").write_bytes(b"name = '\xff'")
    shell.refused("ask", "bytes.toml", code=2, says="bytes.toml is not TOML")


def test_a_report_without_pictures_says_how_to_get_them(shell):
    (shell.folder / "drawing.py").write_text(
        "def draw(params):\n    return '<svg xmlns=\"http://www.w3.org/2000/svg\"/>'"
    )
    (shell.folder / "d.toml").write_text('render = "drawing:draw"\n[parameters]\nx = {low = 0, high = 1}\n')
    shell("new", "d.toml")
    answer(shell, "d", "a")
    for words, there in ((("d",), False), (("d", "--render", "drawing:draw"), True), (("d.toml",), True)):
        assert shell("export", words[0], shell.folder / "r.html", *words[1:]).exit_code == 0
        text = (shell.folder / "r.html").read_text()
        assert ("<img src='data:image/svg+xml;base64," in text) is there
        assert ("`kappasharp export d report.html --render drawing:draw`" in text) is not there
