"""The documentation runs: every Python block, page by page, and every relative link leads somewhere."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

ROOT = Path(__file__).parents[2]
RUN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# Pages that teach by code; a page that loses its last block has lost its point.
TEACHING = {"README.md", "index.md", "quickstart.md", "study.md", "how-to-choose.md", "method.md"}
TEACHING |= {"moving-from-pairwisegp.md", "ax.md", "bope.md", "optuna.md", "outcomes.md", "judge.md"}
LANGUAGES = {"python", "bash", "text", "toml", "bibtex"}
FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})(?P<language>.*)\n(?P<code>(?:.*\n)*?)(?P=fence)\s*$", re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)")


class Block(NamedTuple):
    language: str
    line: int
    code: str


def blocks(text: str) -> list[Block]:
    return [
        Block(found["language"].strip(), text.count("\n", 0, found.start("code")), found["code"])
        for found in FENCE.finditer(text)
    ]


def broken_links(page: Path, text: str) -> list[str]:
    targets = [target.split("#")[0] for target in LINK.findall(FENCE.sub("", text))]
    relative = [target for target in targets if target and not re.match(r"[a-z]+:", target)]
    return [target for target in relative if not (page.parent / target).exists()]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def as_a_reader(tmp_path, monkeypatch):
    """An empty folder, and torch as it comes: single precision unless the page says otherwise."""
    monkeypatch.chdir(tmp_path)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def quick_search(page, monkeypatch):
    """Ax searches from 20 of 1024 points where a page has two parameters: from a few, the same code runs."""
    if page.name in ("ax.md", "bope.md"):
        for name, value in (("NUM_RESTARTS", 4), ("RAW_SAMPLES", 64)):
            monkeypatch.setattr(f"ax.generators.torch.botorch_modular.optimizer_argparse.{name}", value)


# BoTorch's own acquisition, where two designs of one question nearly coincide.
@pytest.mark.filterwarnings("ignore:A not p.d., added jitter")
@pytest.mark.usefixtures("as_a_reader", "quick_search")
@pytest.mark.parametrize("page", RUN, ids=name)
def test_python_blocks_run(page):
    namespace = {"__name__": "__main__"}
    for block in blocks(page.read_text("utf-8")):
        if block.language == "python":
            # Blank lines in front, so that a traceback shows the page's own line.
            exec(compile("\n" * block.line + block.code, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", RUN, ids=name)
def test_pages_show_code_that_is_run(page):
    text = page.read_text("utf-8")
    languages = [block.language for block in blocks(text)]
    assert set(languages) <= LANGUAGES
    assert len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) == 2 * len(languages)
    assert "python" in languages or page.name not in TEACHING


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_relative_links_lead_somewhere(page):
    assert broken_links(page, page.read_text("utf-8")) == []


def test_the_checks_bite():
    text = "one\n\n```python\n1 / 0\n```\n\n[a](nowhere.md#x) [b](https://example.org) [c](#here) ![d](no.png)\n"
    assert blocks(text) == [Block("python", 3, "1 / 0\n")]
    assert broken_links(ROOT / "README.md", text) == ["nowhere.md", "no.png"]
