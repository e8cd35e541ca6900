"""Writes the file table of docs/architecture.md: `python docs/file_table.py`, or `--check` to see if it is stale."""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "kappasharp"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- files: written by docs/file_table.py -->\n", "<!-- end of files -->\n"
# From the ground up, as tests/house/test_floors.py has the floors. A file of no room stands on the floor of its name.
ROOMS = (
    "errors", "faces", "sentences", "shapes", "streams", "batches", "files", "processes", "kernels", "parquet", "core",
    "problems", "acquisition", "methods", "study", "lab", "drop_in", "botorch_model", "ax_surrogate", "optuna_sampler",
    "app", "app/examples", "app/web", "app/cli", "__init__", "__main__",
)  # fmt: skip


def room(path: str) -> str:
    """The room of a file, given from the package's folder; a file of no room is its own."""
    folder, _, name = path.rpartition("/")
    return folder or name.removesuffix(".py")


def first_sentence(source: str) -> str:
    """The first sentence of a module's docstring, without its full stop."""
    words = " ".join((ast.get_docstring(ast.parse(source)) or "").split())
    return re.split(r"(?<=[.!?])\s", words, maxsplit=1)[0].removesuffix(".").replace("|", "\\|")


def table(sources: dict[str, str]) -> str:
    """Every file with what it holds, room by room; rooms' empty faces are left out."""
    rows = sorted((ROOMS.index(room(path)), path, first_sentence(source)) for path, source in sources.items())
    lines = [f"| `{path}` | {sentence} |" for _, path, sentence in rows]
    return "\n".join(["", "| file | holds |", "| --- | --- |", *lines, "", ""])


def read_sources() -> dict[str, str]:
    paths = {path.relative_to(SRC).as_posix(): path for path in SRC.rglob("*.py")}
    return {name: text for name, path in paths.items() if (text := path.read_text("utf-8")).strip()}


def renewed(page: str) -> str:
    """The page with the table of today's files between its two markers."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{PAGE.name} must hold the lines {BEGIN.strip()!r} and {END.strip()!r}, in this order.")
    return before + BEGIN + table(read_sources()) + end + after


def main() -> None:
    page = PAGE.read_text("utf-8")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(renewed(page), "utf-8")
    elif renewed(page) != page:
        sys.exit("The file table of docs/architecture.md is stale; `python docs/file_table.py` writes it anew.")


if __name__ == "__main__":
    main()
