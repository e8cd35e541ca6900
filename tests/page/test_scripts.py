"""The page's scripts without a browser: their types hold, and they are small, whole and in the wheel."""

import subprocess
import tomllib
from pathlib import Path

from kappasharp.app.web.server import assets

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LINES = 400


def test_types_hold():
    """`tsc --checkJs`, strict; `make setup` brings it into tests/page/node_modules."""
    compiler = HERE / "node_modules" / ".bin" / "tsc"
    assert compiler.exists(), "`make setup` installs TypeScript for this test"
    done = subprocess.run([compiler, "-p", HERE], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout


def test_the_check_bites(tmp_path):
    (tmp_path / "wrong.js").write_text('/** @param {number} x */\nexport function f(x) { return x.length; }\nf("a");\n')
    options = (HERE / "tsconfig.json").read_text().replace("../../src/kappasharp/app/web/pages/*.js", "./*.js")
    (tmp_path / "tsconfig.json").write_text(options)
    compiler = HERE / "node_modules" / ".bin" / "tsc"
    done = subprocess.run([compiler, "-p", tmp_path], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0 and done.stdout.count("error TS") == 2


def test_scripts_are_small():
    long = {
        name: body.count(b"\n") for name, body in assets().items() if name.endswith(".js") and body.count(b"\n") > LINES
    }
    assert long == {} and sum(len(body) for body in assets().values()) < 205_000


def test_the_wheel_holds_them_and_the_default_install_brings_the_server():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/kappasharp"]
    assert {"starlette", "uvicorn"} <= {one.split(">")[0] for one in project["project"]["dependencies"]}
    assert {"index.html", "app.js", "style.css"} <= set(assets())
