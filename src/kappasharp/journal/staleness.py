"""Whether a question that was chosen may still be put: others may have been asked and answered since."""

from kappasharp.errors import InvalidValueError
from kappasharp.journal.events import Asked
from kappasharp.journal.history import History, design_key
from kappasharp.questions.kind import Form

# How often a question may be refused while nothing happens in the study.
MOST_REFUSALS = 5


class Refusals:
    """Those of one voter's questions: what is refused while nothing else happens would be refused for ever."""

    def __init__(self) -> None:
        self._number, self._count = -1, 0

    def note(self, number: int, voter: str) -> None:
        """One that rested on the events up to this number was refused, or put; after too many, a sentence."""
        self._count = self._count + 1 if number == self._number else 1
        self._number = number
        if self._count > MOST_REFUSALS:
            raise InvalidValueError(
                f"No question can be put to {voter!r}: what is proposed is refused each time, although nobody else "
                "answers. Nothing was stored. Widen what was narrowed last, or ask for another kind of question."
            )


def still_right(
    history: History, proposed: Asked, voter: str, form: Form | None = None, *, leaving: int | None = None
) -> Asked | None:
    """The question, unless it was overtaken: by this voter, by the queue, or by another voter with the same designs.

    Designs that nobody can tell apart are the same.

    Args:
        history: what happened up to now.
        proposed: the question.
        voter: whom it would be put to; one of another form that waits for them is withdrawn where `form` is given.
        form: what they asked for.
        leaving: the number of their open question, where they are just answering it.
    """
    waiting = history.open_pair(voter)
    if waiting is not None and waiting.number != leaving and (form is None or waiting.form == form):
        return None
    queue = history.programs.may_take(voter, history.queue)
    if proposed.origin in ("queue", "again"):
        return proposed if proposed.after in queue else None
    if queue and form is None:
        return None
    if history.space is not None and any(history.space.outside(design) for design in proposed.designs):
        return None
    return None if _was_put_since(history, proposed) else proposed


def _was_put_since(history: History, proposed: Asked) -> bool:
    """Whether a question about these designs was put to somebody after the events that it rests on."""
    wanted, space = {design_key(design) for design in proposed.designs}, None
    for number, (question, _) in reversed(history.asked.items()):
        if number <= proposed.after:
            return False
        if question.space is None or question.more or proposed.more:
            if wanted == {design_key(design) for design in question.designs}:
                return True
            continue
        if question.space is not space:
            space = question.space
            points = [space.encode(design) for design in proposed.designs]
            within, begins, near = space.tolerance, points[0][0], space.tolerance[0]
        theirs = question.points
        # Among many voters this is asked a thousand times for every question; a pair is the same in either order.
        if abs(theirs[0][0] - begins) <= near and _alike(points, theirs, within):
            return True
        if abs(theirs[1][0] - begins) <= near and _alike(points, theirs[::-1], within):
            return True
    return False


def _alike(points: list[list[float]], others: list[list[float]], within: list[float]) -> bool:
    """Whether nobody could tell the designs at these points from the others."""
    return all(
        abs(x - y) <= most
        for one, other in zip(points, others, strict=True)
        for x, y, most in zip(one, other, within, strict=True)
    )
