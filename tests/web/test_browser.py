"""The page in a real browser: studies by keyboard, mouse and touch, voters, crashes, every view, accessibility."""

import json
import re

import pytest

from kappasharp.cli.serve import examples
from kappasharp.findings import best
from kappasharp.space.bounds import AmongOpen, ParameterEdge
from kappasharp.study.collection import create_study, rename_study, storage_of
from tests.waiting import wait_until
from tests.web import chromium
from tests.web.chromium import (
    PHONE,
    WIDE,
    Server,
    complaints,
    number,
    opened,
    says,
    serving,
    settle,
    turn,
    visit,
)

VIEWS = ("compare", "best", "history", "model", "export", "study", "start")
PID = "PID controller"
# In milliseconds: within a second where the machine has nothing else to do; here it may be busy.
SOON = 120_000
# Everything that the line above the question said, in order, also where one thing comes right after the other.
NOTE_PROGRESS = """window.noted = []; const line = document.querySelector(".progress"), write = line.replaceChildren;
  line.replaceChildren = (...parts) => { write.apply(line, parts); noted.push(line.innerText); }"""
# What may take the place of "Saved: …" a moment later.
SURPRISED = "surprised the model|hat das Modell überrascht|出乎模型的预料"


@pytest.fixture(scope="module")
def browser():
    with chromium.launched() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    with serving(folder, *plain(folder)) as found:
        yield found


def plain(folder):
    """The example without its outcomes, which test_outcomes_browser.py is about: a question costs a tenth then."""
    example, storage = examples()["pid"], storage_of(f"sqlite:///{folder / 'page.db'}")
    create_study(example.space, storage=storage, study_name=PID, load_if_exists=True)
    storage.close()
    return PID, "--render", example.renderer


@pytest.fixture
def context(browser):
    with chromium.contexts(browser, **WIDE) as make:
        yield make


def study_of(server, name=PID):
    return chromium.study_of(server, name)


def answers(server, voter, name=PID):
    return chromium.answers(server, voter, name)


def saved(page, words):
    says(page, re.compile(f"{re.escape(words)}|{SURPRISED}"))


def test_a_whole_study_by_keyboard(context, server):
    page = opened(context, server, "keys")
    assert "token" not in page.url and "voter=keys" in page.url
    expected = []
    for key, answer in [
        ("ArrowLeft", "a"),
        ("ArrowRight", "b"),
        ("ArrowDown", "tie"),
        ("s", "skip"),
        ("ArrowLeft", "a"),
    ] * 2:
        expected.append((number(page), answer))
        turn(page, lambda key=key: page.keyboard.press(key))
        saved(page, "Saved: ")
    assert answers(server, "keys") == expected
    stored = study_of(server)
    seconds = [row["seconds"] for row in stored.rows("comparisons") if row["voter"] == "keys"]
    assert all(value > 0 for value in seconds)
    stored.storage.close()
    # Figures that are older than the count say so, until new ones come.
    progress = page.locator(".progress")
    progress.filter(has_text=re.compile(r"answers · the best so far beats .* room left")).wait_for()
    told = int(progress.inner_text().split()[0])
    page.evaluate(NOTE_PROGRESS)
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    progress.filter(has_text=f"{told + 1} answers · the best so far beats").wait_for()
    assert any(f"{told + 1} answers · as of answer {told}, the best beats" in one for one in page.evaluate("noted"))


def test_by_mouse(context, server):
    page = opened(context, server, "mouse")
    expected = []
    for name, answer in [("A is better", "a"), ("B is better", "b"), ("Can’t tell", "tie"), ("Skip", "skip")]:
        expected.append((number(page), answer))
        turn(page, page.get_by_role("button", name=name).click)
    for side in "ab":
        settle(page)
        card, button = (page.locator(one).bounding_box() for one in (f".card.{side}", f".choice.{side}"))
        assert card["x"] <= button["x"] and button["x"] + button["width"] <= card["x"] + card["width"]
        assert button["y"] >= card["y"] + card["height"]  # under its card
        # The picture itself chooses, with undo; two screens wide it grows with the window.
        asked, small = number(page), page.locator(f".card.{side} .media").bounding_box()
        turn(page, page.locator(f".card.{side} .media").click)
        assert answers(server, "mouse")[-1] == (asked, side)
        assert turn(page, page.get_by_role("button", name="Undo").click) == asked
    settle(page)
    page.set_viewport_size({"width": 2560, "height": 1640})
    assert page.locator(".card.b .media").bounding_box()["width"] > 1.7 * small["width"]
    assert answers(server, "mouse") == expected


def test_on_a_phone(context, server):
    page = opened(context, server, "phone", **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expected = []
    for name, answer in [("A is better", "a"), ("B is better", "b"), ("Can’t tell", "tie")]:
        button = page.get_by_role("button", name=name)
        assert button.bounding_box()["height"] >= 44 and button.is_visible()
        expected.append((number(page), answer))
        turn(page, button.tap)
    assert answers(server, "phone") == expected
    for view in VIEWS[1:]:
        visit(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view


def test_undo_gives_back_the_same_pair(context, server):
    page = opened(context, server, "undo")
    first = number(page)
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    assert turn(page, lambda: page.keyboard.press("Backspace")) == first
    says(page, "Taken back")
    assert answers(server, "undo") == []
    page.keyboard.press("Backspace")  # nothing left to undo: nothing happens
    assert number(page) == first


def test_flip_zoom_blind_and_the_list_of_keys(context, server):
    page = opened(context, server, "looks")
    pair = page.locator(".pair")
    page.keyboard.press(" ")
    assert pair.get_attribute("data-layout") == "flip" and page.locator(".card.b").is_hidden()
    boxes = [page.locator(".card.a .media").bounding_box()]
    page.keyboard.press(" ")
    assert page.locator(".card.a").is_hidden() and page.locator(".card.b").is_visible()
    boxes.append(page.locator(".card.b .media").bounding_box())
    assert boxes[0] == boxes[1]  # in place: blinking between the two shows what differs
    page.keyboard.press("a")
    large = page.locator(".card.a .media").bounding_box()
    assert (
        pair.get_attribute("data-layout") == "zoom"
        and large["width"] * large["height"] > boxes[0]["width"] * boxes[0]["height"]
    )
    page.keyboard.press("Escape")
    assert page.locator(".card.a").is_visible() and page.locator(".card.b").is_visible()
    page.keyboard.press("p")
    assert page.locator(".card.a .values").is_hidden()
    page.reload()
    settle(page)
    assert page.locator(".card.a .values").is_hidden()  # remembered
    page.keyboard.press("p")
    assert page.locator(".card.a .differs").count() > 0
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    before = number(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Escape")
    assert number(page) == before  # keys behind the dialog do not vote


def test_a_reload_loses_nothing(context, server):
    page = opened(context, server, "reload")
    shown = number(page)
    names = page.locator(".card").all_inner_texts()
    page.reload()
    settle(page)
    assert number(page) == shown and page.locator(".card").all_inner_texts() == names
    following = turn(page, lambda: page.keyboard.press("ArrowRight"))
    page.reload()
    settle(page)
    assert number(page) == following and answers(server, "reload") == [(shown, "b")]


def test_two_voters_have_their_own_pairs_and_see_how_far_they_agree(context, server):
    ann, ben = (opened(context, server, name) for name in ("ann", "ben"))
    assert number(ann) != number(ben)
    ann.get_by_text("Voting as ann").wait_for()
    turn(ann, lambda: ann.keyboard.press("ArrowLeft"))
    turn(ben, lambda: ben.keyboard.press("ArrowRight"))
    visit(ann, "team")
    assert all("1 answer" in ann.locator(f"[data-voter='{name}']").inner_text() for name in ("ann", "ben"))


def test_what_others_do_is_seen_within_a_second_and_disturbs_nothing(context, server):
    """From another page, and from another process: the test's own."""
    storage = storage_of(f"sqlite:///{server.folder / 'page.db'}")
    study = create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage=storage, study_name="live", first_pairs=2)
    idle, past, best, active = (context().new_page() for _ in range(4))
    for page, view in ((idle, ""), (past, "#history"), (best, "#best"), (active, "")):
        page.goto(f"{server.link}&study=live&voter=v{'' if page is active else 2}{view}")
    settle(idle)
    settle(active)
    best.locator(".empty").wait_for()
    shown = number(idle)
    focused = idle.get_by_role("button", name="Can’t tell")
    focused.focus()
    turn(active, lambda: active.keyboard.press("ArrowLeft"))
    idle.locator(".progress", has_text="1 answer").wait_for(timeout=SOON)
    past.get_by_role("heading", name="1 answer").wait_for(timeout=SOON)
    row = past.get_by_role("row").nth(1)
    delete = row.get_by_role("button", name="Delete answer 1")
    delete.focus()
    turn(active, lambda: active.keyboard.press("s"))
    # Skips are not answers, wherever they are counted.
    past.get_by_role("heading", name="1 answer, 1 skip").wait_for(timeout=SOON)
    assert idle.locator(".progress").inner_text().startswith("1 answer ")
    for _ in range(2):
        study.tell(study.ask("shell"), "b")
    past.get_by_role("heading", name="3 answers, 1 skip").wait_for(timeout=SOON)
    idle.locator(".progress", has_text="3 answers · the best so far beats").wait_for(timeout=SOON)
    best.locator(".certainty h2").wait_for(timeout=SOON)
    # The focus stayed where it was: on the same answer, which is further down by now.
    assert past.evaluate("document.activeElement.closest('tr').querySelector('th').textContent") == "1"
    assert number(idle) == shown and focused.evaluate("one => one === document.activeElement")
    # A key that comes before the next question is told; a study that is deleted too.
    active.route("**/answer", lambda route: (active.keyboard.press("ArrowRight"), route.continue_()))
    turn(active, lambda: active.keyboard.press("ArrowLeft"))
    says(active, "A key came before the next question was in sight")
    storage.delete(study.stored)
    idle.locator("#notice", has_text="Somebody deleted “live”").wait_for(timeout=SOON)
    storage.close()


def test_the_second_answer_to_a_pair_is_told_and_shown_the_current_one(context, server):
    one, other = (opened(context, server, "twice") for _ in range(2))
    shown = number(one)
    assert number(other) == shown
    following = turn(one, lambda: one.keyboard.press("ArrowLeft"))
    assert turn(other, lambda: other.keyboard.press("ArrowRight")) == following
    says(other, "Not saved: this question was already answered")
    assert answers(server, "twice") == [(shown, "a")]


def test_a_parameter_and_a_name_changed_by_somebody_else_are_told(context, server):
    storage = storage_of(f"sqlite:///{server.folder / 'page.db'}")
    study = create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage=storage, study_name="shared")
    page = context().new_page()
    page.goto(f"{server.link}&voter=bob&study=shared")
    settle(page)
    shown, link = number(page), page.url
    study.lock("x", 0.123)
    assert turn(page, lambda: page.keyboard.press("ArrowLeft")) != shown
    says(page, "Not saved: this question was withdrawn because a parameter was changed. Here is the next one.")
    # Nobody does anything: the page hears of the name by itself, and an old link still leads to the study.
    rename_study("shared", "ours", storage=storage)
    page.locator("#study-name", has_text="ours").wait_for()
    assert "study=ours" in page.url and page.title().startswith("ours")
    page.goto(link)
    says(page, "“shared” is called “ours” now.")
    assert "study=ours" in page.url and answers(server, "bob", "ours") == []
    storage.close()


def test_a_killed_server_is_told_at_once_and_found_back_with_nothing_lost(context, tmp_path):
    server = Server(tmp_path, *plain(tmp_path))
    page = opened(context, server, "me")
    shown = turn(page, lambda: page.keyboard.press("ArrowLeft"))
    port = server.port
    server.kill()
    # Nobody does anything: the page hears of it by itself.
    page.locator("#notice", has_text="The server does not answer").wait_for()
    page.keyboard.press("ArrowRight")
    says(page, "Not saved. The server does not answer.")
    assert number(page) == shown
    page.goto(f"{page.url.split('#')[0]}#history")
    page.get_by_role("alert").get_by_text("this page then goes on by itself").first.wait_for()
    server = Server(tmp_path, *plain(tmp_path), port=port)
    try:
        # A view that could not be opened is opened now; no reload, no new link.
        page.get_by_role("heading", name="1 answer").wait_for()
        assert page.locator("#notice").is_hidden()
        visit(page, "compare")
        assert number(page) == shown
        turn(page, lambda: page.keyboard.press("ArrowRight"))
        assert [answer for _, answer in answers(server, "me")] == ["a", "b"]
        page.goto(f"{server.link}&study=nobody&voter=me")
        page.get_by_text("There is no study called “nobody” here").wait_for()
        page.get_by_role("link", name="See the studies").click()
        page.get_by_role("button", name="Open PID controller").wait_for()
        page.goto(f"{server.link}&voter=")
        page.get_by_text("names a voter without a name").wait_for()
        page.get_by_role("link", name="Vote without a name").click()
        settle(page)
    finally:
        server.close()


def test_history_asks_before_it_changes_anything_and_takes_it_back(context, server):
    page = opened(context, server, "past")
    asked = number(page)
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    visit(page, "history")
    row = page.get_by_role("row", name=re.compile("past")).first
    row.locator("dd").first.wait_for()

    def ask(name, yes):
        row.get_by_role("button", name=name).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name=yes, exact=True).click()
        dialog.wait_for(state="detached")

    ask("Delete", "Cancel")
    ask(re.compile(r"^Swap answer \d+: the other design was better$"), "Swap")
    note = page.locator(".view > [aria-live]")
    note.get_by_text("is swapped").wait_for()
    row.get_by_text("changed later").wait_for()
    assert answers(server, "past") == [(asked, "b")]
    note.get_by_role("button", name="Take it back").click()
    note.get_by_text("all is as it was").wait_for()
    assert answers(server, "past") == [(asked, "a")] and row.get_by_text("changed later").count() == 0
    row.get_by_role("button", name="Ask").click()
    note.get_by_text("asked again").wait_for()
    ask("Delete", "Delete")
    note.get_by_text("counts no more").wait_for()
    assert answers(server, "past") == []
    # Also later: what was deleted stands below the list.
    page.reload()
    page.get_by_text("1 answer was deleted").click()
    page.get_by_role("button", name=re.compile("Put answer")).click()
    note.get_by_text("counts again").wait_for()
    assert answers(server, "past") == [(asked, "a")]


def test_best_copies_and_challenges(context, server):
    page = opened(context, server, "best")
    for _ in range(3):
        turn(page, lambda: page.keyboard.press("ArrowLeft"))
    page.goto(f"{page.url.split('#')[0]}#best")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as JSON").click()
    says(page, "Copied.")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert set(copied) == {"proportional", "integral", "derivative"}
    assert page.locator(".slices .chart").count() == 3 and page.locator(".figure").count() >= 2
    why = page.get_by_role("region", name="Why is this the best?")
    # Which of the two is said hangs on what other voters had open when their questions were chosen.
    why.get_by_text(re.compile(r"comes nearest|to be as good or better")).first.wait_for()
    why.get_by_role("slider", name="Certainty over the number of answers").wait_for()
    # Values can be read by pointer and by keyboard.
    curve, said = page.locator(".slices svg").first, page.locator(".slices .reading-words").first
    box = curve.bounding_box()
    curve.hover(position={"x": box["width"] * 0.9, "y": 40})
    by_pointer = said.inner_text()
    curve.focus()
    # The end that is further from the best design, of which the curve says only that.
    page.keyboard.press("Home" if copied["proportional"] > 2 else "End")
    assert re.match(r"(0\.5|12): .* the best ± .*; better with a chance of \d+\s%$", said.inner_text()) and by_pointer
    assert curve.get_attribute("aria-valuetext") == said.inner_text() != by_pointer
    own = page.get_by_role("textbox", name="integral")
    own.fill("much")
    page.get_by_role("button", name="Challenge").click()
    assert own.evaluate("(field) => field.validationMessage") == "This needs a number."
    page.get_by_role("textbox", name="proportional").fill("3")
    own.fill("1")
    page.get_by_role("button", name="Challenge").click()
    says(page, "The duel with your settings comes after")
    settle(page)
    turn(page, lambda: page.keyboard.press("s"))
    assert "3\n(differs)" in page.locator(".card dd").all_inner_texts()


def test_best_can_be_settled(context, server):
    page = opened(context, server, "settled")
    for _ in range(6):
        turn(page, lambda: page.keyboard.press("ArrowLeft"))
    page.goto(f"{page.url.split('#')[0]}#best")
    page.get_by_role("button", name="Settle it", exact=True).click()
    says(page, "Five duels come after the pair that is open now.")
    settle(page)
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    study = study_of(server)
    origin = study.history.open_pair("settled").origin
    study.settle(0)  # the other tests' questions are not duels
    study.storage.close()
    assert origin == "settle"


def test_best_can_be_settled_side_by_side(context, server):
    page = opened(context, server, "gallery")
    for _ in range(6):
        turn(page, lambda: page.keyboard.press("ArrowLeft"))
    page.goto(f"{page.url.split('#')[0]}#best")
    page.get_by_role("button", name="Settle it side by side").click()
    says(page, "Five galleries come after what is open now.")
    settle(page)
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    cards = page.locator(".board .card").count()
    study = study_of(server)
    question = study.history.open_pair("gallery")
    study.settle(0)  # the other tests' questions are not galleries
    study.storage.close()
    assert (question.origin, question.kind, len(question.designs)) == ("settle", "choice", 9) and cards == 9
    turn(page, lambda: page.keyboard.press("1"))


def test_the_model_view_switches_the_correction(context, server):
    page = opened(context, server, "model")
    for _ in range(4):
        turn(page, lambda: page.keyboard.press("ArrowLeft"))
    page.goto(f"{page.url.split('#')[0]}#model")
    page.get_by_role("img", name=re.compile("Comparison graph without")).wait_for()
    # Plain words first; what speaks of mathematics is behind a fold.
    page.get_by_role("region", name="What the answers say").get_by_text("answers").first.wait_for()
    assert not page.get_by_text("No κ is computed of this model").is_visible()
    page.get_by_text("Inside the model").click()
    page.get_by_role("button", name="With correction", exact=True).click()
    page.get_by_role("img", name=re.compile("Comparison graph with the")).wait_for()
    assert page.locator(".node.best").count() == 1 and page.locator(".edge").count() > 3
    # The example's hints are beliefs beside the answers, of which there is no κ.
    page.get_by_text("No κ is computed of this model").wait_for()
    assert page.locator(".node.best title").text_content().endswith(", the best")


def test_export_downloads_and_shows_the_python(context, server):
    page = opened(context, server, "files", "#export")
    page.locator("pre", has_text="ks.create_study").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download JSON").click()
    assert json.loads(download.value.path().read_text())["name"] == PID


# Where a page comes over plain http from another machine, browsers give it no clipboard.
NO_CLIPBOARD = """
window.theirs = navigator.clipboard;
Object.defineProperty(Navigator.prototype, "clipboard", {get: () => undefined});
"""


def test_copying_works_without_the_clipboard(context, server):
    page = opened(context, server, "files", "#export")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.add_init_script(NO_CLIPBOARD)
    page.reload()
    page.locator("pre", has_text="ks.create_study").wait_for()
    copy = page.get_by_role("button", name="Copy the Python")
    copy.focus()
    page.keyboard.press("Enter")
    says(page, "Copied.")
    assert page.evaluate("theirs.readText()") == page.locator("pre").inner_text()
    assert page.evaluate("document.activeElement.ariaLabel") == "Copy the Python"
    assert page.locator("textarea").count() == 0
    page.evaluate("document.execCommand = () => false")
    copy.click()
    dialog = page.get_by_role("dialog", name="Copy")
    dialog.get_by_text("The text is selected").wait_for()
    assert page.evaluate("getSelection().toString()") == page.locator("pre").inner_text()
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")


def test_start_makes_a_study_and_rehearses(context, server):
    page = opened(context, server, "me", "#start")
    page.get_by_label("Name", exact=True).fill("<b>mine</b>")
    page.get_by_label("Name of the parameter").first.fill("<img src=x onerror=alert(1)>")
    page.get_by_label("Answers").fill("6")
    page.get_by_role("button", name="Rehearse").click()
    page.get_by_role("region", name="Rehearsal").wait_for()
    page.get_by_role("button", name="Begin").click()
    settle(page)
    assert page.locator("#study-name").inner_text() == "<b>mine</b>"
    assert page.locator(".parameters dt").first.inner_text() == "<img src=x onerror=alert(1)>"
    assert page.locator("main img").count() == 0
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    page.goto(f"{page.url.split('#')[0]}#start")
    page.get_by_role("button", name="As TOML").click()
    page.get_by_role("button", name="Begin").click()
    page.locator("#study-name", has_text="my study").wait_for()


def begin_chair(page):
    """Faults stand beside their fields and go with their causes; the first question asks about the favourite."""
    page.get_by_label("Name", exact=True).fill("chair")
    page.get_by_label("Name of the parameter").nth(1).fill("x")
    page.get_by_label("From").first.fill("2")
    page.get_by_role("button", name="Begin").click()
    to, second = page.get_by_label("To", exact=True).first, page.get_by_label("Name of the parameter").nth(1)
    assert to.get_attribute("aria-invalid") == second.get_attribute("aria-invalid") == "true"
    assert page.locator(".fault:visible").all_inner_texts() == [
        "To must be larger than From.",
        "Another parameter has this name.",
    ]
    # The cause was mended in another field than the one that is marked.
    page.get_by_label("From").first.fill("0")
    second.fill("y")
    assert to.get_attribute("aria-invalid") is None and page.locator(".fault:visible").count() == 0
    page.get_by_label("Step").nth(1).fill("0.25")
    page.get_by_text("Start from a design you like").click()
    page.get_by_role("button", name="Add a favourite").click()
    page.locator(".favourite-fields").get_by_label("x").fill("0.3")
    page.locator(".favourite-fields").get_by_label("y").fill("0.6")
    page.get_by_role("button", name="Begin").click()
    assert page.locator(".fault:visible").inner_text() == "This must be 0 plus a multiple of 0.25."
    page.locator(".favourite-fields").get_by_label("y").fill("0.5")
    page.get_by_role("button", name="Begin").click()
    settle(page)


def add_past(page, tmp_path):
    """Bad lines are named beside the file, until another is chosen."""
    for name, lines in (("bad", "0,0,1,1,a\n0,0,1,1,maybe"), ("good", "0,0,1,1,a\n0,0,1,1,tie")):
        (tmp_path / f"{name}.csv").write_text(f"a.x,a.y,b.x,b.y,answer\n{lines}\n")
    past = page.get_by_role("region", name="Past comparisons")
    past.get_by_label("A CSV file").set_input_files(tmp_path / "bad.csv")
    past.get_by_role("button", name="Add them").click()
    past.get_by_text("Line 3: The answer must be a, b, tie or skip, but it is 'maybe'. Nothing was stored").wait_for()
    past.get_by_label("A CSV file").set_input_files(tmp_path / "good.csv")
    assert past.locator(".fault:visible").count() == 0
    past.get_by_role("button", name="Add them").click()
    says(page, "Added: 2 comparisons from 2 answers.")
    assert "skip" not in page.locator("#status").inner_text()


def speaks_no_python(page, notes):
    notes.get_by_label("Design").fill("99")
    notes.get_by_label("Note").fill("lost")
    notes.get_by_role("button", name="Note it").click()
    refused = notes.locator(".fault", has_text="designs seen in this study, which count from 0, but it is 99")
    refused.wait_for()
    assert re.search("[`“]", refused.inner_text()) is None
    # What Python says with a call, the page says without.
    spoken = [
        best.no_signal(9, 0.5).sentence,
        str(ParameterEdge("w", "high", 10.0, 15.0, 10.0)),
        *AmongOpen(better_outside=3).notes,
    ]
    in_words = "async (said) => { const { inWords } = await import('/static/fields.js'); return said.map(inWords); }"
    assert all("`" in one for one in spoken)
    assert not re.search("[`“]|widen|diagnostics", "".join(page.evaluate(in_words, spoken)))


def test_a_study_starts_from_a_favourite_and_is_arranged(context, server, tmp_path):
    page = opened(context, server, "me", "#start")
    begin_chair(page)
    stored = study_of(server, "chair")
    assert {"x": 0.3, "y": 0.5} in stored.history.open_pair("me").designs
    for _ in range(3):
        turn(page, lambda: page.keyboard.press("ArrowLeft"))
    page.locator("#study-name a").click()
    panel = page.get_by_role("region", name="Parameters")
    # What is not allowed is said in plain words beside its field, which is marked; by the page, or by the server.
    for value, words in (
        ("7", "This must be from 0 to 1, which was open"),
        ("0.3", "“y” must be 0 plus a multiple of"),
    ):
        panel.get_by_label("Lock y at").fill(value)
        assert panel.locator(".fault:visible").count() == 0
        panel.get_by_role("button", name="Lock y").click()
        panel.get_by_text(words).wait_for()
        assert panel.get_by_label("Lock y at").get_attribute("aria-invalid") == "true"
    panel.get_by_label("Lock y at").fill("0.25")
    panel.get_by_role("button", name="Lock y").click()
    panel.get_by_text("Locked at 0.25.").wait_for()
    assert all(design["y"] == 0.25 for design in stored.ask("other").designs)
    panel.get_by_role("button", name="Take the change back").click()
    panel.get_by_text("Locked at 0.25.").wait_for(state="detached")
    panel.get_by_label("x to").fill("0.5")
    panel.get_by_role("button", name="Set the range of x").click()
    panel.get_by_text("Open from 0 to 0.5; it was open from 0 to 1.").wait_for()
    notes = page.get_by_role("region", name="Notes")
    speaks_no_python(page, notes)
    notes.get_by_label("Design").fill("0")
    notes.get_by_label("Note").fill("<i>low</i>")
    notes.get_by_role("button", name="Note it").click()
    notes.get_by_text("<i>low</i>").wait_for()
    add_past(page, tmp_path)
    page.get_by_label("Name of the study").fill("stool")
    page.get_by_role("button", name="Rename").click()
    page.locator("#study-name", has_text="stool").wait_for()
    page.goto(f"{page.url.split('#')[0]}#start")
    page.get_by_role("region", name="Studies").get_by_text("5 answers · 1 voter").wait_for()
    page.get_by_role("button", name="Delete stool").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Delete stool").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete for good").click()
    says(page, "“stool” was deleted")
    assert "stool" not in [one.name for one in stored.storage.studies()]
    stored.storage.close()


def test_a_failed_card_is_drawn_again_and_a_users_html_lives_in_a_sandbox(context, tmp_path):
    (tmp_path / "mine.toml").write_text("[parameters]\nx = {low = 0, high = 1}\n")
    with serving(tmp_path, "mine.toml", "--render", "tests.web.renderers:html_when_ready") as server:
        page = opened(context, server, "me")
        page.locator(".card.a .failed", has_text="no licence").wait_for()
        (tmp_path / "ready").touch()
        asked = number(page)
        page.locator(".card.a").get_by_role("button", name="Draw again").click()
        frame = page.frame_locator(".card.a iframe")
        frame.locator("#hi").wait_for()
        assert number(page) == asked  # the click was no vote
        assert page.locator(".card.a iframe").get_attribute("sandbox") == "allow-scripts"
        inside = page.frames[1]
        # Its own script ran; our page, its cookie and its storage are out of reach.
        assert inside.title() == "ran" and inside.evaluate("origin") == "null"
        assert (
            inside.evaluate("(() => { try { return parent.document.title } catch (error) { return error.name } })()")
            == "SecurityError"
        )
        # Side by side the frame is a picture: a click on it votes, and the keys stay with the question.
        middle = page.locator(".card.a iframe").bounding_box()
        at = (middle["x"] + middle["width"] / 2, middle["y"] + middle["height"] / 2)
        turn(page, lambda: page.mouse.click(*at))
        says(page, "Saved: A preferred.")
        assert turn(page, lambda: page.keyboard.press("Backspace")) == asked
        frame.locator("#hi").wait_for()
        assert page.locator(".card.a iframe").get_attribute("tabindex") == "-1"
        # Alone it can be used, and no click on it votes.
        page.get_by_role("button", name="Enlarge A").click()
        frame.get_by_role("button", name="turn").click()
        frame.get_by_role("button", name="turned").wait_for()
        page.mouse.wheel(0, 300)
        page.frames[1].wait_for_function("scrollY > 0")
        says(page, "The keys are in the picture now")
        assert number(page) == asked and page.locator(".card.a iframe").get_attribute("tabindex") == "0"
        page.get_by_role("button", name="Show both").click()
        turn(page, lambda: page.mouse.click(*at))
        turn(page, lambda: page.keyboard.press("ArrowLeft"))
        page.keyboard.press("Escape")
        for width, height in ((390, 844), (844, 390)):
            # On a phone its letter stands above a page of HTML, not on it; and nothing of the progress is cut.
            page.set_viewport_size({"width": width, "height": height})
            letter, html = (page.locator(f".card.a {one}").bounding_box() for one in ("h2", "iframe"))
            assert letter["y"] + letter["height"] <= html["y"] + 1, (letter, html)
            assert page.locator(".progress p").evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.mark.parametrize(("device", "schemes"), [("wide", ["light", "dark"]), ("phone", ["dark", "light"])])
def test_axe_finds_nothing(context, server, device, schemes):
    options = (PHONE if device == "phone" else WIDE) | {"color_scheme": schemes[0], "bypass_csp": True}
    page = opened(context, server, "axe", reduced_motion="reduce", **options)
    while number(page) < 40 and page.locator(".progress", has_text="more before").count():
        turn(page, lambda: page.keyboard.press("ArrowLeft"))
    for view in VIEWS:
        visit(page, view)
        assert complaints(page, schemes) == [], view


def challenges_in_german(page):
    """A decimal comma is one; the duel itself is kept from the others of this study."""
    sent = []
    page.route("**/challenge", lambda route: (sent.append(route.request.post_data_json), route.fulfill(status=204)))
    own = page.get_by_role("textbox", name="proportional")
    assert re.fullmatch(r"\d+(,\d+)?", own.input_value())
    own.fill("2,9")
    page.get_by_role("button", name="Die beste herausfordern").click()
    wait_until(lambda: sent)
    assert sent[0]["params"]["proportional"] == 2.9
    page.unroute("**/challenge")


def refuses_in_german(page):
    """What the page and what the server does not take, in forms."""
    visit(page, "study")
    page.get_by_label("integral von").fill("-0,5")
    page.get_by_role("button", name="Bereich von integral").click()
    page.get_by_text("Bei logarithmischer Skala muss jeder Wert über 0 liegen.").wait_for()
    page.get_by_label("Name der Studie").fill("a\u0007b")
    page.get_by_role("button", name="Umbenennen").click()
    page.get_by_text("Das braucht 1 bis 200 sichtbare Zeichen").wait_for()
    assert page.locator(".fault:visible [lang]").count() == 0


def test_in_german_by_the_browsers_language_until_another_is_chosen(context, server):
    page = opened(context, server, "dora", locale="de-AT", bypass_csp=True, **PHONE)
    assert page.locator("html").get_attribute("lang") == "de"
    asked = number(page)
    turn(page, page.get_by_role("button", name="A ist besser").tap)
    saved(page, "Gespeichert: A bevorzugt.")
    assert turn(page, lambda: page.keyboard.press("Backspace")) == asked
    says(page, "Zurückgenommen.")
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    assert complaints(page) == []
    visit(page, "best")
    assert page.get_by_role("heading", level=1).inner_text() == "Bisher am besten"
    # The best design may lie in a corner, whose numbers are whole.
    shown = re.findall(r"\d+(?:[.,]\d+)?", page.locator(".parameters").first.inner_text())
    assert len(shown) == 3 and not any("." in number for number in shown)
    # What the server says of the study is said in German too: its advice, its reasons, its charts.
    assert page.locator(".advice").inner_text().startswith(("Weiter: ", "Noch zu wenig: ", "Zu wenig: "))
    page.locator("figure").first.wait_for()
    assert page.locator(":is(.advice, .sentences li, figure)[lang=en]").count() == 0
    # Numbers in charts have the decimal sign of all others: at the axes, in captions and in what is read off.
    page.locator(".slices svg").first.focus()
    for words in (
        page.locator(".slices").first.inner_text(),
        page.locator(".slices svg").first.get_attribute("aria-label"),
    ):
        assert re.search(r"\d,\d", words) and not re.search(r"\d\.\d", words)
    challenges_in_german(page)
    refuses_in_german(page)
    visit(page, "model")
    assert page.locator(".sentences").first.locator("[lang=en]").all_inner_texts() == []
    assert "undefined" not in page.locator("body").inner_text()
    visit(page, "start")
    assert complaints(page) == []
    low, high = page.get_by_label("Von").first, page.get_by_label("Bis").first
    low.fill("0,5")
    high.fill("0,25")
    page.get_by_role("button", name="Beginnen").click()
    page.get_by_text("„Bis“ muss größer sein als „Von“.").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_label("Sprache").select_option("en")
    page.get_by_role("heading", name="Start a study").wait_for()
    page.reload()
    page.get_by_role("heading", name="Start a study").wait_for()
    assert page.locator("html").get_attribute("lang") == "en-GB"


# English words that a page in another language shows: names of what is tuned, of formats, keys and languages.
NAMES = "proportional integral derivative overshoot rise time settling largest force voter answer study soft hard"
NAMES += " kappasharp import JSON Python CSV HTML TOML Parquet pyarrow sqlite page.db"
NAMES += " baseline modern Esc Shift English Deutsch"


def english(page, server):
    """What is said in English that is neither a name nor marked as English."""
    stored, listed = study_of(server), page.evaluate("fetch('/api/studies').then((answer) => answer.json())")
    names = {row["voter"] for row in stored.rows("comparisons")} | {one["name"] for one in listed["studies"]}
    names |= {*NAMES.split(), *listed["renderers"]}
    stored.storage.close()
    return chromium.in_english(page, names)


def test_in_chinese_nothing_of_the_page_is_left_in_english(context, server):
    page = opened(context, server, "小美")
    page.goto(f"{page.url.split('#')[0]}&lang=zh")
    settle(page)
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    for form in page.locator("#form option").evaluate_all("all => all.map((one) => one.value)"):
        page.locator("#form").select_option(form)
        page.locator(f".board[data-kind={form.split(':')[0]}]").wait_for()
        assert english(page, server) == [], form
    page.keyboard.press("?")
    assert english(page, server) == []
    page.keyboard.press("Escape")
    page.locator("#form").select_option("pair")
    page.locator(".board[data-kind=pair]").wait_for()
    asked = number(page)
    turn(page, lambda: page.keyboard.press("ArrowRight"))
    saved(page, "已保存：更喜欢 B。")
    assert turn(page, lambda: page.keyboard.press("u")) == asked
    turn(page, lambda: page.keyboard.press("ArrowLeft"))
    for view in VIEWS[1:]:
        visit(page, view)
        assert english(page, server) == [], view


def test_every_control_is_reached_by_tab_and_has_a_name(context, server):
    page = opened(context, server, "tab")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
    for wanted in ("Compare", "EnlargeA", "A is better←", "Can’t tell↓", "B is better→", "Undo⌫", "Keys?"):
        assert wanted in reached or wanted == "Undo⌫", reached
    page.get_by_role("article", name="Option A").wait_for()
    # Pictures are told by what differs, unless values are hidden.
    page.get_by_role("img", name=re.compile(r"Option B: (proportional|integral|derivative) [\d.]+")).wait_for()
    page.keyboard.press("p")
    page.get_by_role("img", name="Option B", exact=True).wait_for()
    page.keyboard.press("p")
    page.get_by_role("meter", name="Way to the best design").wait_for()
    before = number(page)
    page.get_by_role("button", name="Can’t tell").focus()
    page.keyboard.press("Enter")
    wait_until(lambda: number(page) != before)


def invited(page, role):
    """A link made in the dialog that is open."""
    before = page.locator("[data-invite]").count()
    page.get_by_role("radio", name=role).check()
    page.get_by_role("button", name="Make a link").click()
    page.locator(f"[data-invite] >> nth={before}").wait_for()
    return page.get_by_label("Link", exact=True).input_value()


def revoke(page, whose):
    """Revoke the link that somebody came by, once the question is answered."""
    page.locator("[data-invite]", has_text=whose).get_by_role("button", name="Revoke").click()
    page.locator("dialog.ask").get_by_role("button", name="Revoke").click()


def test_a_voter_is_invited_comes_in_and_is_shut_out(context, server):
    """From the dialog to the sentence at the end; the secret of a link is in no request's address."""
    page = opened(context, server, "host", bypass_csp=True)
    page.get_by_role("button", name="Invite").click()
    link = invited(page, "Voter")
    assert page.get_by_role("img", name="The link as a QR code").evaluate("one => one.naturalWidth > 0")
    page.get_by_text("This page is served to this machine alone").wait_for()
    assert complaints(page) == []
    voter = context(locale="de-AT", bypass_csp=True, **PHONE).new_page()
    asked = []
    voter.on("request", lambda request: asked.append(request.url.partition("#")[0] + str(request.headers)))
    voter.goto(link)
    voter.get_by_role("heading", name=f"Sie sind zu „{PID}“ eingeladen").wait_for()
    assert complaints(voter) == []
    told = {
        "": "zuerst einen Namen",
        "HOST": "Als HOST antwortet hier schon jemand.",
        "a\u0007b": "1 bis 100 sichtbare",
    }
    for name, words in told.items():
        voter.get_by_label("Ihr Name").fill(name)
        voter.get_by_role("button", name="Beginnen").click()
        voter.get_by_text(words).wait_for()
        assert voter.get_by_label("Ihr Name").get_attribute("aria-invalid") == "true"
    voter.get_by_label("Ihr Name").fill("Annette")
    voter.keyboard.press("Enter")
    settle(voter)
    assert "join" not in voter.url and voter.locator("#who").text_content() == "Sie antworten als Annette"
    assert voter.locator("#invite").is_hidden() and voter.get_by_role("link", name="Start").count() == 0
    assert voter.evaluate("document.documentElement.scrollWidth") <= 390 and not any(link[-20:] in one for one in asked)
    turn(voter, lambda: voter.keyboard.press("ArrowLeft"))
    visit(voter, "history")
    own = voter.locator("tr", has_text="Annette").get_by_role("button").count()
    assert own == voter.locator("tbody button").count() == 3
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Invite").click()
    revoke(page, "Annette")
    page.locator("[data-invite]", has_text="Annette").get_by_text("Revoked.").wait_for()
    voter.locator("#notice", has_text="Sie sind hier nicht mehr zugelassen").wait_for()
    voter.goto(link)
    voter.get_by_text("Dieser Link wurde widerrufen").wait_for()
    assert len(answers(server, "Annette")) == 1


def test_viewers_look_on_and_an_owner_by_a_link_has_one_study(context, server):
    """A viewer becomes a voter by another link; an owner is warned before they shut themselves out."""
    page = opened(context, server, "host")
    page.get_by_role("button", name="Invite").click()
    viewer, owner = context().new_page(), context().new_page()
    viewer.goto(invited(page, "Viewer"))
    viewer.get_by_role("button", name="Have a look").click()
    viewer.locator(".best h1").wait_for()
    assert viewer.get_by_role("link", name="Compare").count() == 0 and viewer.get_by_text("Looking on").is_visible()
    viewer.get_by_text(re.compile("You look on: you see|You are here to look on")).wait_for()
    assert viewer.get_by_text(re.compile("Go on|Compare|would prefer")).count() == 0
    # Another view takes the dialog away.
    page.evaluate("location.hash = 'history'")
    page.locator("dialog.invite").wait_for(state="detached")
    page.get_by_role("button", name="Invite").click()
    link = invited(page, "Voter")
    viewer.goto(link)
    viewer.get_by_label("Your name").fill("Bo")
    viewer.get_by_role("button", name="Begin").click()
    settle(viewer)
    viewer.goto(link)
    viewer.get_by_text("You are in already, as Bo.").wait_for()
    owner.goto(invited(page, "Owner"))
    owner.get_by_label("Your name").fill("Olga")
    owner.get_by_role("button", name="Begin").click()
    settle(owner)
    assert owner.get_by_role("link", name="Start").count() == 0
    owner.get_by_role("button", name="Invite").click()
    owner.get_by_role("button", name="Shut out Bo").click()
    owner.locator("dialog.ask").get_by_role("button", name="Shut out").click()
    owner.get_by_role("button", name="Shut out Bo").wait_for(state="detached")
    viewer.reload()
    viewer.get_by_label("Your name").wait_for()
    viewer.evaluate("location.hash = 'no-link'")
    viewer.get_by_text("This link is not whole.").wait_for()
    owner.locator("[data-invite]", has_text="Olga").get_by_role("button", name="Revoke").click()
    owner.get_by_text("You came by this link yourself").wait_for()
    owner.locator("dialog.ask").get_by_role("button", name="Revoke").click()
    owner.locator("#notice", has_text="You are no longer let in here").wait_for(state="attached")
