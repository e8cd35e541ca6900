"""The page's addresses: what a request brings, checked, and which request does what.

The guard comes before it, studies and workers after it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kappasharp import settings
from kappasharp.errors import (
    DeletedError,
    DuplicateNameError,
    InvalidTypeError,
    InvalidValueError,
    InviteError,
    KappaSharpError,
    NotAllowedError,
    StalePairError,
    StorageError,
    UnknownNameError,
)
from kappasharp.journal import events
from kappasharp.journal.definition import asks_pairs
from kappasharp.journal.history import History
from kappasharp.messages.message import Sentence
from kappasharp.questions import kind
from kappasharp.settings import METHODS
from kappasharp.space import bounds
from kappasharp.space.space import Design
from kappasharp.study.snapshot import Plain, Snapshot
from kappasharp.study.study import Study
from kappasharp.web import access, guard, responses
from kappasharp.web.access import HERE, Reach
from kappasharp.web.budgets import Budgets, Dear, TooOftenError
from kappasharp.web.guard import number_in, seconds_in
from kappasharp.web.live_updates import news
from kappasharp.web.open_study import PATIENCE, REPORT, Session, off_loop
from kappasharp.web.pictures import NOTHING, Card
from kappasharp.web.service import Service
from kappasharp.web.workers import Job, WorkerError

# For what waits on a study's lock or its database; a few that wait long must not hold up the rest.
THREADS = 32
STATUS: tuple[tuple[type[Exception], int], ...] = (
    (StalePairError, 409), (UnknownNameError, 404), (DeletedError, 404), (DuplicateNameError, 409), (StorageError, 503),
    (WorkerError, 503), (NotAllowedError, 403), (TooOftenError, 429),
)  # fmt: skip
# Seconds until somebody who asks too often is told so.
PAUSE_OF_REFUSED = 0.25
Handler = Callable[[Request], Any]


def application(
    service: Service,
    *,
    token: str,
    hosts: tuple[str, ...] | None,
    names: tuple[str, ...] = (),
    framed: bool = False,
    reach: Reach = HERE,
) -> Starlette:
    """The page over the studies of a service."""
    visitors = access.Visitors(service.storage)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "kappasharp"))
        service.start()
        await service.draw_ahead()
        yield
        service.close()

    routes = [
        Route("/", responses.page),
        Route(access.JOIN, responses.page),
        Route("/static/{name}", responses.asset),
        Route("/api/news", news),
        Route("/api/studies", listing),
        Route("/api/studies", create, methods=["POST"]),
        Route("/api/rehearsal", rehearse, methods=["POST"]),
        *_of_a_study("/api/studies/{study}"),
        *access.routes_of_invites("/api/studies/{study}", session_of, body, said),
    ]
    handlers = {KappaSharpError: refused, HTTPException: not_found, Exception: broken}
    known = guard.Recognition(visitors.recognize, access.is_public)
    before = Middleware(guard.Guard, token=token, hosts=hosts, names=names, framed=framed, known=known)
    allowed = access.guarded(routes)
    app = Starlette(routes=allowed, middleware=[before], exception_handlers=handlers, lifespan=life)
    app.state.token, app.state.reach, app.state.visitors = token, reach, visitors
    app.state.service, app.state.budgets = service, Budgets()
    return app


def _of_a_study(one: str) -> list[Route]:
    return [
        Route(one, study),
        Route(f"{one}/pair", pair),
        Route(f"{one}/answer", answer, methods=["POST"]),
        Route(f"{one}/undo", undo, methods=["POST"]),
        Route(f"{one}/amend", amend, methods=["POST"]),
        Route(f"{one}/again", again, methods=["POST"]),
        Route(f"{one}/settle", settle, methods=["POST"]),
        Route(f"{one}/challenge", challenge, methods=["POST"]),
        Route(f"{one}/standing", computed("standing", Job.STANDING)),
        Route(f"{one}/best", computed("best", Job.BEST)),
        Route(f"{one}/why", computed("why", Job.WHY)),
        Route(f"{one}/model", computed("model", Job.MODEL)),
        Route(f"{one}/outcomes", computed("outcomes", Job.OUTCOMES)),
        Route(f"{one}/outcomes/{{number:int}}", outcomes),
        Route(f"{one}/history", computed("history", responses.history_data)),
        Route(f"{one}/card/{{option:int}}", card),
        Route(f"{one}/line/{{number:int}}", line),
        Route(f"{one}/ahead", ahead),
        Route(f"{one}/picture/{{key}}", picture),
        Route(f"{one}/picture/{{key}}/again", draw_again, methods=["POST"]),
        Route(f"{one}/frame/{{key}}", frame),
        Route(f"{one}/export/{{kind}}", export),
        *routes(one, session_of, _written, said),
    ]


def said(data: Any, status: int = 200) -> Response:
    """Plain data as an answer."""
    return Response(responses.json_text(data), status, media_type="application/json")


async def refused(request: Request, error: Exception) -> Response:
    """One of our own errors: its sentence, and for a stale pair the one that is open."""
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 400)
    assert isinstance(error, KappaSharpError)
    data: dict[str, Any] = {"error": str(error)}
    if isinstance(error.sentence, Sentence):
        # For the page, which has words for it in the language that it speaks.
        data["said"] = error.sentence
    if not access.visitor(request).has_key:
        # Where the studies are is nothing to those who were invited to one.
        data = {name: request.app.state.service.storage.hidden(words) for name, words in data.items()}
    if isinstance(error, InviteError):
        data["why"] = error.why
    if isinstance(error, StalePairError):
        session = await session_of(request)
        current = error.current or await session.pair(request.state.voter)
        data["why"] = error.why
        data["pair"] = await responses.pair_data(session, current)
    response = said(data, status)
    if isinstance(error, TooOftenError):
        response.headers["retry-after"] = str(error.seconds)
        # A loop that is refused must not keep the server busy with refusals.
        await asyncio.sleep(PAUSE_OF_REFUSED)
    return response


async def not_found(_: Request, error: Exception) -> Response:
    """No such address, or not in this way."""
    assert isinstance(error, HTTPException)
    return said({"error": error.detail}, error.status_code)


async def broken(_: Request, __: Exception) -> Response:
    """Our own mistake: the terminal has the details, the page has none."""
    words = "Something went wrong in the server; its terminal has the details. Nothing was lost."
    return said({"error": words, "said": Sentence(words, "fault.server")}, 500)


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that a request brings."""
    return guard.json_object(await request.body())


def voter_in(request: Request, given: Any) -> str:
    """Who asks: noted on the request, because the answer to a stale one names that voter's pair."""
    request.state.voter = events.voter(access.voter(request, given))
    return str(request.state.voter)


async def session_of(request: Request) -> Session:
    """The session of the study that a request is about."""
    service: Service = request.app.state.service
    uid = request.path_params["study"]
    if not re.fullmatch(r"[0-9a-f]{32}", uid):
        raise UnknownNameError("There is no such study here.")
    return await service.open(uid)


async def listing(request: Request) -> Response:
    """What there is to choose from."""
    service: Service = request.app.state.service
    who = access.visitor(request)
    found = [one for one in await off_loop(service.listed) if who.role(one["id"]) is not None]
    asked = request.query_params.get("study") or None
    chosen = service.current if any(one["id"] == service.current for one in found) else None
    chosen = chosen or (found[-1]["id"] if found else None)
    if asked is not None:
        called = await off_loop(service.called, asked)
        chosen = called if called is not None and who.role(called) is not None else None
    session = None if chosen is None else await service.open(chosen)
    return said(
        {
            "studies": found,
            # A name that no study has is told: another study in its place would be a guess.
            "unknown": asked if chosen is None else None,
            "study": None if session is None else await session.aside(_study, request, session),
            "persons": list(settings.PERSONS),
            "methods": [name for name, row in METHODS.items() if asks_pairs(row)],
            "kinds": list(kind.NAMES),
            "renderers": list(service.renderers) if who.has_key else [],
            "storage": service.storage.url if who.has_key else "",
            "has_key": who.has_key,
        }
    )


async def _written(request: Request) -> tuple[Session, dict[str, Any], str]:
    """What a request is about, what it brings, and who it is from."""
    session, data = await session_of(request), await body(request)
    return session, data, voter_in(request, data.get("voter", events.DEFAULT_VOTER))


async def create(request: Request) -> Response:
    """Make a study."""
    service: Service = request.app.state.service
    return said({"id": await off_loop(service.create, await body(request))}, 201)


async def rehearse(request: Request) -> Response:
    """Have a simulated person answer a study in memory."""
    service: Service = request.app.state.service
    data = await body(request)
    if isinstance(data.get("study"), str):
        definition = (await service.open(data["study"])).study.definition
    else:
        definition = (await off_loop(service.described, data)).definition
    person, questions = data.get("person", "paper"), number_in(data, "questions")
    return said(await service.rehearsed(definition, person, questions))


async def study(request: Request) -> Response:
    """One study."""
    session = await session_of(request)
    await session.aside(request.app.state.service.renamed, session)
    return said(await session.aside(_study, request, session))


def _study(request: Request, session: Session) -> dict[str, Any]:
    service: Service = request.app.state.service
    mine = access.standing(request, session.study.stored.uid)
    missing = service.missing_renderer(session.study) if mine["has_key"] else None
    return responses.study_data(session, missing) | mine


async def pair(request: Request) -> Response:
    """The question that waits for a voter; of another kind, where they want that, it is asked anew."""
    session, given = await session_of(request), request.query_params
    voter = voter_in(request, given.get("voter", events.DEFAULT_VOTER))
    form = session.study.definition.wanted(given.get("kind"))
    if await session.would_change(voter, form):
        access.spend(request, Dear.KIND)
    return said({"pair": await responses.pair_data(session, await session.pair(voter, form))})


async def answer(request: Request) -> Response:
    """Store an answer: when this says saved, it is."""
    session, data = await session_of(request), await body(request)
    voter = voter_in(request, data.get("voter"))
    form = session.study.definition.wanted(data.get("kind"))
    given: Any = data.get("answer")
    done, following = await session.answer(voter, number_in(data, "pair"), given, seconds_in(data), form)
    shown = await responses.pair_data(session, following)
    return said({"saved": {"event": done.event, "answer": done.answer}, "pair": shown})


async def undo(request: Request) -> Response:
    """Take back a voter's last answer."""
    session, data = await session_of(request), await body(request)
    reopened = await session.undo(voter_in(request, data.get("voter")))
    return said({"pair": await responses.pair_data(session, reopened)})


async def amend(request: Request) -> Response:
    """Change an answer, or take it out."""
    session, data = await session_of(request), await body(request)
    voter, event = voter_in(request, data.get("voter")), number_in(data, "event")
    await session.aside(lambda: session.study.amend(event, data.get("answer"), voter=voter))
    return said({"done": True})


async def again(request: Request) -> Response:
    """Have an earlier pair asked once more."""
    session, data = await session_of(request), await body(request)
    voter, number = voter_in(request, data.get("voter")), number_in(data, "pair")
    await session.aside(lambda: session.study.ask_again(number, voter=voter))
    return said({"done": True})


async def settle(request: Request) -> Response:
    """Have the next questions be duels between designs already seen, or what else is wished."""
    session, data = await session_of(request), await body(request)
    voter, duels = voter_in(request, data.get("voter")), data.get("duels", settings.DUELS)
    await session.aside(lambda: session.study.settle(duels, question=data.get("question", "pair"), voter=voter))
    return said({"done": True})


async def challenge(request: Request) -> Response:
    """Have the best design asked against another one."""
    session, data = await session_of(request), await body(request)
    voter = voter_in(request, data.get("voter"))
    best = (await session.view("standing", Job.STANDING))["best"]
    if best is None:
        none = "There is no best design yet: answer a few pairs first."
        raise InvalidValueError(Sentence(none, "fault.no_best"))
    given = data.get("params") if data.get("option") is None else await session.design(number_in(data, "option"))
    await session.aside(_enqueue, session.study, best["params"], given, voter)
    return said({"done": True})


def _enqueue(study: Study, best: Design, given: Any, voter: str) -> None:
    rival = study.space.check(given)
    if study.space.same(study.space.check(best), rival):
        same = "These settings cannot be told from the best design; change one of them first."
        raise InvalidValueError(Sentence(same, "fault.the_best"))
    study.enqueue(best, rival, voter=voter)


def computed(name: str, job: Callable[[Snapshot], Plain]) -> Handler:
    """The answer to a request for a view."""

    async def show(request: Request) -> Response:
        return said(await (await session_of(request)).view(name, job))

    return show


async def card(request: Request) -> Response:
    """What kind of card an option has, once it is drawn."""
    return said(responses.card_data(*await (await session_of(request)).card(request.path_params["option"])))


async def line(request: Request) -> Response:
    """The design at a place of a slider, and its card, once it is drawn."""
    session, given = await session_of(request), request.query_params.get("place", "")
    try:
        wanted = kind.place(float(given))
    except ValueError as error:
        raise InvalidValueError(f"`place` must be a number from 0 to 1, but got {given!r}.") from error
    place, design, shown, key = await session.place(request.path_params["number"], wanted)
    seen = await responses.place_outcomes(session, design)
    return said({"place": place, "params": design, "card": responses.card_data(shown, key), **seen})


async def outcomes(request: Request) -> Response:
    """The outcomes of a question's designs, once they are computed; or that they still are, after some seconds."""
    session = await session_of(request)
    asked = await session.asked(request.path_params["number"])
    session.results.begin(asked)
    return said(await responses.outcomes_data(session, asked, PATIENCE))


async def ahead(request: Request) -> Response:
    """Pictures that the browser may fetch while the person looks: of what comes next, whatever the answer."""
    session = await session_of(request)
    voter = voter_in(request, request.query_params.get("voter", events.DEFAULT_VOTER))
    return said({"pictures": await session.ahead(voter)})


async def _drawn(request: Request) -> Card:
    found = await (await session_of(request)).drawn(request.path_params["key"])
    return found or NOTHING


async def picture(request: Request) -> Response:
    """A picture, sound or film."""
    found = await _drawn(request)
    if found.kind not in ("image", "audio", "video"):
        raise HTTPException(404, "This option has no picture.")
    return responses.media(found, request.headers.get("range"))


async def draw_again(request: Request) -> Response:
    """Draw a card once more that could not be drawn."""
    session, key = await session_of(request), request.path_params["key"]
    found = await session.cards.again(key) or await session.drawn(key)
    if found is None:
        raise HTTPException(404, "This picture is not known here any more; reload the page.")
    return said(responses.card_data(found, key))


async def frame(request: Request) -> Response:
    """A user's HTML, for a sandboxed frame and nothing else."""
    found = await _drawn(request)
    if found.kind != "html":
        raise HTTPException(404, "This option has no page.")
    headers = {"content-security-policy": guard.FRAME_POLICY}
    return Response(found.body, media_type="text/html", headers=headers)


async def export(request: Request) -> Response:
    """The study as a file."""
    session, kind = await session_of(request), request.path_params["kind"]
    access.spend(request, Dear.REPORT if kind == REPORT else Dear.FILE)
    return await responses.export(session, kind, access.identity(request) or "")


# What the page changes of a study beside its answers: parameters, notes, weights, a file of comparisons, its name.

CHANGES = ("narrow", "lock", "widen")
Arrangement = Callable[[Service, Session, Plain, str], Awaitable[Plain]]


async def parameters(session: Session) -> Plain:
    """What is open of each tuned parameter, the best design's value of it, and how far it might be widened."""
    best = (await session.view("standing", Job.STANDING))["best"]
    edges = {} if best is None else {edge["name"]: edge for edge in best["edges"]}
    space = await session.aside(lambda: session.study.space)
    rows = []
    for name, part in space.tuned.items():
        now, ever = space.open_to(name), bounds.everything(part)
        rows.append(
            {
                "name": name,
                "kind": "choice" if now.ends[2] is not None else "number",
                "step": getattr(part, "step", None),
            }
            | {"open": _plain(now), "ever": _plain(ever), "locked": now.is_locked}
            | {"best": None if best is None else best["params"][name], "edge": edges.get(name)}
        )
    told = {"outside": best["outside"], "better_outside": best["better_outside"]} if best is not None else {}
    return {"parameters": rows} | told


def _plain(found: bounds.Bounds) -> Plain:
    """Low and high of numbers, the list of choices, and their words."""
    low, high, choices = found.ends
    return {"low": low, "high": high, "choices": None if choices is None else list(choices), "words": str(found)}


async def change(_: Service, session: Session, data: Plain, voter: str) -> Plain:
    """Narrow, lock or widen a parameter."""
    wanted = data.get("change")
    if wanted not in CHANGES:
        raise InvalidValueError(f"`change` must be narrow, lock or widen, but got {wanted!r}.")
    given = {key: data.get(key) for key in ("low", "high", "choices", "value")}
    await session.change(wanted, data.get("name"), given, voter)
    return await parameters(session)


async def notes(session: Session) -> Plain:
    """What was said of designs that were seen."""
    return {"notes": await session.read(_notes)}


def _notes(history: History) -> list[Plain]:
    return [
        {"option": option, "voter": voter, "text": text}
        for option, design in enumerate(history.options)
        for voter, text in history.said_of(design).items()
    ]


async def note(_: Service, session: Session, data: Plain, voter: str) -> Plain:
    """Say something of a design that was seen, or take it back."""
    option, text = data.get("option"), data.get("text")
    if isinstance(option, bool) or not isinstance(option, int):
        raise InvalidTypeError(f"`option` must be a whole number, but got {option!r}.")
    design = await session.design(option)
    given = None if isinstance(text, str) and not text.strip() else text
    await session.aside(lambda: session.study.note(design, given, voter=voter))
    return await notes(session)


async def team(session: Session) -> Plain:
    """What the voters have in common; of a large team it takes seconds."""
    return await session.view("team", Job.TEAM)


async def team_before(session: Session) -> Plain:
    """The same as it was last computed, at once; of fewer answers perhaps."""
    return {"before": session.before("team")}


async def weigh(_: Service, session: Session, data: Plain, voter: str) -> Plain:
    """Say how much each voter counts towards what is best for all."""
    if "weights" not in data:
        raise InvalidValueError("`weights` must be a table of voters and numbers, or null to let all count alike.")
    weights = data["weights"]
    await session.aside(lambda: session.study.weigh(weights, voter=voter))
    return {"weights": await session.read(lambda history: history.weights)}


async def import_csv(_: Service, session: Session, data: Plain, voter: str) -> Plain:
    """Add the comparisons of a CSV file, all or none."""
    text: Any = data.get("csv")
    if not isinstance(text, str):
        raise InvalidTypeError("`csv` must be a text.")
    found = await session.aside(session.study.import_text, text, voter)
    return found._asdict()


async def rename(service: Service, session: Session, data: Plain, _: str) -> Plain:
    """Give the study another name."""
    await session.aside(service.rename, session, data.get("name"))
    return {"name": session.study.name}


async def delete(service: Service, session: Session, data: Plain, _: str) -> Plain:
    """Remove the study for good; who asks for it says its name, so that nobody removes another than they see."""
    if data.get("name") != session.study.name:
        raise InvalidValueError(f"To delete this study its name must be given, {session.study.name!r}.")
    await session.aside(service.delete, session)
    service.forget(session.study.stored.uid)
    return {"done": True}


# What may be asked for, and what may be done, each by the last word of its address.
READS: dict[str, Callable[[Session], Awaitable[Plain]]] = {
    "parameters": parameters, "notes": notes, "team": team, "team/before": team_before,
}  # fmt: skip
WRITES: dict[str, Arrangement] = {
    "parameters": change, "note": note, "weights": weigh, "import": import_csv, "rename": rename, "delete": delete,
}  # fmt: skip


def routes(
    address: str,
    session_of: Callable[[Request], Awaitable[Session]],
    written: Callable[[Request], Awaitable[tuple[Session, Plain, str]]],
    said: Callable[[Plain], Response],
) -> list[Route]:
    """The addresses of all of it; the arguments are how the server reads requests and answers them."""

    def looking(look: Callable[[Session], Awaitable[Plain]]) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            return said(await look(await session_of(request)))

        return show

    def doing(job: Arrangement) -> Callable[[Request], Awaitable[Response]]:
        async def arrange(request: Request) -> Response:
            return said(await job(request.app.state.service, *await written(request)))

        return arrange

    async def counts(request: Request) -> Response:
        return said({"studies": await off_loop(request.app.state.service.counted)})

    return [
        Route("/api/counts", counts),
        *(Route(f"{address}/{name}", looking(look)) for name, look in READS.items()),
        *(Route(f"{address}/{name}", doing(job), methods=["POST"]) for name, job in WRITES.items()),
    ]
