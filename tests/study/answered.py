"""Studies that somebody has answered, for tests of what comes after: each question is computed once and asked again.

What is asked follows from the definition and the events before it, as `test_questions` and `test_kinds` prove. So a
second study of the same beginning gets the questions of the first, by the way that the page hands them in.
"""

import json

import kappasharp as ks
from kappasharp.journal.events import Asked
from kappasharp.study.study import Study

ASKED: dict[str, Asked] = {}


def _beginning(study: Study, voter: str) -> str:
    """All that the next question hangs on."""
    happened = [(one["kind"], one["voter"], one["body"]) for one in study.plain()["events"]]
    return json.dumps([study.definition.plain(), happened, voter])


def answer(study: Study, say, voter: str = "me", **more):
    """The question that the voter is asked next, answered by what `say` makes of it."""
    if study.history.open_pair(voter) is None:
        beginning = _beginning(study, voter)
        if beginning not in ASKED:
            ASKED[beginning] = study.propose(voter=voter)
        asked = study.ask(voter, proposed=ASKED[beginning])
    else:
        asked = study.ask(voter)
    study.tell(asked, say(asked), **more)
    return asked


def optimize(space, prefer, count, **options):
    """As `ks.optimize`, where `prefer` says whether the first design is the better one."""
    study = ks.create_study(space, storage="sqlite://", **options)
    for _ in range(count):
        answer(study, lambda pair: "a" if prefer(pair.a, pair.b) else "b")
    return study
