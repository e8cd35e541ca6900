"""Galleries, orders, sliders and ratings in a real browser by mouse, keys and touch; stored is what was shown."""

import re

import pytest

from kappasharp.app.examples import pid
from kappasharp.study.collection import create_study, storage_of
from tests.waiting import wait_until
from tests.web import chromium
from tests.web.chromium import (
    ON_ITS_SIDE,
    PHONE,
    WIDE,
    complaints,
    number,
    opened,
    says,
    serving,
    settle,
    turn,
)

NAME = "PID controller"
# The place of the thumb, as the page writes it.
AT = "one => String(one.value / one.max)"
IN_SIGHT = ":is(.card, .choices button, .extras button, #place, .places li, .tile, #form):visible"
FORMS = ("pair", "choice:4", "order:4", "slider:4", "rating")
NINE = ("choice:9", "order:9")
DEVICES = {"phone": PHONE, "side": ON_ITS_SIDE, "wide": WIDE}
# Names and values that find no room beside each other on a phone.
ESPRESSO = {
    "dose": (14.0, 20.0),
    "preinfusion": [True, False],
    "mode": ["soft and quiet", "hard"],
    "basket": ["ridged", "ridgeless"],
    "temperature_of_the_boiler": (0.5, 8e6),
}
FAILED = (
    "The picture could not be drawn: ValueError: the width must not be larger than a third of a metre in this workshop"
)
# What of the cards covers something else, sticks out of its card, or is a button that no click would reach.
UNTIDY = """() => [...document.querySelectorAll(".card")].flatMap((card, number) => {
  const found = [], within = card.getBoundingClientRect(), range = document.createRange();
  const tell = (...words) => found.push([number, ...words].join(" "));
  const parts = "dt, .number, .words dd, summary, h2, .badge, .corner, .failed > *";
  const boxes = [...card.querySelectorAll(parts)].flatMap((one) => {
    const isText = one.matches("dt, dd, .number"), values = one.closest(".values"), name = one.textContent;
    range.selectNodeContents(one.firstChild);
    const { left, right, top, bottom, width } = (isText ? range : one).getBoundingClientRect();
    // What is to be scrolled to covers nothing.
    const end = values?.getBoundingClientRect().bottom ?? Infinity;
    if (!width || getComputedStyle(one).opacity === "0" || top > end - 1) return [];
    if (values && values.scrollWidth > values.clientWidth + 1) tell(name, "is cut off");
    return [{ name, left, right, top, bottom: Math.min(bottom, end) }];
  });
  const rank = getComputedStyle(card, "::after");
  if (card.dataset.rank && rank.position === "absolute") {
    const [left, top, width, height] = ["left", "top", "width", "height"].map((side) => parseFloat(rank[side]));
    const at = [within.left + card.clientLeft + left, within.top + card.clientTop + top];
    boxes.push({ name: "its rank", left: at[0], right: at[0] + width, top: at[1], bottom: at[1] + height });
  }
  for (const [index, one] of boxes.entries()) {
    const out = [within.left - one.left, one.right - within.right, within.top - one.top, one.bottom - within.bottom];
    if (Math.max(...out) > 0) tell(one.name, "sticks out");
    for (const other of boxes.slice(index + 1)) {
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (wide > 1 && high > 1) tell(one.name, "lies over", other.name);
    }
  }
  for (const one of card.querySelectorAll(".failed > button")) {
    const { left, top, width, height } = one.getBoundingClientRect();
    const there = document.elementFromPoint(left + width / 2, top + height / 2);
    if (!one.contains(there)) tell(one.textContent, "is covered");
  }
  for (const one of card.querySelectorAll(".failed > p")) {
    if (one.clientHeight < parseFloat(getComputedStyle(one).lineHeight)) tell("no line of the sentence is in sight");
  }
  return found;
})"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The controller as a study whose questions need no model: what is tested is how they are asked."""
    folder = tmp_path_factory.mktemp("boards")
    lines = [f"{name} = {{low = {one['low']}, high = {one['high']}, log = true}}" for name, one in pid.SPACE.items()]
    head = f'name = "{NAME}"\nfirst_pairs = 200\nrender = "kappasharp.app.examples.pid:render"\n[parameters]\n'
    (folder / "study.toml").write_text(head + "\n".join(lines))
    storage = storage_of(f"sqlite:///{folder / 'page.db'}")
    for count in (4, 9):
        create_study(
            ESPRESSO, storage=storage, study_name=f"espresso{count}", question=f"choice:{count}", first_pairs=200
        )
    drawn, render = (
        {name: (one["low"], one["high"]) for name, one in pid.SPACE.items()},
        "kappasharp.app.examples.pid:render",
    )
    create_study(drawn, storage=storage, study_name="drawn9", question="choice:9", first_pairs=200, render=render)
    storage.close()
    with serving(folder, "study.toml") as found:
        yield found


@pytest.fixture
def context(chrome):
    with chromium.contexts(chrome, **WIDE) as make:
        yield make


def stored(server, voter):
    return chromium.answers(server, voter, NAME)


def question(server, asked):
    study = chromium.study_of(server, NAME)
    found = study.history.asked[asked][0]
    study.storage.close()
    return found


def switch(page, form, keep=False):
    """Have the question that is open asked in another form, or all from now on."""
    if page.locator("#form").input_value() != form:
        turn(page, lambda: page.get_by_label("Ask this as").select_option(form))
        settle(page)
    if keep:
        page.get_by_role("button", name="Keep asking this").click()
    return number(page)


def apart(one, other):
    """Whether two boxes cover nothing of each other; what is not shown covers nothing."""
    if one is None or other is None:
        return True
    sides = (("x", "width"), ("y", "height"))
    return any(a[at] + a[size] <= b[at] for at, size in sides for a, b in ((one, other), (other, one)))


def place(page):
    return float(page.locator(".board").get_attribute("data-place"))


def seen(page):
    """Wait until the card shows the place of the slider."""
    page.locator(".board[data-shown]").wait_for()
    wait_until(lambda: page.locator(".board").get_attribute("data-shown") == page.locator("#place").evaluate(AT))
    return place(page)


def test_a_gallery_by_click_key_undo_and_skip(context, server):
    page = opened(context, server, "gallery")
    expected = [(switch(page, "choice:4", keep=True), 2)]
    turn(page, page.get_by_role("article", name="Option 3").click)
    says(page, "Saved: 3 is the best. ⌫ undoes it.")
    asked = number(page)
    turn(page, lambda: page.keyboard.press("1"))
    assert turn(page, lambda: page.keyboard.press("Backspace")) == asked
    expected.append((asked, 3))
    page.get_by_role("button", name="Option 4 is the best").focus()
    turn(page, lambda: page.keyboard.press("Enter"))
    expected.append((number(page), "skip"))
    turn(page, lambda: page.keyboard.press("s"))
    assert stored(server, "gallery") == expected
    designs = question(server, expected[0][0]).designs
    assert len(designs) == 4 and page.locator(".gallery .card").count() == 4
    # Back to the study's own kind, from the next question on.
    page.keyboard.press("k")
    turn(page, lambda: page.keyboard.press("2"))
    assert page.locator(".board").get_attribute("data-kind") == "pair"


def test_a_gallery_enlarges_and_goes_one_by_one(context, server):
    page = opened(context, server, "large")
    asked = switch(page, "choice:4")
    board = page.locator(".board")
    small = page.locator(".card .media").first.bounding_box()
    page.keyboard.press("z")
    large = page.locator(".card .media").first.bounding_box()
    assert board.get_attribute("data-layout") == "zoom" and large["height"] > 1.5 * small["height"]
    page.keyboard.press(" ")
    assert page.locator(".card.face").get_attribute("data-index") == "1"
    page.get_by_role("button", name="Show all of them").click()
    assert board.get_attribute("data-layout") == "all" and number(page) == asked
    page.keyboard.press("z")
    turn(page, lambda: page.keyboard.press("2"))
    assert stored(server, "large") == [(asked, 1)]


def test_a_rating_by_key_and_click(context, server):
    page = opened(context, server, "rating")
    expected = [(switch(page, "rating", keep=True), -3)]
    turn(page, lambda: page.keyboard.press("7"))
    says(page, "Saved: B much better")
    for name, value in (("A slightly better", 1), ("equal", 0)):
        expected.append((number(page), value))
        turn(page, page.get_by_role("button", name=name, exact=True).click)
    asked = number(page)
    turn(page, lambda: page.keyboard.press("2"))
    assert turn(page, page.get_by_role("button", name="Undo").click) == asked
    assert stored(server, "rating") == expected


def test_an_order_by_keys(context, server):
    page = opened(context, server, "order")
    asked = switch(page, "order:4", keep=True)
    told = page.locator(".told")
    page.keyboard.press("Enter")
    says(page, "Put at least one first")
    page.keyboard.press("3")
    page.locator("#status").wait_for(state="hidden")  # its cause is gone
    for key in ("1", "=", "4", "Backspace", "2", "2"):
        page.keyboard.press(key)
    says(page, "2 has its place already")
    assert told.inner_text() == "Best first: 3 equal to 1, then 2. Not ordered: 4. It comes after these."
    assert told.get_attribute("role") == "status"
    turn(page, lambda: page.keyboard.press("Enter"))
    says(page, "Saved: 3 = 1 > 2. U undoes it.")
    assert stored(server, "order") == [(asked, [[0, 2], 1])]
    assert turn(page, lambda: page.keyboard.press("u")) == asked
    page.keyboard.press("2")
    turn(page, lambda: page.keyboard.press("Enter"))  # only the best
    assert stored(server, "order") == [(asked, [1])]


def test_an_order_by_mouse(context, server):
    page = opened(context, server, "drag")
    asked = switch(page, "order:4")
    for name in ("2", "4"):
        page.get_by_role("article", name=f"Option {name}").click()
    # From a card to the front of the row.
    start, tile = page.locator(".card").nth(0).bounding_box(), page.locator(".tile").nth(0).bounding_box()
    page.mouse.move(start["x"] + 150, start["y"] + 150)
    page.mouse.down()
    page.mouse.move(tile["x"] + 40, tile["y"] + 20, steps=4)
    page.mouse.move(tile["x"] + 4, tile["y"] + 20)
    page.mouse.up()
    order = page.locator(".places li")
    assert [one.get_attribute("data-number") for one in order.all()] == ["0", "1", "3"]
    page.get_by_role("button", name="Move 1 down").click()
    page.get_by_role("button", name="4 equals 1, the one before").click()
    page.get_by_role("article", name="Option 3").click()
    # Out of the row again.
    tile = page.locator(".tile").nth(3).bounding_box()
    page.mouse.move(tile["x"] + 20, tile["y"] + 20)
    page.mouse.down()
    page.mouse.move(tile["x"] + 20, tile["y"] - 300, steps=4)
    page.mouse.up()
    assert page.locator(".ghost").count() == 0 and number(page) == asked
    assert page.locator(".told").inner_text().startswith("Best first: 2, then 1 equal to 4. Not ordered: 3.")
    turn(page, page.get_by_role("button", name="Send this order").click)
    assert stored(server, "drag") == [(asked, [1, [0, 3]])]


def test_an_order_by_touch(context, server):
    page = opened(context, server, "touch", **PHONE)
    asked = switch(page, "order:4")
    for name in ("1", "2", "3"):
        page.get_by_role("article", name=f"Option {name}").tap()
    first, last = (page.locator(".tile").nth(index).bounding_box() for index in (0, 2))
    finger = page.context.new_cdp_session(page)
    points = [(first["x"] + 20, first["y"] + 20), (last["x"] + 20, last["y"] + 20), (last["x"] + 70, last["y"] + 20)]
    # A finger that is lifted in full flight throws, and Chromium takes the next tap for the hand that stops the throw.
    points.append((points[-1][0], points[-1][1] + 1))
    for kind, where in zip(("touchStart", "touchMove", "touchMove", "touchMove"), points, strict=True):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": where[0], "y": where[1]}]})
        page.wait_for_timeout(100)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.locator(".told", has_text="Best first: 2, then 3, then 1.").wait_for()
    turn(page, page.get_by_role("button", name="Send this order").tap)
    assert stored(server, "touch") == [(asked, [1, 2, 0])]


def test_a_slider_stores_the_place_that_its_card_shows(context, server):
    page = opened(context, server, "slider")
    expected = []

    def send(act):
        where = seen(page)
        asked = question(server, number(page))
        shown = page.request.get(page.locator(".stage img").evaluate("one => one.src")).text()
        assert shown == pid.render(asked.at(where))
        assert page.locator(".number").first.inner_text() == f"{asked.at(where)['proportional']:.4g}"
        expected.append((asked.number, where))
        turn(page, act)

    switch(page, "slider:4", keep=True)
    starts = [place(page)]
    page.keyboard.press("ArrowRight" if starts[0] < 0.9 else "ArrowLeft")
    assert abs(place(page) - starts[0]) == pytest.approx(1 / 60)
    page.keyboard.press("Shift+ArrowLeft")
    send(lambda: page.keyboard.press("Enter"))
    starts.append(place(page))
    page.keyboard.press("Home")
    assert place(page) == 0.0
    line = page.get_by_role("slider", name="Place on the line")
    box = line.bounding_box()
    page.mouse.move(box["x"] + 15, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.62 * box["width"], box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    assert place(page) == pytest.approx(0.62, abs=0.02)
    assert re.fullmatch(r"6\d\s%: proportional .+, integral .+, derivative .+", line.get_attribute("aria-valuetext"))
    send(page.get_by_role("button", name="This is the best place").click)
    starts.append(place(page))
    page.keyboard.press("End")
    page.locator(".stage").hover()
    page.mouse.wheel(0, 100)
    assert place(page) == pytest.approx(59 / 60)
    send(lambda: page.keyboard.press("Enter"))
    assert stored(server, "slider") == expected and len(set(starts)) == 3  # by lot, not where the last one was left
    assert turn(page, lambda: page.keyboard.press("Backspace")) == expected[-1][0]


def test_the_designs_of_a_line_are_a_number_or_a_click_away(context, server):
    page = opened(context, server, "corners")
    switch(page, "slider:4")
    page.keyboard.press("2")
    assert place(page) == pytest.approx(1 / 3) and page.locator(".corner-mark.here").inner_text() == "2"
    page.get_by_role("button", name=re.compile("^To design 3 of the line")).click()
    assert place(page) == pytest.approx(2 / 3) and page.locator(".corner-mark").count() == 4
    settle(page)
    assert page.locator(".corner-mark img").count() == 4
    assert page.locator('.corner-mark[aria-pressed="true"]').inner_text() == "3"


def test_a_slow_renderer_is_told_and_its_place_not_sent_unseen(context, server):
    page = opened(context, server, "slow")
    held, late = [], re.compile(r"/line/\d+\?place=0\.05$")
    page.route(late, lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it is given
    asked = switch(page, "slider:4")
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.locator(".following", has_text="Drawing this place").wait_for()
    assert place(page) == pytest.approx(3 / 60) and page.locator(".stage img").count() == 1
    page.keyboard.press("Enter")
    says(page, "still being drawn")
    assert number(page) == asked and stored(server, "slow") == []
    for route in held:
        route.continue_()
    assert seen(page) == pytest.approx(3 / 60) and page.locator(".following").is_hidden()
    turn(page, lambda: page.keyboard.press("Enter"))
    assert stored(server, "slow") == [(asked, 3 / 60)]


def test_a_card_that_comes_while_another_is_waited_for_takes_its_place(context, server):
    page = opened(context, server, "late")
    held = {"card": [], "picture": []}

    def first_is_pending(route):
        answer = route.fetch()
        told = answer.json()
        told["pair"]["designs"][0]["card"]["kind"] = "pending"
        last = told["pair"]["designs"][1]["card"]["key"]
        page.route(f"**/picture/{last}", lambda route: held["picture"].append(route))  # noqa: PLW0108
        route.fulfill(response=answer, json=told)

    page.route("**/pair?*", first_is_pending)
    page.route("**/card/*", lambda route: held["card"].append(route))  # noqa: PLW0108
    page.reload(wait_until="commit")
    wait_until(lambda: page.evaluate("1") and all(held.values()))
    page.wait_for_timeout(700)  # longer than a page waits for pictures to come together
    with page.expect_response("**/card/*"):
        held["card"][0].continue_()
    page.wait_for_timeout(300)
    held["picture"][0].continue_()
    settle(page)
    assert page.locator(".card img").count() == 2


def test_a_slider_by_touch(context, server):
    page = opened(context, server, "finger", **PHONE)
    asked = switch(page, "slider:4")
    box = page.locator("#place").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    where = seen(page)
    # The thumb's middle does not reach the ends.
    assert where == pytest.approx((box["width"] / 4 - 15) / (box["width"] - 30), abs=0.02)
    turn(page, page.get_by_role("button", name="This is the best place").tap)
    assert stored(server, "finger") == [(asked, where)]


def test_no_key_means_two_things_and_space_never_answers(context, server):
    page = opened(context, server, "space")
    for form in FORMS:
        asked = switch(page, form)
        page.keyboard.press("?")
        named = page.locator("#key-list kbd").all_inner_texts()
        assert len(set(named)) == len(named) > 6, form
        page.keyboard.press("Escape")
        for one in page.locator(".controls button:enabled, .answers, #form").all():
            one.focus()
            page.keyboard.press(" ")
        page.keyboard.press("PageUp" if form != "slider:4" else "c")  # in the list of kinds: it changes by no key
        page.keyboard.press("Escape")
        assert number(page) == asked and page.locator(".board").get_attribute("data-pair") == str(asked)
    assert stored(server, "space") == []
    # A click leaves the focus on nothing that a key would press again; a double click answers once.
    asked = switch(page, "rating")
    turn(page, page.get_by_role("button", name="equal", exact=True).dblclick)
    page.keyboard.press(" ")
    page.locator(".board[data-layout='flip']").wait_for()
    assert page.evaluate("document.activeElement.id") == "question"
    # Nor does a list that was opened and left as it was keep the keys.
    last = number(page)
    page.locator("#form").focus()
    turn(page, lambda: page.keyboard.press("ArrowRight"))
    assert stored(server, "space") == [(asked, 0), (last, "b")]


def test_another_voters_question_stays_as_it_is(context, server):
    one, other = (opened(context, server, name) for name in ("first", "second"))
    waiting = switch(other, "order:4")
    other.keyboard.press("2")
    asked = switch(one, "slider:4")
    seen(one)
    turn(one, lambda: one.keyboard.press("Enter"))
    other.keyboard.press("1")
    assert number(other) == waiting
    turn(other, lambda: other.keyboard.press("Enter"))
    assert stored(server, "second") == [(waiting, [1, 0])] and len(stored(server, "first")) == 1
    assert asked != waiting


@pytest.mark.parametrize("device", ["phone", "side"])
def test_on_a_phone_everything_is_in_sight(context, server, device):
    options = PHONE if device == "phone" else ON_ITS_SIDE
    page = opened(context, server, device, **options, bypass_csp=True, reduced_motion="reduce")
    page.get_by_role("button", name="Keys").tap()
    page.get_by_role("button", name="Close").tap()
    wide, high = options["viewport"].values()
    for form in (*FORMS, "choice:4"):
        switch(page, form)
        if form.startswith("order"):
            for card in page.locator(".card").all():
                card.tap()
        assert page.evaluate("document.documentElement.scrollWidth") <= wide
        for one in page.locator(IN_SIGHT).all():
            box = one.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= wide + 1, (form, one)
            assert box["y"] >= 0 and box["y"] + box["height"] <= high + 1, (form, one)
        for media in page.locator(".card .media").all():
            assert media.bounding_box()["height"] > (60 if device == "phone" else 40), form
        assert complaints(page) == [], form
    page.clock.install()
    page.reload()
    settle(page)
    asked = number(page)
    turn(page, page.get_by_role("article", name="Option 2").tap)
    assert stored(server, device) == [(asked, 1)]
    status = page.locator("#status")
    status.filter(has_text=re.compile(r"2 is the best\.$")).wait_for()  # no word of keys
    for one in page.locator(".card, .progress, .choices, .extras").all():
        assert apart(status.bounding_box(), one.bounding_box())
    page.clock.fast_forward(7000)
    status.wait_for(state="hidden")


@pytest.mark.parametrize("device", DEVICES)
def test_names_and_values_never_cover_each_other(context, server, device):
    page = context(**DEVICES[device]).new_page()
    for study, forms in (("espresso9", NINE), ("espresso4", FORMS)):
        page.goto(f"{server.link}&study={study}&voter={device}")
        settle(page)
        for form in forms:
            switch(page, form)
            assert page.evaluate(UNTIDY) == [], form
            for fold in page.locator(".fold summary").all()[:1]:
                fold.click()
                assert page.evaluate(UNTIDY) == [], form
                fold.click()


@pytest.mark.parametrize("device", DEVICES)
def test_a_failed_drawing_stays_on_its_card(context, server, device):
    page = context(**DEVICES[device], bypass_csp=True, reduced_motion="reduce").new_page()

    def fail(route):
        answer = route.fetch()
        told = answer.json()
        pair = told.get("pair", {})
        for one in (*pair.get("designs", []), *pair.get("line", {}).get("stops", []), told):
            if one.get("card"):
                one["card"] |= {"kind": "failed", "sentence": FAILED}
        route.fulfill(response=answer, json=told)

    page.route(re.compile(r"/pair\?|/line/"), fail)
    for study, forms in (("drawn9", NINE), (NAME, FORMS)):
        page.goto(f"{server.link}&study={study.replace(' ', '+')}&voter=failed+{device}")
        settle(page)
        for form in forms:
            switch(page, form)
            page.locator(".failed").last.wait_for()
            assert page.locator(".failed > button").count() == page.locator(".card").count()
            assert page.evaluate(UNTIDY) == [], form
            if form.startswith("order"):
                for mark in range(1, 4):
                    page.locator(".badge").nth(mark).click()
                page.mouse.move(0, 0)  # a card's corner comes over it where the mouse is
                assert page.locator(".tile").count() == 3 and page.evaluate(UNTIDY) == [], form
        assert complaints(page) == [], study
    page.route(
        "**/picture/*/again", lambda route: route.fulfill(json={"kind": "failed", "key": "", "sentence": "Once more."})
    )
    asked = switch(page, "choice:4")
    page.get_by_role("button", name="Draw again").last.click()
    page.get_by_text("Once more.").wait_for()
    assert number(page) == asked  # the click was no vote


def test_history_tells_every_kind(context, server):
    page = opened(context, server, "past")
    for form, keys in (("choice:4", "2"), ("order:4", "31="), ("slider:4", ""), ("rating", "6")):
        switch(page, form)
        *before, last = [*keys, *(["Enter"] if form in ("order:4", "slider:4") else [])]
        for key in before:
            page.keyboard.press(key)
        turn(page, lambda last=last: page.keyboard.press(last))
    page.goto(f"{page.url.split('#')[0]}#history")
    rows = page.get_by_role("row", name=re.compile("past"))
    rows.nth(3).wait_for()
    said = [row.locator(".said b").inner_text() for row in rows.all()]
    assert said[0] == "B better" and said[2:] == ["top 2 of 4", "the best of 4"]
    assert re.fullmatch(r"\d+\s% along the line", said[1])
    assert rows.nth(2).locator(".joint").all_inner_texts() == ["=", ">", "·"]
    assert [rows.nth(index).locator(".won").count() for index in range(4)] == [1, 1, 2, 1]
    # What differs between the designs of a question stands under each of them.
    assert [rows.nth(index).locator(".design").count() for index in range(4)] == [2, 1, 4, 4]
    assert rows.nth(3).locator(".design").first.locator("dd").first.is_visible()
    rows.nth(0).get_by_role("button", name="Swap").click()
    page.get_by_role("dialog").get_by_role("button", name="Swap").click()
    page.get_by_text("is swapped").wait_for()
    assert [answer for _, answer in stored(server, "past")][-1] == 2


def test_start_offers_each_kind(context, server):
    page = opened(context, server, "me", "#start")
    page.get_by_label("Name", exact=True).fill("gallery")
    assert page.get_by_label("How many designs at once").is_disabled()
    page.get_by_role("radio", name="The best of several").check()
    page.get_by_label("How many designs at once").select_option("3")
    page.get_by_role("button", name="Begin").click()
    page.locator("#study-name", has_text="gallery").wait_for()
    settle(page)
    assert page.locator(".gallery .card.bare").count() == 3
    turn(page, lambda: page.keyboard.press("3"))
    assert chromium.answers(server, "me", "gallery")[0][1] == 2


def test_a_study_that_chooses_what_it_asks(context, server):
    page = opened(context, server, "me", "#start")
    page.get_by_label("Name", exact=True).fill("any")
    page.get_by_role("radio", name="Whatever promises most").check()
    page.get_by_role("button", name="Begin").click()
    page.locator("#study-name", has_text="any").wait_for()
    settle(page)
    assert page.locator("#form").input_value() == "choice:4"
    options = page.locator("#form option").evaluate_all("all => all.map(one => one.value)")
    assert sorted(options) == sorted(FORMS)
    turn(page, lambda: page.keyboard.press("2"))
    assert chromium.answers(server, "me", "any")[0][1] == 1
