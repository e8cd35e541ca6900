"""What the page changes of a study beside its answers: parameters, notes, weights, a file of comparisons, its name."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kappasharp.app.web.computing import Job, Plain
from kappasharp.app.web.service import Service
from kappasharp.app.web.session import Session, off_loop
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.study import bounds
from kappasharp.study.history import History

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
