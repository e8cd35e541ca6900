"""The page's scripts without a browser: their types hold, every text has its place, they are small and in the wheel."""

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from kappasharp.web.responses import assets
from tests.sources import SOURCES, nodes, parsed

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGES = ROOT / "src" / "kappasharp" / "web" / "pages"
LINES = 400
LANGUAGES = ("en", "de", "zh")
STRING = r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`'
# Words with a capital that are no text: keys, Python's values, the languages' own names.
CODE = {
    "ArrowLeft",
    "ArrowRight",
    "ArrowUp",
    "ArrowDown",
    "Backspace",
    "Enter",
    "Escape",
    "Space",
    "Tab",
    "Home",
    "End",
}
CODE |= {"PageUp", "PageDown", "None", "True", "False", "English", "Deutsch", "zh-Hans"}


def texts(language):
    """Key to forms, one a line, of a language's files of texts."""
    both = "".join(assets()[name].decode() for name in files_of(language))
    lines = re.findall(r'^  "([\w.]+)": (.+),$', both, re.MULTILINE)
    assert len(dict(lines)) == len(lines)
    return {key: [one[1:-1] for one in re.findall(STRING, forms)] for key, forms in lines}


def files_of(language):
    """What the page says, and what the server does."""
    return f"texts.{language}.js", f"said.{language}.js"


def literals():
    """Every string in the scripts that do things, by file."""
    for name, body in assets().items():
        if not name.endswith(".js") or name == "types.js" or re.fullmatch(r"(texts|said)\.\w+\.js", name):
            continue
        code = re.sub(r"/\*.*?\*/|^\s*//.*?$", "", body.decode(), flags=re.DOTALL | re.MULTILINE)
        code = re.sub(r"(?<=[(=])\s*/(?:[^/\\\n]|\\.)+/", "", code)  # what is between slashes
        yield from ((name, one[1:-1]) for one in re.findall(STRING, code))


def test_types_hold():
    """`tsc --checkJs`, strict; `make setup` brings it into tests/web/node_modules."""
    compiler = HERE / "node_modules" / ".bin" / "tsc"
    assert compiler.exists(), "`make setup` installs TypeScript for this test"
    done = subprocess.run([compiler, "-p", HERE], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout


def test_the_check_bites(tmp_path):
    (tmp_path / "wrong.js").write_text('/** @param {number} x */\nexport function f(x) { return x.length; }\nf("a");\n')
    # Of texts too: a language without a sentence, and a sentence without what stands in its places.
    for one in ("texts.js", *(name for language in LANGUAGES for name in files_of(language))):
        shutil.copy(PAGES / one, tmp_path)
    for name, key in zip(files_of("de"), ("compare.saved", "said.trade.paid"), strict=True):
        german = (tmp_path / name).read_text("utf-8")
        (tmp_path / name).write_text(re.sub(rf'^  "{key}":.*\n', "", german, flags=re.MULTILINE), "utf-8")
    (tmp_path / "bare.js").write_text('import { text } from "./texts.js";\ntext("compare.saved");\ntext("no.such");\n')
    options = (HERE / "tsconfig.json").read_text().replace("../../src/kappasharp/web/pages/*.js", "./*.js")
    (tmp_path / "tsconfig.json").write_text(options)
    compiler = HERE / "node_modules" / ".bin" / "tsc"
    done = subprocess.run([compiler, "-p", tmp_path], capture_output=True, text=True, check=False, timeout=300)
    faults = re.findall(r"([\w.]+)\(\d+,\d+\): error TS", done.stdout)
    expected = ["bare.js"] * 2 + ["said.de.js", "texts.de.js"] + ["wrong.js"] * 2
    assert done.returncode != 0 and sorted(faults) == expected


def test_every_language_says_the_same():
    """The same keys, which the types say too, and in each sentence the same named places; a count is one of them."""
    english = texts("en")
    places = {key: set(re.findall(r"{(\w+)}", " ".join(forms))) for key, forms in english.items()}
    for language in LANGUAGES:
        own = texts(language)
        assert list(own) == list(english) and all(all(forms) for forms in own.values())
        apart = [key for key in own if set(re.findall(r"{(\w+)}", " ".join(own[key]))) != places[key]]
        assert apart == []
    # All but a few that are names and keys in any language; places with nothing but signs between them are no words.
    worded = [key for key in english if re.search("[a-z]", re.sub(r"{\w+}", "", english[key][0]))]
    chinese = sum(re.search("[\u4e00-\u9fff]", texts("zh")[key][0]) is not None for key in worded)
    assert chinese > 0.98 * len(worded)


def test_no_text_is_in_the_scripts_and_none_is_for_nothing():
    found = list(literals())
    plain = [(name, re.sub(r"\$\{.*?(\}|$)", "0", one)) for name, one in found]
    sentence = re.compile(r"\b[A-Z][a-z]+\b|[a-z]{2}[.?!…]( |$)")
    assert [one for one in plain if sentence.search(one[1]) and one[1] not in CODE] == []
    page = assets()["index.html"].decode()
    used = {one for _, one in found} | set(re.findall(r'data-text="(.+?)"', page))
    patterns = [re.sub(r"\\\$\\{.+?\\}", r"[\\w.]+", re.escape(one)) for one in used if "." in one and " " not in one]
    wanted = re.compile("|".join(patterns))
    assert [key for key in texts("en") if not wanted.fullmatch(key)] == []
    # In the page itself there is only what is seen where no script runs.
    bare = re.sub(r"<noscript>.*?</noscript>|<title>.*?</title>|<[^>]+>", " ", page).split()
    assert bare == ["kappasharp", "…"] and "aria-label=" not in page


def test_what_the_server_says_is_in_the_texts_and_nothing_else():
    """Every key of a sentence that Python makes, with the places that stand in its call."""
    english, patterns = texts("en"), []
    for source in (
        one for one in SOURCES.values() if "from kappasharp.messages.message import" in one or "def said(" in one
    ):
        for node in nodes(source):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if name not in ("said", "counted", "Sentence"):
                continue
            for key in ast.walk(node.args[1] if name == "Sentence" else node.args[0]):
                if isinstance(key, ast.Constant) and "." in str(key.value):
                    stem = f"said.{key.value}" + (r"\w+" if str(key.value).endswith(".") else "")
                    patterns.append(stem)
                    places = set(re.findall(r"{(\w+)}", " ".join(english.get(stem, [""]))))
                    spread = any(one.arg is None for one in node.keywords) or name != "said"
                    assert spread or places <= {one.arg for one in node.keywords}, stem
    wanted, own = re.compile("|".join(patterns)), [key for key in english if key.startswith("said.")]
    assert [key for key in own if not wanted.fullmatch(key)] == []
    assert [one for one in patterns if not any(re.fullmatch(one, key) for key in own)] == []


def resolved(node, known):
    """The text that an expression stands for, by those that names stand for; None where that takes more."""
    if isinstance(node, ast.JoinedStr):
        parts = [resolved(one.value if isinstance(one, ast.FormattedValue) else one, known) for one in node.values]
        return None if None in parts else "".join(parts)
    if isinstance(node, ast.Name):
        return known.get(node.id)
    return node.value if isinstance(node, ast.Constant) else None


def assigned(body, line):
    """What names stand for before a line, as far as these are texts."""
    found, before = {}, [one for one in ast.walk(body) if isinstance(one, ast.Assign) and one.lineno <= line]
    for node in sorted(before, key=lambda one: one.lineno):
        both = (node.targets[0], node.value)
        several = all(isinstance(one, ast.Tuple) for one in both)
        for name, value in zip(both[0].elts, both[1].elts, strict=True) if several else [both]:
            if isinstance(name, ast.Name):
                found[name.id] = resolved(value, found)
    return found


def sentences_made(source):
    """Key and words, one form or two, of each sentence that functions make of texts that stand there."""
    tree = parsed(source)
    outside = ast.Module([one for one in tree.body if isinstance(one, ast.Assign)], [])
    for function in (one for one in nodes(source) if isinstance(one, ast.FunctionDef)):
        for node in (one for one in ast.walk(function) if isinstance(one, ast.Call) and len(one.args) > 1):
            name, key = getattr(node.func, "id", ""), node.args[0]
            if name in ("said", "counted") and isinstance(key, ast.Constant):
                known = assigned(outside, len(source)) | assigned(function, node.lineno)
                yield key.value, [resolved(one, known) for one in node.args[1 : 2 if name == "said" else 3]]


def test_english_is_the_same_in_python_and_on_the_page():
    """But for refusals, which are worded for forms, and for what is said with a call, which a page does not have."""
    english, compared = texts("en"), []
    for source in SOURCES.values():
        for key, forms in sentences_made(source):
            if key.startswith("fault.") or any(not isinstance(one, str) or "`" in one for one in forms):
                continue
            plain = [re.sub(r"{(\w+):[^}]*}", r"{\1}", re.sub(r"{(\w+)!r}", r"“{\1}”", one)) for one in forms]
            assert [one.replace("'", "’") for one in plain] == english[f"said.{key}"][-len(forms) :], key
            compared.append(key)
    assert {"note.same", "note.few", "limit.better", "best.predicted", "team.best"} <= set(compared)
    assert len(compared) > 90


def test_what_is_noted_is_never_plain_english():
    """What tells of a study returns sentences with keys, by its types, which mypy holds it to."""
    noting, found = re.compile(r"notes|breaches|\w*sentences|_about_\w+|missing_function|why_not_told"), {}
    packages = (
        "space/",
        "journal/",
        "results/",
        "simulators/",
        "model/",
        "planning/",
        "findings/",
        "study/",
        "analysis",
    )
    for name, source in SOURCES.items():
        for node in nodes(source) if name.startswith(packages) else ():
            if isinstance(node, ast.FunctionDef) and noting.fullmatch(node.name):
                found[f"{name.removesuffix('.py')}.{node.name}"] = ast.unparse(node.returns)
    usual = {"Sentence", "Sentence | None", "list[Sentence]"}
    assert {name: told for name, told in found.items() if told not in usual} == {}
    told = {
        "findings/outcomes",
        "findings/diagnosis",
        "model/feasibility",
        "planning/start",
        "space/bounds",
        "results/best",
    }
    assert {f"{one}.notes" for one in told} <= set(found)


def test_scripts_are_small():
    words = {name: len(assets()[name]) for language in LANGUAGES for name in files_of(language)}
    rest = {name: body for name, body in assets().items() if name not in words}
    lines = {name: body.count(b"\n") for name, body in rest.items() if name.endswith(".js")}
    assert max(lines.values()) <= LINES and sum(len(body) for body in rest.values()) < 310_000
    assert max(words.values()) < 64_000


def test_the_wheel_holds_them_and_the_default_install_brings_the_server():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/kappasharp"]
    assert {"starlette", "uvicorn"} <= {one.split(">")[0] for one in project["project"]["dependencies"]}
    assert {"index.html", "app.js", "style.css"} <= set(assets())
