"""The first questions of a study: about designs of its Sobol sequence that can be told apart and keep its limits."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, islice, product

import torch
from torch import Tensor

from kappasharp.acquisition import line
from kappasharp.errors import InvalidValueError
from kappasharp.journal.definition import STRAIGHT, Definition
from kappasharp.journal.history import History, design_key
from kappasharp.messages.message import Sentence, listed, said
from kappasharp.model import feasibility
from kappasharp.model import points as model_points
from kappasharp.model.feasibility import Allowed, AllowedSequence, WithinLimits
from kappasharp.planning.candidates import Seen
from kappasharp.questions.kind import PAIR, Form, Kind
from kappasharp.space.space import Design, Space

# How often designs of a first question are drawn again where they cannot be told apart; and up to how many designs a
# space may have for all of them to be looked at after that.
DRAWS, SMALL = 64, 4096
# Places of a line at which its designs must keep the limits.
PLACES = 41
# Of a grid of designs that can just be told apart: how much longer its steps are, and how many it has at most.
HAIR, GRID = 1e-6, 16

Take = Callable[[int, int], list[Design]]


def sobol(definition: Definition, skip: int, count: int) -> list[Design]:
    """Designs of the study's scrambled Sobol sequence, every value of a lattice with the same share."""
    return model_points.designs(definition.space, definition.seed, skip, count)


def drawing(definition: Definition, allowed: Allowed | None) -> Take:
    """The same sequence from a place on, without the designs that break a limit."""
    if allowed is None:
        return lambda skip, count: sobol(definition, skip, count)
    return AllowedSequence(definition, allowed).take


def first(definition: Definition, history: History, form: Form) -> list[Design]:
    """The next designs of the scrambled Sobol sequence that can be told apart and were not met together."""
    return widened(lambda allowed: _first(definition, history, form, allowed), feasibility.of(definition, history))


def widened(ask: Callable[[Allowed | None], list[Design]], allowed: Allowed | None) -> list[Design]:
    """What is asked within limits; without predicted ones where these leave too few: measuring others may mend it."""
    try:
        return ask(allowed)
    except InvalidValueError:
        wider = feasibility.without_predicted(allowed)
        if wider is allowed:
            raise
        return ask(wider)


def _first(definition: Definition, history: History, form: Form, allowed: Allowed | None) -> list[Design]:
    take, used = drawing(definition, allowed), _drawn(history)
    seen = Seen(definition.space, history, allowed)
    waiting = _waiting(definition, seen)
    if waiting:
        return _about(waiting, seen, take, used, form)
    if form.kind is Kind.SLIDER:
        return first_line(definition, history, allowed, form.designs)
    if form.designs > PAIR:
        return _gallery(seen, take, used, form.designs)
    for count in range(DRAWS):
        drawn = seen.nearest(*take(used + 2 * count, 2))
        if len(drawn) < PAIR:
            break
        if seen.allows(*drawn):
            return drawn
    # So few designs that all of them met: any two that differ.
    known = [*take(0, 2 * DRAWS), *seen.keeping(list(every(definition.space)))]
    differing = ([one, other] for one, other in combinations(known, 2) if not definition.space.same(one, other))
    return enough(next(differing, known[:1]), PAIR, allowed)


def _waiting(definition: Definition, seen: Seen) -> list[Design]:
    """The designs that people came with and nobody was asked about yet, as far as they are open and keep the limits."""
    return seen.keeping(_unasked(definition, seen.history))


def _unasked(definition: Definition, history: History) -> list[Design]:
    put = [question for number, (question, _) in history.asked.items() if number not in history.withdrawn]
    shown = {design_key(design) for question in put for design in question.designs}
    return [one for one in definition.favourites if design_key(one) not in shown]


def notes(definition: Definition, history: History) -> list[Sentence]:
    """Which of the designs that people came with are not asked about, because they break a limit or seem to."""
    unasked = [one for one in _unasked(definition, history) if not definition.space.outside(one)]
    if not unasked:
        return []
    seen = Seen(definition.space, history, feasibility.of(definition, history))
    kept = {design_key(one) for one in seen.keeping(unasked)}
    lines = []
    for one in unasked:
        if design_key(one) not in kept:
            broken = feasibility.broken(definition, history, one)
            why = said("note.unkept", "its outcomes are missing, or expected to break a limit")
            why = said("note.breaks", "it breaks {limits}", limits=listed(broken)) if broken else why
            words = "The favourite {design} is not asked about: {why}; `study.enqueue` asks about it all the same."
            lines.append(said("note.favourite", words, design=str(one), why=why))
    return lines


def _about(waiting: list[Design], seen: Seen, take: Take, used: int, form: Form) -> list[Design]:
    """The first of those designs, and others of the Sobol sequence beside them; a straight line has one at an end."""
    kept = waiting[: 1 if form == STRAIGHT else form.designs]
    drawn = (one for skip in range(0, DRAWS * form.designs, form.designs) for one in take(used + skip, form.designs))
    kept = [*kept, *islice(seen.distinct(drawn, kept), form.designs - len(kept))]
    if len(kept) < form.designs:
        others = seen.distinct(seen.keeping(list(every(seen.space))), kept)
        kept += islice(others, form.designs - len(kept))
    kept = enough(kept, form.designs, seen.allowed)
    return kept if form.kind is not Kind.SLIDER or seen.allowed is None else _line_from(kept, seen.space, seen.allowed)


def _line_from(designs: list[Design], space: Space, allowed: Allowed) -> list[Design]:
    """The line through designs; where that breaks a limit, one straight from the first to another, as far as it may."""
    if all(_keeps(space, allowed, _along(space, designs, (len(designs) - 1) * (PLACES - 1) + 1))):
        return designs
    ends = []
    for other in designs[1:]:
        along = _along(space, [designs[0], other], PLACES)
        kept = _keeps(space, allowed, along)
        # As in `_longest`: what a limit ends gives up one place there.
        end = len(along) - 1 if all(kept) else kept.index(False) - 2
        ends.append((end, along[max(end, 0)]))
    end, last = max(ends, key=lambda found: found[0])
    return designs if end < 1 else _along(space, [designs[0], last], len(designs))


def _keeps(space: Space, allowed: Allowed, designs: Sequence[Design]) -> list[bool]:
    """Which of the designs keep the limits."""
    found: list[bool] = (allowed(model_points.points(space, designs)) == 0.0).tolist()
    return found


def _drawn(history: History) -> int:
    """How many designs of the Sobol sequence were shown."""
    return sum(len(event.designs) for _, event in history.asked.values() if event.origin == "start")


def _gallery(seen: Seen, take: Take, used: int, count: int) -> list[Design]:
    drawn = (one for skip in range(0, DRAWS * count, count) for one in take(used + skip, count))
    kept = list(islice(seen.distinct(drawn), count))
    if len(kept) < count:
        kept += islice(seen.distinct(seen.keeping(list(every(seen.space))), kept), count - len(kept))
    if len(kept) < count:
        # One design in the middle may leave no room for others: so begin at a corner, as densely as can be told apart.
        kept = max(kept, list(islice(seen.distinct(seen.keeping(list(_packed(seen.space)))), count)), key=len)
    return enough(kept, count, seen.allowed)


def _packed(space: Space) -> Iterable[Design]:
    """Designs on a grid whose steps are a hair longer than what can be told apart."""
    box = model_points.box(space)
    lows, highs = ([end] * len(space.tolerance) for end in (0.0, 1.0)) if box is None else (end.tolist() for end in box)
    sides = []
    for low, high, within in zip(lows, highs, space.tolerance, strict=True):
        step = max(within * (1.0 + HAIR), (high - low) / GRID, HAIR)
        sides.append([low + number * step for number in range(int((high - low) / step + HAIR) + 1)])
    return (space.decode(list(point)) for point in islice(product(*sides), SMALL))


def first_line(
    definition: Definition, history: History, allowed: Allowed | None, count: int, further: int = 0
) -> list[Design]:
    """A line through the next Sobol designs, so many; a straight one as long as the cube and the limits let it be.

    `further`: how many lines later in the sequence.
    """
    space, used, take = definition.space, _drawn(history) + further * count, drawing(definition, allowed)
    for draw in range(DRAWS):
        drawn = take(used + count * draw, count)
        if len(drawn) < PAIR:
            break
        points = model_points.points(space, drawn)
        straight = line.lengthened(points[:PAIR], box=model_points.box(space))
        corners = points if len(points) == count > PAIR else _evenly(straight, count)
        found = within(space, allowed, corners) or within(space, allowed, _evenly(straight, count))
        if found is not None:
            return found
    raise InvalidValueError(
        f"A slider must have a line of designs that can be told apart, but none was found{_within(allowed)}; ask for a "
        "pair, or make a `jnd` smaller."
    )


def _evenly(ends: Tensor, count: int) -> Tensor:
    """So many places of a line (q, d)."""
    return line.at(ends, torch.linspace(0.0, 1.0, count, dtype=ends.dtype))


def within(space: Space, allowed: Allowed | None, corners: Tensor) -> list[Design] | None:
    """The corners (q, d) of a line as designs; where it breaks a limit, as many along its longest straight stretch.

    None where nobody could tell its ends apart, or two of its designs are one. Of designs that cannot be told from one
    before them the line has others on its way.
    """
    designs = [space.decode(corner) for corner in corners.tolist()]
    apart = _apart(space, designs)
    if len(apart) < PAIR:
        return None
    designs = designs if len(apart) == len(designs) else _along(space, apart, len(designs))
    if allowed is not None:
        parts = len(designs) - 1
        along = _along(space, designs, parts * (PLACES - 1) + 1)
        kept = _keeps(space, allowed, along)
        if not all(kept):
            begin, end = max((_stretch(kept, part) for part in range(parts)), key=lambda found: found[1] - found[0])
            if end - begin < 1:
                return None
            designs = _along(space, [along[begin], along[end]], len(designs))
    alike = space.same(designs[0], designs[-1]) and len(_apart(space, designs)) < len(designs)
    return None if alike or len({design_key(one) for one in designs}) < len(designs) else designs


def _apart(space: Space, designs: Sequence[Design]) -> list[Design]:
    """Those that can be told from all before them."""
    found: list[Design] = []
    for design in designs:
        if not any(space.same(design, one) for one in found):
            found.append(design)
    return found


def _along(space: Space, designs: Sequence[Design], count: int) -> list[Design]:
    """So many places of the line through designs."""
    return [space.along(designs, number / (count - 1)) for number in range(count)]


def _stretch(kept: Sequence[bool], part: int) -> tuple[int, int]:
    """First and last of the places of a part that keep the limits, the longest run of them."""
    begin = part * (PLACES - 1)
    low, high = _longest(kept[begin : begin + PLACES])
    return begin + low, begin + high


def _longest(kept: Sequence[bool]) -> tuple[int, int]:
    """First and last of the longest run; a run that a limit ends gives up one place there, for what lies between."""
    best, begin = (0, -1), None
    for at, keeps in enumerate([*kept, False]):
        if keeps and begin is None:
            begin = at
        if not keeps and begin is not None:
            low, high = begin + (begin > 0), at - 1 - (at < len(kept))
            best, begin = max(best, (low, high), key=lambda run: run[1] - run[0]), None
    return best


def every(space: Space) -> Iterable[Design]:
    """All designs of a small space."""
    values = list(space.open_values.values())
    if space.size > SMALL or None in values:
        return ()
    return (space.check(dict(zip(space.tuned, row, strict=True))) for row in product(*values))  # type: ignore[arg-type]


def enough(found: list[Design], count: int, allowed: Allowed | None) -> list[Design]:
    """The designs, or a sentence where they are too few."""
    if len(found) < count:
        were = "1 was" if len(found) == 1 else f"{len(found)} were"
        fewer = "ask about fewer" if count > PAIR else "`study.widen` opens more of a parameter"
        wider = ", a new study may have wider limits" if _limits(allowed) else ""
        raise InvalidValueError(
            f"A question must show {count} designs that can be told apart, but only {were} found{_within(allowed)}; "
            f"{fewer}{wider}, or make a `jnd` smaller."
        )
    return found


def _within(allowed: Allowed | None) -> str:
    limits = _limits(allowed)
    return f" within {listed(limits)}" if limits else " in this space"


def _limits(allowed: Allowed | None) -> list[str]:
    return allowed.named() if isinstance(allowed, WithinLimits) else []
