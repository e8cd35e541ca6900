"""A team in pictures and words, for the page and the report: the map of who agrees with whom, and what suits whom."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from itertools import combinations
from typing import Any

from kappasharp.messages.message import counted, said, text
from kappasharp.results.agreement import Agreement, VoterTaste
from kappasharp.views import charts
from kappasharp.views.charts import LETTER, LINE, Chart, Mark, Words

WIDTH, LOWEST, HIGHEST, EDGE = 360.0, 140.0, 300.0, 40.0
# So far from the middle, at least, is the edge of the map: people of one taste stand close together on it.
LEAST_REACH = 0.45
# Radius of a voter on the map by how many there are at most, and how far two that stand in one place are moved apart.
SIZES = ((12, 9.0), (40, 6.5), (math.inf, 4.5))
MOVES = 40
SAME = 1e-6
MAP_MEANS = (
    "The nearer two voters are, the more alike their tastes; colours and lines join those of one taste. A square is a "
    "program; who is hollow gave too few answers to be placed with any certainty, or answers close to chance."
)


def agreement_map(found: Agreement) -> Chart:
    """Every voter at their place, joined to the middle of their group."""
    size = next(radius for most, radius in SIZES if len(found.voters) <= most)
    scale, height = _size(found.places)
    spots = [(WIDTH / 2 + x * scale, height / 2 - y * scale) for x, y in found.places]
    places = _apart(spots, 2.0 * size + 3.0, height)
    drawn: list[Mark] = []
    for number, group in enumerate(found.groups):
        members = [places[i] for i, one in enumerate(found.voters) if one.group == number]
        middle = sum(x for x, _ in members) / len(members), sum(y for _, y in members) / len(members)
        kind = f"kin group-{number % charts.COLOURS}"
        joined = members if len(group.voters) > 1 else []
        drawn += [charts.line(_round(middle[0]), _round(middle[1]), _round(x), _round(y), kind) for x, y in joined]
    for one, place in zip(found.voters, places, strict=True):
        drawn.append(_shape(one, place, size))
    drawn += _names(found.voters, places, size, height)
    first = found.sentences[0]
    label = said("team.map", "Map of {voters} voters: {sentence}", voters=len(found.voters), sentence=first)
    caption = said("team.near", "near: alike; far apart: different")
    return Chart(WIDTH, height, label, drawn, [Words(caption, "")])


def _size(places: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """How large a distance of 1 is drawn, and how high the map is then: as high as it must be."""
    across, up = (max(LEAST_REACH, *(abs(place[i]) for place in places), 0.0) for i in range(2))
    scale = min((WIDTH / 2 - EDGE) / across, (HIGHEST / 2 - EDGE) / up)
    return scale, max(LOWEST, 2.0 * (max(abs(y) for _, y in places) * scale + EDGE))


def _apart(places: list[tuple[float, float]], gap: float, height: float) -> list[tuple[float, float]]:
    """The same, moved as far as it takes for none to hide another."""
    moved = [list(one) for one in places]
    for turn in range(MOVES):
        touched = False
        for i, j in combinations(range(len(moved)), 2):
            across, down = moved[j][0] - moved[i][0], moved[j][1] - moved[i][1]
            far = math.hypot(across, down)
            if far >= gap:
                continue
            touched = True
            # Of two in one place each pair goes its own way.
            angle = math.atan2(down, across) if far > SAME else 2.4 * (i + j + turn)
            step = 0.5 * (gap - far) + 0.01
            for one, way in ((i, -step), (j, step)):
                moved[one][0] = min(max(moved[one][0] + way * math.cos(angle), EDGE / 2), WIDTH - EDGE / 2)
                moved[one][1] = min(max(moved[one][1] + way * math.sin(angle), LINE), height - 2 * LINE)
        if not touched:
            break
    return [(one[0], one[1]) for one in moved]


def _shape(one: VoterTaste, place: tuple[float, float], size: float) -> Mark:
    kind = "node hollow" if one.group is None else f"node group-{one.group % charts.COLOURS}"
    x, y = map(_round, place)
    if not one.program:
        return charts.circle(x, y, size, kind, _title(one))
    at = {"x": _round(x - size), "y": _round(y - size), "width": 2 * size, "height": 2 * size}
    return Mark("rect", kind, dict(at), title=_title(one))


def _title(one: VoterTaste) -> str:
    name = said("team.program", "{name}, a program", name=one.voter) if one.program else one.voter
    told: str = counted("team.answers", "{count} answer", "{count} answers", one.answers)
    told = said("team.none", "no answers yet") if one.predicted else told
    lot = said("team.lot", "close to chance")
    group = lot if one.is_careless else said("team.ungrouped", "too few to tell")
    if one.group is not None:
        group = said("team.numbered", "group {number}", number=one.group + 1)
    return said("team.title", "{name}: {told}, {group}", name=name, told=told, group=group)


def _names(
    voters: Sequence[VoterTaste], places: Sequence[tuple[float, float]], size: float, height: float
) -> list[Mark]:
    """A name beside each, below, above, right or left, where it covers nothing; else the pointer brings it up."""
    taken = [(x - size, y - size, x + size, y + size) for x, y in places]
    drawn = []
    for one, (x, y) in zip(voters, places, strict=True):
        words = charts.cut(one.voter, WIDTH / 3)
        wide = LETTER * len(words)
        sides = (
            (x - wide / 2, y + size + 1, "middle", x), (x - wide / 2, y - size - 1 - LINE, "middle", x),
            (x + size + 4, y - LINE / 2, "start", x + size + 4),
            (x - size - 4 - wide, y - LINE / 2, "end", x - size - 4),
        )  # fmt: skip
        for left, top, anchor, at in sides:
            box = (left, top, left + wide, top + LINE)
            if box[0] < 0 or box[1] < 0 or box[2] > WIDTH or box[3] > height or any(_cover(box, two) for two in taken):
                continue
            taken.append(box)
            drawn.append(charts.axis_label(at, top + LINE - 2, words, anchor, _title(one)))
            break
    return drawn


def _cover(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _round(value: float) -> float:
    return round(value, 1)


def plain(found: Agreement) -> dict[str, Any]:
    """All of it as plain data, with its map."""
    more = {"sentences": found.sentences, "map": charts.plain(agreement_map(found))}
    voters = [asdict(one) | {"careless": one.is_careless} for one in found.voters]
    return asdict(found) | more | {"voters": voters}


def html(found: Agreement) -> str:
    """The same as a section of a report."""
    lines = "".join(f"<li>{escape(one)}</li>" for one in found.sentences)
    head = "".join(
        f"<th>{words}</th>"
        for words in ("voter", "answers", "weight", "group", "best", "likes it", "likes the common best", "the fairest")
    )
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(one))}</tr>" for one in found.voters)
    two = (("for all", found.best.params), ("fairest", found.fairest.params))
    values = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(f'<td>{escape(text(design[name]))}</td>' for _, design in two)}</tr>"
        for name in found.best.params
    )
    heads = "<td></td>" + "".join(f"<th>{words}</th>" for words, _ in two)
    return (
        f"<ul>{lines}</ul>{charts.html(agreement_map(found))}<p class='small'>{MAP_MEANS}</p>"
        f"<div class='scroll'><table class='answers'><tr>{head}</tr>{rows}</table></div>"
        "<p class='small'>A percentage is the share of designs that this voter likes less.</p>"
        f"<div class='scroll'><table class='answers'><tr>{heads}</tr>{values}</table></div>"
    )


def _cells(one: VoterTaste) -> list[str]:
    kind = " (program)" if one.program else " (predicted)" if one.predicted else ""
    group = "–" if one.group is None else str(one.group + 1)
    shares = (one.best.beats_random, one.likes_best, one.likes_fairest)
    return [
        f"{one.voter}{kind}", str(one.answers), f"{one.weight:g}", group, f"design {one.best.option}",
        *(f"{share:.0%}" for share in shares),
    ]  # fmt: skip
