"""`kappasharp serve`: the page in a browser. What it needs is imported where it is used, so that `--help` is quick."""

import webbrowser
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kappasharp.cli.output import in_words, say, stoppable
from kappasharp.cli.studies import from_file, outcomes_option
from kappasharp.errors import InvalidValueError
from kappasharp.messages.message import text
from kappasharp.processes import prepare
from kappasharp.settings import ENVIRONMENT

if TYPE_CHECKING:
    from kappasharp.store.storage import Storage
    from kappasharp.study.study import Study
    from kappasharp.web.access import Reach
    from kappasharp.web.connections import Exposure
    from kappasharp.web.service import Service

EXAMPLE_NAMES = ("pid", "filter", "cabin")
# Studies that are told by name.
NAMED = 12
IN_MEMORY = ("sqlite://", "sqlite:///:memory:")


class ExampleStudy(NamedTuple):
    """A ready study with pictures, so that a newcomer compares within seconds."""

    study_name: str
    space: dict[str, Any]
    renderer: str
    question: str = "pair"
    outcomes: dict[str, Any] | None = None


@cache
def examples() -> dict[str, ExampleStudy]:
    """The examples by name."""
    from kappasharp.app.examples import cabin, filter_space, pid

    found = (
        ExampleStudy("PID controller", pid.SPACE, "kappasharp.app.examples.pid:render", outcomes=pid.OUTCOMES),
        ExampleStudy("Photo filter", filter_space.SPACE, "kappasharp.app.examples.image_filter:render", "slider"),
        ExampleStudy("Wooden cabin", cabin.SPACE, "kappasharp.app.examples.cabin:render", "choice:4"),
    )
    return dict(zip(EXAMPLE_NAMES, found, strict=True))


@click.command()
@click.argument("study", required=False)
@click.option("--storage", envvar=ENVIRONMENT, show_envvar=True, help="A database of studies.")
@click.option(
    "--render", "renderers", multiple=True, metavar="MODULE:FUNCTION",
    help="What draws a design: render(params). Given more than once, studies may use any of them.",
)  # fmt: skip
@outcomes_option
@click.option("--example", type=click.Choice(EXAMPLE_NAMES), help="A ready example with pictures.")
@click.option("--host", metavar="ADDRESS", help="Where to listen.  [default: 127.0.0.1; with --expose 0.0.0.0]")
@click.option("--port", type=click.IntRange(0, 65535), help="[default: 8642, or the next free one]")
@click.option("--expose", is_flag=True, help="Let other machines in; what that means is said.")
@click.option("--certificate", type=click.Path(path_type=Path), metavar="FILE", help="For HTTPS: a certificate, PEM.")
@click.option("--private-key", type=click.Path(path_type=Path), metavar="FILE", help="The certificate's key, PEM.")
@click.option("--proxy", is_flag=True, help="A proxy on this machine lets others in: believe its X-Forwarded-*.")
@click.option("--address", metavar="URL", help="What others call the page, for links: https://taste.example.org.")
@click.option("--new-key", is_flag=True, help="Make another key: links that were given before open nothing.")
@click.option("--no-browser", is_flag=True, help="Print the link and open nothing.")
def serve(
    study: str | None,
    storage: str | None,
    renderers: tuple[str, ...],
    example: str | None,
    *,
    outcomes: str | None,
    port: int | None,
    new_key: bool,
    no_browser: bool,
    **exposed: Any,
) -> None:
    """Compare two designs in the browser.

    STUDY is the name of a study or a study.toml; without it the page lists the studies there are and makes new ones.
    """
    from kappasharp.web import connections
    from kappasharp.web.server import application

    with in_words():
        if study is not None and example is not None:
            raise InvalidValueError("`serve` takes a study or `--example`, not both.")
        by = connections.exposure(**exposed)
        service = _service(study, storage, renderers, example, outcomes)
        listener = connections.listen(by.host, port)
    token, port = _key(service.storage, by, new_key=new_key), listener.getsockname()[1]
    reach, link = by.reach(port), connections.address(by, port, token)
    app = application(service, token=token, hosts=by.hosts(), names=by.names, reach=reach)
    _greet(service, by, reach, link)
    if not no_browser:
        opening = Timer(0.3, webbrowser.open, [link])
        opening.daemon = True
        opening.start()
    # That is how a page ends: the server has closed by then, and hands the signal on, or of two of them neither.
    with suppress(KeyboardInterrupt), stoppable():
        connections.PageServer(connections.configured(app, by)).run(sockets=[listener])
    say("Stopped.")


def _key(storage: "Storage", by: "Exposure", *, new_key: bool) -> str:
    """The key in the link: where other machines get in by themselves, another one at every start."""
    from kappasharp.web import guard

    if by.host not in guard.LOOPBACK:
        return guard.new_token()
    try:
        return guard.kept_token(_which(storage), renewed=new_key)
    except OSError as error:
        say(f"Note: the key could not be kept ({error.strerror or error}): after a restart open pages need a new link.")
        return guard.new_token()


def _which(storage: "Storage") -> str:
    """Which database that is, on this machine: which file a relative name means depends on the folder."""
    return storage.url if "postgresql" in storage.url else f"{Path.cwd()} {storage.url}"


def served_at(storage: "Storage") -> str | None:
    """Where the page over a database was last served from this machine; None where nobody knows."""
    from kappasharp.web import guard

    try:
        return guard.state_path("address", _which(storage)).read_text("utf-8").strip() or None
    except (OSError, ValueError):
        return None


def _service(
    study: str | None, storage: str | None, renderers: tuple[str, ...], example: str | None, outcomes: str | None
) -> "Service":
    """The database, and the study that the page opens first."""
    # What computes takes seconds to import: it begins now, in a process of its own.
    prepare(["kappasharp.jobs"])
    from kappasharp.simulators import function
    from kappasharp.study.collection import load_study, storage_of
    from kappasharp.web import pictures
    from kappasharp.web.service import Service

    render = renderers[0] if renderers else None
    renderers = renderers or _of_file(study)
    for one in renderers:
        # One that cannot be loaded is better known before the page is open.
        pictures.load(one)
    if outcomes is not None:
        function.load(outcomes)
    database = storage_of(storage)
    if database.url in IN_MEMORY:
        raise InvalidValueError("`--storage` must name a database that outlives the page, but got one in memory.")
    own = tuple(one.outcomes["function"] for one in examples().values() if one.outcomes is not None)
    functions = own if outcomes is None else (outcomes, *own)
    ours = tuple(one.renderer for one in examples().values())
    service = Service(database, renderers=(*renderers, *ours), functions=functions)
    if example is not None:
        service.show(_made(examples()[example], database, outcomes), render or examples()[example].renderer)
    elif study is not None and study.endswith(".toml"):
        service.show(from_file(Path(study), database, load_if_exists=True, function=outcomes), *renderers[:1])
    elif study is not None:
        found = load_study(study, storage=database, outcomes=outcomes)
        service.show(found, render or _example_renderer(found))
        if (missing := service.missing_renderer(found)) is not None:
            say(f"Note: {missing}")
    return service


def _of_file(study: str | None) -> tuple[str, ...]:
    """The renderer that a study file names, if it is one and names one."""
    from kappasharp.exchange import study_toml

    named = study_toml.read(Path(study)).render if study is not None and study.endswith(".toml") else None
    return () if named is None else (named,)


def _made(example: ExampleStudy, database: "Storage", outcomes: str | None) -> "Study":
    """An example, made or gone on with; one that an older version made goes on without outcomes."""
    from kappasharp.journal.definition import from_plain
    from kappasharp.study.collection import create_study

    given: dict[str, Any] | None = example.outcomes
    if given is not None and outcomes is not None:
        given = {**given, "function": outcomes}
    stored = next((one for one in database.studies() if one.name == example.study_name), None)
    known = None if stored is None else from_plain(stored.definition)
    if known is not None and known.outcomes is None:
        given = None
    return create_study(
        example.space, storage=database, study_name=example.study_name, load_if_exists=True,
        question=example.question if known is None else known.question, outcomes=given, render=example.renderer,
    )  # fmt: skip


def _example_renderer(study: "Study") -> str | None:
    """An example that is opened by its name keeps its pictures."""
    from kappasharp.space.space import space

    for one in examples().values():
        if study.name == one.study_name and study.space.definition() == space(one.space).definition():
            return one.renderer
    return None


def _greet(service: "Service", by: "Exposure", reach: "Reach", link: str) -> None:
    """Say what is served to whom, and the link."""
    from kappasharp.web import guard

    with suppress(OSError):
        # For `kappasharp invite`, which asks for an address where there is none.
        path = guard.state_path("address", _which(service.storage))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(f"{reach.address}\n")
    if not by.to_others:
        click.echo(link)
        say(
            "Add &voter=NAME to the link for each further voter. Ctrl-C stops the page; every answer is already stored."
        )
        return
    names = [text(one["name"]) for one in service.listed()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    what = f"these studies: {', '.join(names[:NAMED])}{more}" if names else "no study yet"
    how = (
        "What is sent is encrypted."
        if reach.encrypted
        else "What is sent is NOT encrypted: who shares the network can read it, and the key with it. `--certificate` "
        "with `--private-key` encrypts it, or a proxy does."
    )
    say(
        f"Warning: other machines can reach this page now, at {reach.address}, and in it {what}. Whoever has the link "
        f"below owns all of them: keep it. People whom you invite see one study: the button on the page makes their "
        f"links, or `kappasharp invite`. {how}"
    )
    if by.files is not None and by.address is None:
        say("Note: links have this machine's address; if the certificate is for a name, give `--address https://NAME`.")
    click.echo(link)
    say("Ctrl-C stops the page; every answer is already stored.")
