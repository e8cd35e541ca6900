"""What leaves the server: the page itself, a study as plain data, as files to download, and the bytes of its cards."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from html import unescape
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kappasharp.errors import named
from kappasharp.journal import question, voters
from kappasharp.journal.definition import Definition
from kappasharp.journal.fit_note import noted_after
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison, StudyQuestion
from kappasharp.messages.message import taken_apart
from kappasharp.questions.kind import Kind
from kappasharp.simulators import records
from kappasharp.space.space import Design
from kappasharp.study.snapshot import Plain, Snapshot
from kappasharp.views import outcomes as views_outcomes
from kappasharp.web import guard
from kappasharp.web.open_study import SOON, Session, ToldOutcomes, finest_of, stops_ahead, stops_of
from kappasharp.web.pictures import Card

# What a card that is a text may begin with: its own words for those who do not see it.
TITLED, TITLE = ("image/svg", "text/html"), re.compile(rb"<title[^>]*>([^<]*)</title>", re.IGNORECASE)
RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")
TYPES = {
    ".json": "application/json", ".csv": "text/csv; charset=utf-8", ".parquet": "application/vnd.apache.parquet",
    ".html": "text/html; charset=utf-8", ".py": "text/x-python; charset=utf-8",
}  # fmt: skip
ASSET_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# A report opened from here is still a stranger to the page: no script, nothing from elsewhere.
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"


@cache
def assets() -> dict[str, bytes]:
    """The page's own files, by name: what is not in here cannot be asked for."""
    found = [*files("kappasharp.web").joinpath("pages").iterdir(), files("kappasharp.views").joinpath("charts.css")]
    return {one.name: one.read_bytes() for one in found if one.is_file()}


async def page(_: Request) -> Response:
    """The page itself."""
    return Response(assets()["index.html"], media_type="text/html")


async def asset(request: Request) -> Response:
    """A script or style of the page."""
    name = request.path_params["name"]
    if name not in assets():
        raise HTTPException(404, "There is no such file.")
    kind = ASSET_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(assets()[name], media_type=kind, headers={"cache-control": "no-cache"})


def json_text(data: Any) -> str:
    """Plain data as JSON, sentences with what they are made of; what UTF-8 cannot hold is written with escapes."""
    return json.dumps(taken_apart(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def study_data(session: Session, missing_renderer: str | None) -> Plain:
    """What the page must know of a study before it shows anything."""
    study, definition = session.study, session.study.definition
    return {
        "id": study.stored.uid,
        "name": study.name,
        "created": study.stored.created,
        "method": definition.method_name,
        "preset": definition.preset_choice if isinstance(definition.preset_choice, str) else "its own",
        "seed": definition.seed,
        "first_pairs": definition.first_pairs,
        "question": definition.question,
        "kinds": definition.kinds,
        "parameters": [{"name": name} | part for name, part in definition.space.definition().items()],
        "has_pictures": session.renderer is not None,
        "missing_renderer": missing_renderer,
        "outcomes": None if definition.outcomes is None else _outcomes(definition),
        "voters": study.read(lambda history: len(voters.known(history))),
    }


def _outcomes(definition: Definition) -> Plain:
    """What the page must know of a study's outcomes."""
    assert definition.outcomes is not None
    table = [{"name": one.name, "better": one.better} | one.plain() for one in definition.outcomes.table]
    return {"table": table, "missing": records.missing_function(definition)}


def card_data(card: Card, key: str) -> Plain:
    """A card without its bytes, the key that they have in an address, and what an SVG or a page says that it shows."""
    found = TITLE.search(card.body[:4096]) if card.type.startswith(TITLED) else None
    words = "" if found is None else " ".join(unescape(found[1].decode("utf-8", "replace")).split())
    return {"kind": card.kind, "sentence": card.sentence, "key": key, "description": words[:300]}


async def pair_data(session: Session, pair: StudyQuestion) -> Plain:
    """A question and how far its voter is. What the model expects is not in it: nobody should know before the vote.

    kind     "pair", "choice", "order", "slider" or "rating"; `form` has the number of designs too: "order:4"
    designs  a list of {option, params, card}, numbered from 0 as answers number them; a slider's are those that its
             line goes through, which are no options
    a, b     the first two of them, of a pair and a rating
    line     of a slider: `stops`, a list of {place, params, card} from 0 to 1; `card` is null where nothing is drawn
             yet. GET …/line/NUMBER?place=0.35 gives the same for the nearest of the `finest` places, once it is drawn
    ranges   of a study with outcomes: how far each goes among the designs that are known. Each design has `outcomes`
             then, {state, values, sentence}; GET …/outcomes/NUMBER gives them once they are computed
    """
    # Whoever has this question has just read or written the study: nothing newer is needed.
    numbers, progress = await session.aside(
        session.study.glance, lambda history: (history.numbers(pair), _progress(history, pair))
    )
    options = numbers or (None,) * len(pair.designs)
    designs = [
        {"option": option, "params": design, "card": card_data(*session.peek(design))}
        for option, design in zip(options, pair.designs, strict=True)
    ]
    seen = await outcomes_data(session, pair, SOON)
    designs = (
        [one | {"outcomes": told} for one, told in zip(designs, seen["outcomes"], strict=True)] if seen else designs
    )
    progress |= {"ranges": seen["ranges"]} if seen else {}
    sides = dict(zip("ab", designs, strict=True)) if pair.form.kind in (Kind.PAIR, Kind.RATING) else {}
    line = {"line": _line(session, pair)} if pair.form.kind is Kind.SLIDER else {}
    head = {"number": pair.number, "voter": pair.voter, "origin": pair.origin}
    return {**head, "kind": pair.kind, "form": str(pair.form), "designs": designs, **sides, **line, **progress}


async def outcomes_data(session: Session, pair: StudyQuestion, seconds: float) -> Plain:
    """The outcomes of a question's designs after so many seconds, or once they are there; of a study with some."""
    outcomes = session.study.definition.outcomes
    if outcomes is None:
        return {}
    await session.results.complete(pair.number, seconds)

    def look(history: History) -> Plain:
        within = views_outcomes.ranges(history, outcomes.names)
        told = [session.results.told(history, pair.number, design) for design in pair.designs]
        return {"outcomes": [told_data(one, within) for one in told], "ranges": within}

    return await session.read(look)


async def place_outcomes(session: Session, design: Design) -> Plain:
    """The outcomes at a place of a slider, once they are computed; of a study with some."""
    outcomes = session.study.definition.outcomes
    if outcomes is None:
        return {}
    told = await session.results.at(design)
    within = await session.read(lambda history: views_outcomes.ranges(history, outcomes.names))
    return {"outcomes": told_data(told, within)}


def told_data(told: ToldOutcomes, within: dict[str, views_outcomes.Range]) -> Plain:
    """The outcomes of one design."""
    return views_outcomes.plain(told.state, told.values, told.sentence, within)


def _line(session: Session, slider: StudyQuestion) -> Plain:
    """The stops of a slider, with the cards of those that are drawn whether or not somebody moves it."""
    stops, count, ahead = [], stops_of(slider), stops_ahead(slider)
    for number in range(count + 1):
        place = number / count
        design = slider.at(place)
        shown = card_data(*session.peek(design)) if number in ahead else None
        stops.append({"place": place, "params": design, "card": shown})
    return {"stops": stops, "finest": finest_of(slider)}


def _progress(history: History, pair: StudyQuestion) -> Plain:
    memo, last = history.asked[pair.number][1].memo, history.last_of(pair.voter)
    undoing = {"can_undo": last is not None, "undoes_answer": history.is_answer(last)}
    told = {"answers": len(history.counted()), "since": history.moved_at} | undoing
    # Among many voters a question rests on an earlier fit than the last answer's.
    return told | {"rests_on": None if memo is None else noted_after(memo)}


def history_data(at: Snapshot) -> Plain:
    """Every answer, the latest first, with the answers that it contradicts; and those that were taken out."""
    definition, history = at.opened()
    counted, called = history.counted(), history.answer_numbers()
    against: dict[int, list[int]] = {}
    for earlier, later in question.opposite(counted):
        against.setdefault(earlier, []).append(called[later])
        against.setdefault(later, []).append(called[earlier])

    def row(one: Comparison) -> Plain:
        more = {"number": called[one.event], "form": str(one.form), "contradicts": against.get(one.event, [])}
        origin = "elsewhere" if one.pair is None else history.asked[one.pair][0].origin
        return asdict(one) | more | {"origin": origin}

    rows = [row(one) for one in reversed(history.comparisons.values())]
    removed = [row(history.removed[event]) for event in sorted(history.removed, reverse=True)]
    designs = {number: history.options[number] for one in rows + removed for number in one["options"]}
    lists = {"since": history.moved_at, "rows": rows, "removed": removed, "options": designs}
    lists["outcomes"] = _told(definition, history, designs)
    return lists | {"cycle": question.cycle(counted), "queue": len(history.queue)}


def _told(definition: Definition, history: History, designs: Mapping[int, Design]) -> Plain:
    """The outcomes of designs as they were recorded, in words; nothing of a study without."""
    if definition.outcomes is None:
        return {}
    within = views_outcomes.ranges(history, definition.outcomes.names)
    known = {number: history.outcomes(design) for number, design in designs.items()}
    return {
        str(number): {name: views_outcomes.rounded(value, within.get(name)) for name, value in one.values.items()}
        for number, one in known.items()
        if one is not None and one.runs
    }


class Export(NamedTuple):
    """A file to download: its ending, and what its name says beside the study's; `jobs.exported` makes it."""

    ending: str
    suffix: str = ""


# By address.
EXPORTS = {
    "json": Export(".json"),
    "csv": Export(".csv", "-answers"),
    "options": Export(".csv", "-designs"),
    "parquet": Export(".parquet", "-answers"),
    "html": Export(".html", "-report"),
    "python": Export(".py"),
}


async def export(session: Session, kind: str, visitor: str) -> Response:
    """The study as a file to download."""
    ending, suffix = named("export", kind, EXPORTS)
    made = await session.exported(kind, visitor)
    name = re.sub(r"[^\w.-]+", "-", session.study.name, flags=re.ASCII).strip("-.") or "study"
    full = quote(f"{session.study.name}{suffix}{ending}", safe="")
    headers = {
        "content-disposition": f"attachment; filename=\"{name}{suffix}{ending}\"; filename*=UTF-8''{full}",
        "content-security-policy": REPORT_POLICY,
    }
    return Response(made, media_type=TYPES[ending], headers=headers)


def media(card: Card, wanted: str | None) -> Response:
    """The bytes of a card, or the range of them that a player asks for."""
    # The address holds a digest of what is drawn: what it names never changes.
    headers = {
        "content-security-policy": guard.PICTURE_POLICY,
        "cache-control": "private, max-age=86400, immutable",
        "accept-ranges": "bytes",
    }
    total = len(card.body)
    found = RANGE.fullmatch(wanted or "")
    if found is None or found.groups() == ("", ""):
        return Response(card.body, media_type=card.type, headers=headers)
    first, last = found.groups()
    start = int(first) if first else max(total - int(last), 0)
    end = min(int(last), total - 1) if first and last else total - 1
    if start > end:
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{total}"})
    headers["content-range"] = f"bytes {start}-{end}/{total}"
    return Response(card.body[start : end + 1], 206, media_type=card.type, headers=headers)
