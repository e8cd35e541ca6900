"""The page's turn in a real browser, from key press to both new cards painted: 30 comparisons, 6 dimensions."""

import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from kappasharp.cli.serve import examples
from kappasharp.study.collection import create_study, storage_of
from tests.web.chromium import launched, serving, settle, turn

ANSWERS = 30
THINKING, TURNS = {"page_turn_ms": 3.0, "page_quick_turn_ms": 0.2}, {"page_turn_ms": 12, "page_quick_turn_ms": 20}
# A frame after the one in which the new pair is in the document, it is on the screen.
WATCH = """
window.turns = [];
let pressed = 0;
addEventListener("keydown", () => { pressed = performance.now(); }, true);
new MutationObserver(() => {
  const from = pressed;
  requestAnimationFrame(() => {
    const painted = new MessageChannel();
    painted.port1.onmessage = () => window.turns.push(performance.now() - from);
    painted.port2.postMessage(0);
  });
}).observe(document, {attributes: true, attributeFilter: ["data-pair"], subtree: true});
"""


def wish(design):
    """What the simulated person likes; how it answers does not matter to the time."""
    return -sum((value - 0.3 - 0.1 * i) ** 2 for i, value in enumerate(design.values()))


def prepared(folder):
    """The photo filter, six numbers, with thirty answers."""
    storage = storage_of(f"sqlite:///{Path(folder) / 'page.db'}")
    example = examples()["filter"]
    study = create_study(example.space, storage=storage, study_name=example.study_name)
    assert len(study.space.tuned) == 6
    for _ in range(ANSWERS):
        pair = study.ask()
        study.tell(pair, "a" if wish(pair.a) > wish(pair.b) else "b")
    study.ask()  # as it always is: a pair is open from the last answer on
    storage.close()


def measure(browser, link):
    page = browser.new_page()
    outside = []
    page.on("request", lambda request: outside.append(request.url))
    page.add_init_script(WATCH)
    page.goto(link)
    settle(page)
    time.sleep(1)
    result = {"page_first_ms": page.evaluate("turns[0]")}
    for key, seconds in THINKING.items():
        page.evaluate("turns.length = 0")
        for count in range(TURNS[key]):
            time.sleep(seconds)
            turn(page, lambda count=count: page.keyboard.press("ArrowRight" if count % 3 else "ArrowLeft"))
        time.sleep(0.5)
        taken = page.evaluate("turns")
        result[key] = statistics.median(taken)
        result[f"{key}_largest"] = max(taken)
        print(f"  {seconds:g} s thinking: {sorted(round(t) for t in taken)} ms", flush=True)
    result["page_requests_outside"] = sum(urlsplit(url).hostname not in ("127.0.0.1", None) for url in outside)
    return result


def page():
    with tempfile.TemporaryDirectory() as folder:
        prepared(folder)
        with serving(folder, "--example", "filter") as server, launched() as browser:
            time.sleep(15)  # the workers start while nobody looks yet: what a later visit to the page meets
            result = measure(browser, server.link)
    print(f"  first page {result['page_first_ms']:.0f} ms", flush=True)
    return result
