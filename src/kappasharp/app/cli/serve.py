"""`kappasharp serve`: the page in a browser. What it needs is imported where it is used, so that `--help` is quick."""

import socket
import webbrowser
from functools import cache
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kappasharp.app.cli.output import in_words, say, stoppable
from kappasharp.app.cli.studies import from_file, outcomes_option
from kappasharp.errors import InvalidValueError
from kappasharp.study.terms import ENVIRONMENT

if TYPE_CHECKING:
    from kappasharp.app.web.service import Service
    from kappasharp.study.storage import Storage
    from kappasharp.study.study import Study

HOST = "127.0.0.1"
EXAMPLE_NAMES = ("pid", "filter", "cabin")
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
    from kappasharp.app.examples import cabin, image_filter, pid

    found = (
        ExampleStudy("PID controller", pid.SPACE, "kappasharp.app.examples.pid:render", outcomes=pid.OUTCOMES),
        ExampleStudy("Photo filter", image_filter.SPACE, "kappasharp.app.examples.image_filter:render", "slider"),
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
@click.option("--host", default=HOST, show_default=True, help="0.0.0.0 lets other machines in; the key stays.")
@click.option("--port", type=click.IntRange(0, 65535), help="[default: 8642, or the next free one]")
@click.option("--new-key", is_flag=True, help="Make another key: links that were given before open nothing.")
@click.option("--no-browser", is_flag=True, help="Print the link and open nothing.")
def serve(
    study: str | None,
    storage: str | None,
    renderers: tuple[str, ...],
    example: str | None,
    *,
    outcomes: str | None,
    host: str,
    port: int | None,
    new_key: bool,
    no_browser: bool,
) -> None:
    """Compare two designs in the browser.

    STUDY is the name of a study or a study.toml; without it the page lists the studies there are and makes new ones.
    """
    from kappasharp.app.web import connections, guard
    from kappasharp.app.web.server import application

    with in_words():
        if study is not None and example is not None:
            raise InvalidValueError("`serve` takes a study or `--example`, not both.")
        service = _service(study, storage, renderers, example, outcomes)
        listener = connections.listen(host, port)
    token = _key(service.storage, host, new_key=new_key)
    names = (socket.gethostname(), f"{socket.gethostname()}.local")
    app = application(service, token=token, hosts=guard.allowed_hosts(host), names=names)
    link = connections.address(host, listener.getsockname()[1], token)
    _greet(host, link)
    if not no_browser:
        opening = Timer(0.3, webbrowser.open, [link])
        opening.daemon = True
        opening.start()
    try:
        with stoppable():
            connections.PageServer(connections.configured(app)).run(sockets=[listener])
    except KeyboardInterrupt:
        # That is how a page ends: the server has closed by now, and hands the signal on.
        say("Stopped.")


def _key(storage: "Storage", host: str, *, new_key: bool) -> str:
    """The key in the link: where other machines get in, another one at every start."""
    from kappasharp.app.web import guard

    if host not in guard.LOOPBACK:
        return guard.new_token()
    # Which file a relative name means depends on the folder.
    where = storage.url if "postgresql" in storage.url else f"{Path.cwd()} {storage.url}"
    try:
        return guard.kept_token(where, renewed=new_key)
    except OSError as error:
        say(f"Note: the key could not be kept ({error.strerror or error}): after a restart open pages need a new link.")
        return guard.new_token()


def _service(
    study: str | None, storage: str | None, renderers: tuple[str, ...], example: str | None, outcomes: str | None
) -> "Service":
    """The database, and the study that the page opens first."""
    from kappasharp.app.web import cards
    from kappasharp.app.web.service import Service
    from kappasharp.study import simulation
    from kappasharp.study.studies import load_study, storage_of

    render = renderers[0] if renderers else None
    renderers = renderers or _of_file(study)
    for one in renderers:
        # One that cannot be loaded is better known before the page is open.
        cards.load(one)
    if outcomes is not None:
        simulation.load(outcomes)
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
    from kappasharp.study import toml_file

    named = toml_file.read(Path(study)).render if study is not None and study.endswith(".toml") else None
    return () if named is None else (named,)


def _made(example: ExampleStudy, database: "Storage", outcomes: str | None) -> "Study":
    """An example, made or gone on with; one that an older version made goes on without outcomes."""
    from kappasharp.study.definition import from_plain
    from kappasharp.study.studies import create_study

    given: dict[str, Any] | None = example.outcomes
    if given is not None and outcomes is not None:
        given = {**given, "function": outcomes}
    stored = next((one for one in database.studies() if one.name == example.study_name), None)
    if stored is not None and from_plain(stored.definition).outcomes is None:
        given = None
    return create_study(
        example.space, storage=database, study_name=example.study_name, load_if_exists=True,
        question=example.question, outcomes=given, render=example.renderer,
    )  # fmt: skip


def _example_renderer(study: "Study") -> str | None:
    """An example that is opened by its name keeps its pictures."""
    from kappasharp.study.space import space

    for one in examples().values():
        if study.name == one.study_name and study.space.definition() == space(one.space).definition():
            return one.renderer
    return None


def _greet(host: str, link: str) -> None:
    from kappasharp.app.web import guard

    if host not in guard.LOOPBACK:
        say(
            "Warning: other machines can reach this page now, and what they send is not encrypted. The key in the link "
            "is still needed: give it only to people who may vote."
        )
    if host in guard.EVERYWHERE:
        say(f"On another machine, put this machine's address in the place of 127.0.0.1, or {socket.gethostname()}.")
    click.echo(link)
    say("Add &voter=NAME to the link for each further voter. Ctrl-C stops the page; every answer is already stored.")
