"""The command as a shell has it, for tests: in this process, with a database of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner, Result

import kappasharp
from kappasharp.cli.main import main

SOURCE = str(Path(kappasharp.__file__).parents[1])
IMPORT, RUN = "from kappasharp.cli.main import main", "main(prog_name='kappasharp')"
START = f"{IMPORT}; {RUN}"


class Shell:
    """Commands in one folder; KAPPASHARP_STORAGE names a database in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'studies.db'}"

    def __call__(self, *words: object, typed: str | None = None, code: int = 0) -> Result:
        """A command that ends with that code, and never with a traceback."""
        result = CliRunner().invoke(
            main, [str(word) for word in words], input=typed, env={"KAPPASHARP_STORAGE": self.url}
        )
        assert result.exit_code == code, (result.output, result.exception)
        assert "Traceback" not in result.output
        return result

    def json(self, *words: object, typed: str | None = None):
        """What it writes to stdout as JSON: one document, one line, nothing else."""
        said = self(*words, "-f", "json", typed=typed).stdout
        assert said.count("\n") == 1 and said.endswith("\n"), said
        return json.loads(said, parse_constant=lambda word: 1 / 0)

    def refused(self, *words: object, code: int, says: str) -> str:
        """A command that is refused: nothing on stdout, and a sentence on stderr that holds these words."""
        result = self(*words, code=code)
        sentence = " ".join(result.stderr.split())
        assert result.stdout == "" and says in sentence, result.output
        return sentence

    def process(
        self, *words: object, without: Sequence[str] = (), code: str = RUN, **environment: str
    ) -> subprocess.CompletedProcess:
        """The same in a process of its own, in which the libraries `without` cannot be imported."""
        blocked = f"import sys; sys.modules.update(dict.fromkeys({list(without)}))\n"
        env = os.environ | {"KAPPASHARP_STORAGE": self.url, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"} | environment
        return subprocess.run(
            [sys.executable, "-c", f"{blocked}{IMPORT}\n{code}", *map(str, words)],
            capture_output=True, text=True, check=False, timeout=120, cwd=self.folder, env=env,
        )  # fmt: skip


def answer(shell: Shell, study: str, answers: str, *words: str) -> None:
    """Ask and answer, once for each letter: a, b, tie as t, skip as s."""
    for letter in answers:
        shell("ask", study, *words)
        shell("tell", study, {"t": "tie", "s": "skip"}.get(letter, letter), *words)
