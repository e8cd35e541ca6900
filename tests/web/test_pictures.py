"""Cards: every kind of thing that a renderer may return, and every way in which it may fail without stopping a vote."""

import asyncio
import struct
import zlib
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import pytest

from kappasharp import processes
from kappasharp.app.examples import cabin, image_filter, pid
from kappasharp.cli.serve import EXAMPLE_NAMES, examples
from kappasharp.errors import InvalidValueError
from kappasharp.problems import step_response
from kappasharp.space.space import space
from kappasharp.web import pictures, responses
from kappasharp.web.pictures import Cards
from kappasharp.web.workers import STARTS_WITHIN, Process, Workers, ready
from tests.web import renderers
from tests.web.doubles import pass_time, run_by_clock, service, there

HERE = "tests.web.renderers"


@pytest.mark.parametrize(
    ("name", "kind", "type"),
    [
        ("svg", "image", "image/svg+xml"),
        ("png", "image", "image/png"),
        ("html", "html", "text/html; charset=utf-8"),
        ("sound", "audio", "audio/wav"),
        ("film", "video", "video/webm"),
        ("path", "image", "image/svg+xml"),
        ("nothing", "none", ""),
    ],
)
def test_kinds(name, kind, type, tmp_path, monkeypatch):
    monkeypatch.setenv("KAPPASHARP_TEST_FOLDER", str(tmp_path))
    card = pictures.draw(f"{HERE}:{name}", {"x": 1.0})
    assert (card.kind, card.type, card.sentence) == (kind, type, "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fails", "RuntimeError: the simulator has no licence"),
        ("wrong", "it returned int"),
        ("garbage", "not a p"),
        ("missing", "cannot be loaded"),
    ],
)
def test_failures_are_sentences(name, words):
    card = pictures.draw(f"{HERE}:{name}", {"x": 1.0})
    assert card.kind == "failed" and words in card.sentence and card.body == b""


def test_a_matplotlib_figure_becomes_svg_and_is_closed():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    figure, axes = pyplot.subplots()
    axes.plot([0, 1], [1, 0])
    card = pictures.card(figure)
    assert card.type == "image/svg+xml" and not pyplot.fignum_exists(figure.number)


@pytest.mark.parametrize("name", ["", "x", "x:", ":y", "no.such.module:f", f"{HERE}:SVG"])
def test_a_renderer_that_cannot_be_loaded_is_a_sentence(name):
    with pytest.raises(InvalidValueError, match="--render"):
        pictures.load(name)


ONLY_DRAWS = """
import sys, time
from pathlib import Path
HERE = Path(__file__).parent
def modules(params):
    return " ".join(["<p>", *sys.modules])
def slow(params):
    time.sleep(0.3)
    return "<p>drawn"
def held(params):
    (HERE / f"begun {params['x']}").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return "<p>drawn"
"""


@pytest.fixture
def only_draws(tmp_path, monkeypatch):
    """A renderer that imports nothing of ours."""
    (tmp_path / "only_draws.py").write_text(ONLY_DRAWS)
    monkeypatch.syspath_prepend(tmp_path)
    return "only_draws"


async def with_workers(size, act):
    """What happens with real processes, once they have started."""
    workers = Workers(size, bare=True)
    try:
        await asyncio.gather(*(workers.run(ready, limit=60.0) for _ in range(size)))
        return await act(Cards(workers, limit=60.0))
    finally:
        workers.close()


def test_one_that_hangs_or_dies_is_a_sentence_and_takes_no_other_with_it(only_draws, tmp_path):
    held = f"{only_draws}:held"

    async def act(cards):
        cards.limit = 600.0
        slow = asyncio.create_task(cards.card(held, {"x": 1}))
        await there(tmp_path / "begun 1")
        cards.limit = 60.0
        hanging = asyncio.create_task(cards.card(held, {"x": 0}))
        await there(tmp_path / "begun 0")
        # They wait for longer than one may take: each has its own limit, from when it begins.
        beside = [asyncio.create_task(cards.card(f"{only_draws}:slow", {"x": i})) for i in range(3)]
        while len(cards.workers._waiting) < len(beside):
            await asyncio.sleep(0)
        pass_time(61.0)
        hung = await hanging
        (tmp_path / "go").touch()
        drawn = [await one for one in (slow, *beside)]
        died = await cards.card(f"{HERE}:dies", {"x": 0.0})
        return hung, died, [*drawn, await cards.card(f"{HERE}:svg", {})]

    hung, died, drawn = run_by_clock(with_workers(2, act))
    assert hung.kind == died.kind == "failed"
    assert "longer than 60 seconds" in hung.sentence and "ended unexpectedly" in died.sentence
    assert [one.kind for one in drawn] == ["html"] * 4 + ["image"]


def test_what_is_on_screen_is_drawn_before_what_may_come_and_nothing_is_lost(only_draws):
    slow, order = f"{only_draws}:slow", []

    async def act(cards):
        async def shown(x):
            found = await cards.card(slow, {"x": x})
            order.append(x)
            return found

        cards.prepare(slow, *({"x": x} for x in range(6)))
        await asyncio.sleep(0)
        # Of what was to be drawn ahead one is on its way, one is shown now, and the others give way.
        cards.show(slow, {"x": 5}, {"x": 9})
        waiting = sum(not one.task.done() for one in cards._drawn.values())
        both = await asyncio.gather(shown(5), shown(9))
        late = await shown(3)
        return waiting, [*both, late]

    waiting, drawn = asyncio.run(with_workers(1, act))
    assert waiting == 3 and [one.kind for one in drawn] == ["html"] * 3 and set(order[:2]) == {5, 9}


def test_what_is_drawn_ahead_gives_way_also_where_it_is_begun(only_draws):
    """Cards that hang are drawn ahead, one of them is wished for while it is; two others are shown at once."""
    hangs = f"{HERE}:hangs"

    async def act(cards):
        cards.workers._seconds[""] = 10.0
        cards.prepare(hangs, {"x": 0.0}, {"x": 1.0})
        while len(cards.workers._doing) < 1:
            await asyncio.sleep(0)
        assert len(cards.workers._doing) == 1  # one process stays free
        cards.show(f"{HERE}:svg", {"x": 0.0}, {"x": 1.0})
        drawn = [await cards.card(f"{HERE}:svg", {"x": x}) for x in (0.0, 1.0)]
        while len(cards._drawn) > len(drawn):  # the end of a process is heard of a moment later
            await asyncio.sleep(0.01)
        cards.limit = 0.5
        return drawn, await cards.card(hangs, {"x": 1.0})

    drawn, hung = asyncio.run(with_workers(2, act))
    assert [one.kind for one in drawn] == ["image"] * 2
    assert "longer than 0.5 seconds" in hung.sentence  # forgotten, not kept as failed: drawn again when it was wished


@pytest.mark.parametrize("moments", range(3))
@pytest.mark.parametrize("gives_way", [False, True])
def test_a_process_that_ends_while_the_server_stops_is_no_failure(monkeypatch, moments, gives_way):
    """The server ends its processes, and asyncio gives up all tasks a few moments later: none may end otherwise."""
    job = Future()
    monkeypatch.setattr(Process, "is_warm", True)
    monkeypatch.setattr(Process, "submit", lambda *_: job)

    async def stopped():
        workers = Workers(1)
        asking = asyncio.create_task(workers.run(ready, limit=60.0))
        while not job._done_callbacks:  # it is waited for
            await asyncio.sleep(0)
        if gives_way:
            workers._ending.update(workers._doing)
        job.set_exception(BrokenProcessPool())
        for _ in range(moments):
            await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        assert asking in tasks and len(tasks) == 2
        for one in tasks:
            one.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(one) for one in asyncio.run(stopped())] == [asyncio.CancelledError] * 2


def test_a_process_that_only_draws_imports_no_torch(only_draws):
    async def act(cards):
        return await cards.card(f"{only_draws}:modules", {"x": 0.0})

    modules = asyncio.run(with_workers(1, act)).body.decode().split()
    assert "only_draws" in modules and "torch" not in modules and len(modules) < 400


def test_a_card_that_failed_can_be_drawn_again(opened, tmp_path, monkeypatch):
    monkeypatch.setenv("KAPPASHARP_TEST_FOLDER", str(tmp_path / "later"))
    browser = opened(service(renderer=f"{HERE}:path"))
    key = browser.pair()["a"]["card"]["key"]
    again = browser.at(f"picture/{key}/again")
    assert browser.post(again, {}).json()["kind"] == "failed"
    (tmp_path / "later").mkdir()
    assert browser.pair()["a"]["card"]["kind"] == "failed"
    made = browser.post(again, {}).json()
    assert (made["kind"], made["sentence"], made["key"]) == ("image", "", key)
    assert browser.get(browser.at(f"picture/{key}")).status_code == 200
    assert browser.post(browser.at(f"picture/{'0' * 32}/again"), {}).status_code == 404


@pytest.mark.parametrize(("seconds", "kind"), [(61.0, "image"), (STARTS_WITHIN + 1.0, "failed")])
def test_the_start_of_a_worker_does_not_count_against_a_renderer(tmp_path, monkeypatch, seconds, kind):
    """On a busy machine, none starts within the limit that users have; one that never starts holds up nobody."""
    monkeypatch.setattr(processes, "begin", partial(renderers.begins_late, tmp_path))

    async def two_cards():
        workers = Workers(1)
        try:
            cards = Cards(workers, limit=60.0)
            drawing = asyncio.create_task(cards.card(f"{HERE}:svg", {"x": 0.0}))
            await there(tmp_path / "begun")
            pass_time(seconds)
            await asyncio.sleep(0)
            if kind == "image":
                (tmp_path / "go").touch()
            first = await drawing
            (tmp_path / "go").touch()
            return first, await cards.card(f"{HERE}:svg", {"x": 1.0})
        finally:
            workers.close()

    assert [one.kind for one in run_by_clock(two_cards())] == [kind, "image"]


def test_the_end_of_the_page_is_no_crash_of_its_workers(only_draws, tmp_path):
    """What they do then, and what waits for them, is given up without a word."""
    reports = []

    async def page():
        asyncio.get_running_loop().set_exception_handler(lambda _, about: reports.append(about["message"]))
        workers = Workers(1, bare=True)
        doing = asyncio.create_task(workers.run(pictures.draw, f"{only_draws}:held", {"x": 1}, limit=600.0))
        await there(tmp_path / "begun 1")
        waiting = asyncio.create_task(workers.run(ready, limit=600.0))
        await asyncio.sleep(0)
        workers.close()
        return doing, waiting, workers

    *given_up, workers = asyncio.run(page())
    assert all(one.cancelled() for one in given_up) and reports == [] and workers._waiting == []

    async def waited_for():
        doing, waiting, _ = await page()
        return await asyncio.gather(doing, waiting, return_exceptions=True)

    assert [type(one) for one in asyncio.run(waited_for())] == [asyncio.CancelledError] * 2 and reports == []


def test_a_failing_renderer_never_stops_a_vote(opened):
    browser = opened(service(renderer=f"{HERE}:fails"))
    pair = browser.pair()
    told = browser.answer(pair, "a")
    assert told.status_code == 200
    card = browser.get(browser.at(f"card/{pair['a']['option']}")).json()
    assert card["kind"] == "failed" and "no licence" in card["sentence"]
    assert browser.get(browser.at(f"picture/{card['key']}")).status_code == 404


def test_user_html_is_served_for_a_sandbox_alone(opened):
    browser = opened(service(renderer=f"{HERE}:html"))
    key = browser.pair()["a"]["card"]["key"]
    answer = browser.get(browser.at(f"frame/{key}"))
    policy = answer.headers["content-security-policy"]
    assert answer.text == renderers.HTML
    # An opaque origin even where somebody opens the address by itself: no cookie, no study, nothing from outside.
    assert policy.startswith("sandbox allow-scripts;") and "allow-same-origin" not in policy
    assert "default-src 'none'" in policy and "connect-src" not in policy and "frame-ancestors 'self'" in policy


def test_a_picture_can_run_no_script_and_a_player_gets_the_range_it_asks_for(opened):
    browser = opened(service(renderer=f"{HERE}:sound"))
    address = browser.at(f"picture/{browser.pair()['a']['card']['key']}")
    whole = browser.get(address)
    assert whole.headers["content-type"] == "audio/wav" and "sandbox" in whole.headers["content-security-policy"]
    part = browser.get(address, headers={"range": "bytes=4-7"})
    assert part.status_code == 206 and part.content == whole.content[4:8]
    assert part.headers["content-range"] == f"bytes 4-7/{len(whole.content)}"
    tail = browser.get(address, headers={"range": "bytes=-3"})
    assert tail.content == whole.content[-3:]
    assert browser.get(address, headers={"range": "bytes=99999999-"}).status_code == 416
    assert browser.get(address, headers={"range": "bytes=-"}).content == whole.content


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_examples_draw_every_corner_of_their_space(name):
    example = examples()[name]
    whole = space(example.space)
    low, high = whole.draw([0.0] * len(whole.tuned)), whole.draw([0.999] * len(whole.tuned))
    one, other = (pictures.draw(example.renderer, design) for design in (low, high))
    assert one.kind == other.kind == "image" and one.body != other.body


def test_the_png_is_one():
    """Signature, chunks with right checksums, and the pixels that went in."""
    picture = image_filter.landscape()
    data = image_filter.png(picture)
    at, chunks = 8, {}
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + content)
        chunks[kind], at = content, at + 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    rows = zlib.decompress(chunks[b"IDAT"])
    assert len(rows) == image_filter.HEIGHT * (1 + 3 * image_filter.WIDTH)
    assert rows[1] == round(float(picture[0, 0, 0]) * 255)


def test_the_pid_example_measures_what_it_draws():
    positions, _ = pid.simulate(2.0, 1.0, 1.0)
    found = pid.outcomes({"proportional": 2.0, "integral": 1.0, "derivative": 1.0})
    assert found["overshoot [%]"] == pytest.approx(100.0 * max(max(positions) - 1.0, 0.0))
    assert (
        list(found) == list(pid.HINTS)
        and 0.0 < found["rise time [s]"] < found["settling time [s]"] < step_response.SECONDS
    )
    assert abs(positions[-1] - 1.0) < 0.3 and len(positions) == step_response.STEPS
    drawn = pictures.card(cabin.render(cabin_design()))
    words = "a cabin 5.5 m wide, its roof at 35°, falu red, 2 windows, a porch of 1.6 m"
    assert responses.card_data(drawn, "key")["description"] == words  # of a picture's own title
    assert responses.card_data(pictures.card("<p>hello</p>"), "key")["description"] == ""


def cabin_design():
    return {"width": 5.5, "wall height": 2.8, "roof pitch": 35.0, "porch": 1.6, "windows": 2, "cladding": "falu red"}


def test_the_pictures_that_may_come_next_are_told_once_they_are_drawn(opened):
    browser = opened(service(renderer=f"{HERE}:svg"))
    pair = browser.pair()
    keys = browser.get(browser.at("ahead")).json()["pictures"]
    assert len(keys) == 4
    following = browser.answer(pair, "b").json()["pair"]
    assert {following[side]["card"]["key"] for side in "ab"} <= set(keys)
    assert following["a"]["card"]["kind"] == "image"
    assert browser.get(browser.at(f"picture/{keys[0]}")).headers["content-type"] == "image/svg+xml"
    assert browser.get(browser.at(f"picture/{'0' * 32}")).status_code == 404
