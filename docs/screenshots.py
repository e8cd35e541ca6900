"""`make screenshots`: the pictures of the page in the README and in page.md, taken by a real browser."""

import sys
import tempfile
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from kappasharp.app.examples import pid  # noqa: E402
from kappasharp.cli.serve import examples  # noqa: E402
from kappasharp.study.collection import create_study, storage_of  # noqa: E402
from tests.web.chromium import LAST, launched, serving, settle  # noqa: E402
from tests.web.test_team import NAME as JURY  # noqa: E402
from tests.web.test_team import jury  # noqa: E402

TARGET = Path(__file__).parent / "screenshots"
WIDE = {"viewport": {"width": 1180, "height": 800}}
TALL = {"viewport": {"width": 1180, "height": 1290}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
# A photo is large as PNG.
SMALL = PHONE | {"device_scale_factor": 1.3}
MESSAGES = "main .quiet:not([hidden])"


def tuned_well(design):
    """What the simulated person likes in a controller: quick, little overshoot, no violence."""
    positions, forces = pid.simulate(**design)
    error = sum(min(abs(1.0 - value), 3.0) for value in positions) / len(positions)
    overshoot = max(max(positions) - 1.0, 0.0)
    violence = sum(abs(b - a) for a, b in pairwise(forces))
    return -(3.0 * error + 2.0 * overshoot + 0.04 * violence)


def cosy(design):
    """And in a cabin."""
    return -abs(design["width"] - 5.5) - abs(design["roof pitch"] - 42) / 20 - abs(design["porch"] - 1.6)


def looks_right(design):
    """And in a photo."""
    ideal = {"exposure": 0.15, "contrast": 1.15, "saturation": 1.25, "warmth": 0.2, "sharpness": 0.6, "vignette": 0.25}
    return -sum((design[name] - value) ** 2 for name, value in ideal.items())


PEOPLE = {"pid": tuned_well, "filter": looks_right, "cabin": cosy}


def answer(question, like):
    """What somebody with that taste says to a question."""
    liked = [like(design) for design in question.designs]
    match question.kind:
        case "pair":
            return "a" if liked[0] > liked[1] else "b"
        case "slider":
            return max((i / 40 for i in range(41)), key=lambda place: like(question.at(place)))
        case "order":
            return sorted(range(len(liked)), key=lambda i: -liked[i])
        case "choice":
            return liked.index(max(liked))
    return 2 if liked[0] > liked[1] else -2


def prepare(folder, name, answers, kinds, **options):
    """An example with some answers by two simulated people, to questions of these kinds in turn; the last is open."""
    storage = storage_of(f"sqlite:///{Path(folder) / 'page.db'}")
    example, like = examples()[name], PEOPLE[name]
    study = create_study(
        example.space, storage=storage, study_name=example.study_name, question=example.question,
        **{"outcomes": example.outcomes, **options},
    )  # fmt: skip
    for count in range(answers):
        question = study.ask("ada" if count % 4 == 3 else "me", kind=kinds[count % len(kinds)])
        study.tell(question, answer(question, like), seconds=2.0 + count % 5 * 0.7)
    study.ask("me", kind=kinds[-1])
    storage.close()


def take(page, link, view, name, *, whole=False):
    """One picture; an order is shown half made."""
    page.goto(f"{link.split('?')[0]}#{view}")
    page.reload()
    if view == "compare":
        settle(page)
        page.locator(".progress", has_text="room left").wait_for()
    page.locator("h1").wait_for()
    if view in LAST:
        page.locator(f".view.{view} {LAST[view]}").first.wait_for()
    page.locator(MESSAGES, has_text="…").first.wait_for(state="detached")
    page.wait_for_timeout(1200)
    if name == "invite":
        page.get_by_role("button", name="Invite").click()
        page.get_by_role("button", name="Make a link").click()
        page.locator(".code-picture").wait_for()
    for key in "31=" if page.locator(".order").count() else "":
        page.keyboard.press(key)
    page.screenshot(path=TARGET / f"{name}.png", full_page=whole)
    print(f"  docs/screenshots/{name}.png")


def shots(browser, example, answers, pictures, kinds=(None,), **options):
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder, example, answers, kinds, **options)
        # By name: an example that was made otherwise than usual is not the example.
        with serving(folder, examples()[example].study_name, "--render", examples()[example].renderer) as server:
            for view, name, settings, whole in pictures:
                context = browser.new_context(**settings)
                page = context.new_page()
                page.goto(server.link)
                page.locator("h1").wait_for()
                take(page, server.link, view, name, whole=whole)
                context.close()


def main():
    TARGET.mkdir(exist_ok=True)
    dark = {"color_scheme": "dark"}
    with launched() as browser:
        shots(
            browser, "pid", 16,
            [
                ("compare", "compare", WIDE, False),
                ("best", "best", WIDE, True),
                ("model", "model", WIDE, True),
                ("export", "export", WIDE, False),
                ("start", "start", WIDE, False),
                ("study", "study", WIDE, False),
                ("model", "model-dark", WIDE | dark, True),
            ],
            method="static", first_pairs=3, outcomes=examples()["pid"].outcomes["function"],
        )  # fmt: skip
        shots(
            browser, "pid", 14, [("compare", "outcomes", WIDE, False), ("model", "outcomes-model", TALL, False)]
        )  # fmt: skip
        shots(
            browser, "filter", 6,
            [("compare", "filter-dark", WIDE | dark, False), ("compare", "slider-phone", SMALL, False)],
        )  # fmt: skip
        shots(
            browser, "cabin", 8,
            [
                ("compare", "gallery", WIDE, False),
                ("compare", "invite", WIDE, False),
                ("compare", "phone", PHONE, False),
                ("best", "phone-dark", PHONE | dark, False),
            ],
        )  # fmt: skip
        shots(browser, "cabin", 8, [("compare", "order", WIDE, False)], ["order"])
        shots(
            browser, "pid", 8,
            [("compare", "rating-phone", PHONE | dark, False), ("history", "history", WIDE, False)],
            ["choice", "order", "slider", "pair", "rating"],
        )  # fmt: skip
        team(browser)


def team(browser):
    """The team of a jury of two tastes."""
    with tempfile.TemporaryDirectory() as folder:
        storage = storage_of(f"sqlite:///{Path(folder) / 'page.db'}")
        jury(storage)
        storage.close()
        with serving(folder, JURY, "--render", examples()["cabin"].renderer) as server:
            page = browser.new_context(**WIDE | {"viewport": {"width": 1180, "height": 1700}}).new_page()
            page.goto(server.link)
            page.locator("h1").wait_for()
            take(page, server.link, "team", "team")


if __name__ == "__main__":
    main()
