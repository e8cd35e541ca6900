"""Sounds, films and thirty parameters in a real browser: keys play, players take none, buttons stay in sight."""

import base64

import pytest

from tests.waiting import wait_until
from tests.web import chromium
from tests.web.chromium import PHONE, WIDE, complaints, number, opened, serving, settle, turn

NAME = "heard"
LONG = "hydrochlorothiazideconcentrationmolperlitre"
NAMES = [*(f"a rather long name of parameter {i}" for i in range(28)), LONG]
# A film of half a second, as this browser records it.
RECORD = """async () => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 32;
  const pen = canvas.getContext("2d"), parts = [];
  const recorder = new MediaRecorder(canvas.captureStream(25), {mimeType: "video/webm"});
  recorder.ondataavailable = (event) => parts.push(event.data);
  const done = new Promise((end) => (recorder.onstop = end));
  recorder.start();
  for (let i = 0; i < 12; i++) {
    pen.fillStyle = i % 2 ? "teal" : "red";
    pen.fillRect(0, 0, 32, 32);
    await new Promise((next) => setTimeout(next, 40));
  }
  recorder.stop();
  await done;
  return btoa(String.fromCharCode(...new Uint8Array(await new Blob(parts).arrayBuffer())));
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory, chrome):
    folder = tmp_path_factory.mktemp("players")
    page = chrome.new_page()
    (folder / "clip.webm").write_bytes(base64.b64decode(page.evaluate(RECORD)))
    page.close()
    lines = [f'"{name}" = {{low = 0, high = 1}}' for name in NAMES]
    head = f'name = "{NAME}"\nfirst_pairs = 200\nrender = "tests.web.renderers:played"\n[parameters]\n'
    (folder / "study.toml").write_text(head + 'shows = {choices = ["sound", "film"]}\n' + "\n".join(lines))
    with serving(folder, "study.toml") as found:
        yield found


@pytest.fixture
def context(chrome):
    with chromium.contexts(chrome, **WIDE, bypass_csp=True, reduced_motion="reduce") as make:
        yield make


def queue(server, *shows, kind="pair", differing=1):
    """Have designs of that kind asked next, which differ in so many numbers."""
    study = chromium.study_of(server, NAME)
    designs = [
        {"shows": show} | {name: 0.1 * place if i < differing else 0.5 for i, name in enumerate(NAMES)}
        for place, show in enumerate(shows)
    ]
    study.enqueue(*designs, kind=kind)
    study.storage.close()


def plays(player):
    wait_until(lambda: player.evaluate("one => !one.paused && one.currentTime > 0"))
    return True


def test_keys_play_and_no_player_takes_a_key(context, server):
    queue(server, "sound", "film")
    queue(server, "sound", "sound", "sound", kind="choice")
    page = opened(context, server, "play")
    sound, film = page.locator("audio"), page.locator("video")
    page.keyboard.press("a")
    page.keyboard.press("b")
    # A film is silent until somebody wants to hear it: it may play beside a sound.
    assert plays(sound) and plays(film) and film.evaluate("one => one.muted")
    page.get_by_role("button", name="Stop A").click()
    assert sound.evaluate("one => one.paused") and page.get_by_role("button", name="Play A").is_visible()
    assert page.get_by_role("button", name="Enlarge A").is_hidden()
    assert page.get_by_role("button", name="Enlarge B").is_visible()
    for player in (sound, film):
        player.focus()
        page.keyboard.press(" ")
        page.locator(".board[data-layout='flip']").wait_for()
        page.keyboard.press("Escape")
    assert sound.evaluate("one => one.paused") and plays(film)
    asked = number(page)
    film.focus()
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    settle(page)
    first, second = (page.locator("audio").nth(index) for index in (0, 1))
    page.keyboard.press("a")
    assert plays(first)
    page.keyboard.press("b")
    assert plays(second) and first.evaluate("one => one.paused")  # one at a time is heard
    second.focus()
    last = number(page)
    turn(page, lambda: page.keyboard.press("3"))
    assert chromium.answers(server, "play", NAME) == [(asked, "a"), (last, 2)]
    turn(page, lambda: page.get_by_label("Ask this as").select_option("slider:4"))
    page.locator(".stage .media").wait_for()
    page.keyboard.press("a")
    assert plays(page.locator(".stage .media"))


@pytest.mark.parametrize("device", ["wide", "phone"])
def test_thirty_parameters_leave_the_buttons_in_sight(context, server, device):
    options = WIDE if device == "wide" else PHONE
    shown = 5 if device == "wide" else 2
    queue(server, "film", "film", differing=29)
    queue(server, "film", "film", differing=1)
    page = opened(context, server, device, **options)
    fold = page.locator(".fold summary")
    assert fold.all_inner_texts() == [f"{30 - shown} more values, {29 - shown} of them differ"] * 2
    for one in (*page.locator(".choices button").all(), *fold.all()):
        box = one.bounding_box()
        assert box["y"] + box["height"] <= options["viewport"]["height"]
    # And on its card: no value is cut, none has to be scrolled to.
    whole = "all => all.every((one) => one.scrollHeight <= one.clientHeight + 1)"
    assert page.locator(".inside > .values").evaluate_all(whole)
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    assert page.locator(".parameters dt:visible").evaluate_all(cut) == 0
    asked = number(page)
    fold.first.click()
    wait_until(lambda: page.locator(".fold[open]").count() == 2)  # on both cards
    assert number(page) == asked and page.get_by_text(LONG).first.is_visible()
    assert complaints(page) == []
    turn(page, page.get_by_role("button", name="A is better").click)
    settle(page)
    assert page.locator(".fold[open]").count() == 2
    assert page.locator(".parameters dt:visible").first.inner_text() == NAMES[0]  # what differs comes first


def test_a_click_on_a_player_keeps_no_key(context, server):
    queue(server, "sound", "sound")
    page = opened(context, server, "mouse")
    asked, box = number(page), page.locator("audio").first.bounding_box()
    page.mouse.click(box["x"] + 20, box["y"] + box["height"] / 2)
    assert plays(page.locator("audio").first) and number(page) == asked
    page.keyboard.press(" ")
    page.locator(".board[data-layout='flip']").wait_for()
    turn(page, lambda: page.keyboard.press("ArrowRight"))
    assert chromium.answers(server, "mouse", NAME) == [(asked, "b")]


def test_what_cannot_be_played_says_so_also_if_it_failed_before_it_had_a_place(context, server):
    study = chromium.study_of(server, NAME)
    study.enqueue(*({"shows": "sound"} | dict.fromkeys(NAMES, value) for value in (1.0, 0.5)))
    study.storage.close()
    page = opened(context, server, "broken")
    words = page.get_by_role("article", name="Option A").get_by_text("The browser cannot play this.")
    words.wait_for()
    held = []

    def second_is_pending(route):
        answer = route.fetch()
        told = answer.json()
        told["pair"]["designs"][1]["card"]["kind"] = "pending"
        route.fulfill(response=answer, json=told)

    page.route("**/pair?*", second_is_pending)
    page.route("**/card/*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it is given
    page.reload()
    words.wait_for()  # the other is still being drawn
    assert page.locator(".drawing").count() == 1 and held
    held[0].continue_()
    settle(page)
    assert page.locator("audio").count() == 1 and page.locator("video").count() == 0
    assert page.get_by_role("button", name="Play A").count() == 0
    assert page.get_by_role("button", name="Play B").is_visible()
