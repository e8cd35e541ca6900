"""A database with everything in it, made by today's version: `python -m tests.recorded.everything FOLDER`.

It writes sqlite.sql, the tables, and rows.sql, what is in them. Done once for each version of the tables; the files
then stay as they are, and what later versions make of them is compared.
"""

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import kappasharp as ks
from tests.recorded.functions import utility
from tests.recorded.server import clients, serving

SPACE: dict[str, Any] = {
    "kp": ks.Float(0.2, 3.0, log=True), "ki": ks.Float(0.0, 2.0, jnd=0.01), "n": ks.Int(1, 4),
    "mode": ["soft", "hard", "ü"], "rate": ks.Fixed(100),
}  # fmt: skip
TABLES = ("schema", "studies", "events", "invites", "seats")
FORMS = ("pair", "choice:3", "order:4", "slider", "slider:2", "rating", "pair")
FIRST = {"kp": 1.0, "ki": 0.4, "n": 2, "mode": "hard", "rate": 100}
SECOND = {"kp": 2.0, "ki": 0.2, "n": 3, "mode": "soft", "rate": 100}


def _answer(study: Any, form: str, voter: str) -> Any:
    asked = study.ask(voter, kind=form)
    ranked = sorted(range(len(asked.designs)), key=lambda place: -utility(asked.designs[place]))
    said = {"choice": ranked[0], "order": [ranked[0], ranked[1:3]], "slider": 0.35, "rating": 2 - ranked[0] * 3}
    return study.tell(asked, said.get(asked.kind, "ab"[ranked[0]]), seconds=2.5)


def _judge(question: Any) -> str:
    return "a"


def everything(url: str) -> None:
    """A study in which everything happened that can happen in one."""
    study = ks.create_study(
        SPACE, storage=url, study_name="everything", seed=5, first_pairs=3, preset="modern",
        outcomes="tests.recorded.functions:simulate", hints=[ks.Less("overshoot")],
        limits=[ks.AtMost("settling", 9.0), "kp + ki <= 4.5"], favourites=[FIRST],
        render="tests.recorded.functions:render",
    )  # fmt: skip
    for count, form in enumerate(FORMS):
        last = _answer(study, form, ("me", "anna", "ben")[count % 3])
    study.tell(study.ask("anna", kind="pair"), "tie")
    study.tell(study.ask("ben", kind="pair"), "skip")
    study.undo("ben")
    study.amend(last.event, None, voter="me")
    study.amend(last.event, "b", voter="me")
    study.add_comparison(FIRST, SECOND, voter="anna")
    study.add_comparison({**FIRST, "kp": 0.5}, SECOND, tie=True)
    study.record(FIRST, {"overshoot": 0.2, "settling": 3.0}, voter="ben")
    study.record(FIRST, {"overshoot": 0.3}, repeat=True)
    study.note(FIRST, "what we use today; it hums", voter="anna")
    study.note(SECOND, "=too loud")
    study.note(SECOND, None)
    study.weigh({"anna": 2.0, "ben": 0.5}, voter="anna")
    study.narrow("ki", 0.1, 1.5)
    study.lock("mode", "soft", voter="anna")
    study.undo("anna")
    study.widen("kp", 0.1, 3.0)
    ks.optimize(study, judge=_judge, n=2, voter="robot")
    study.enqueue(FIRST, SECOND, people=True)
    study.ask_again(last.pair)
    study.settle(2, question="choice:3")
    _answer(study, "pair", "me")
    study.ask("ben")


def others(url: str) -> None:
    """Beside it: voters who are told apart, a preset of one's own, measured outcomes, a study without any event."""
    own = ks.Preset(priors="botorch_0_18", nugget=1e-5, maximizer="default", first_pairs=2)
    study = ks.create_study(
        {"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage=url, study_name="apart", preset=own, tell_apart=True,
        use_seconds=True, outcomes=["comfort"], question="auto",
    )  # fmt: skip
    for count in range(6):
        _answer(study, "pair", ("anna", "ben")[count % 2])
    study.record({"x": 0.5, "y": 0.25}, {"comfort": 7.5})
    ks.create_study({"x": (0.0, 1.0)}, storage=url, study_name="empty", method="adaptive", preset="paper")


def main() -> None:
    """Write the two files into the folder that is named."""
    with tempfile.TemporaryDirectory() as name:
        folder, target = Path(name), Path(sys.argv[1])
        url = f"sqlite:///{folder / 'studies.db'}"
        everything(url)
        others(url)
        # With links into it, and people who came by them.
        words = ("--render", "tests.recorded.functions:render")
        with serving(folder, url, *words) as (address, key):
            study = next(one.uid for one in ks.list_studies(storage=url) if one.name == "everything")
            with clients(address, key, study, "olga", "vera"):
                pass
        with closing(sqlite3.connect(folder / "studies.db")) as database:
            lines = [line for line in database.iterdump() if "kappasharp_" in line and "sqlite_sequence" not in line]
        target.mkdir(exist_ok=True)
        # What others name comes first.
        lines.sort(key=lambda line: next(place for place, table in enumerate(TABLES) if f"kappasharp_{table}" in line))
        for kind, file in (("CREATE", "sqlite.sql"), ("INSERT", "rows.sql")):
            text = "".join(f"{line}\n" for line in lines if line.startswith(kind))
            (target / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
