"""A real browser and a real server for tests, benches and screenshots: Playwright on Chromium, `kappasharp serve`."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from kappasharp.study.collection import load_study, storage_of
from tests.cli.shell import SOURCE, START

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE = {"viewport": {"width": 1280, "height": 820}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
ON_ITS_SIDE = PHONE | {"viewport": {"width": 844, "height": 390}}
# What of each view of an answered study comes last.
LAST = {
    "compare": ".board",
    "best": ".slices .chart",
    "team": ".voters li",
    "history": "table img",
    "model": ".node",
    "export": "pre:not(:empty)",
    "study": ".naming form",
    "start": "form",
}
SHOWN = """(names) => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const code = "noscript, code, pre, textarea, kbd";
  const own = (one) => one.closest("[lang]") === document.documentElement && !one.closest(code);
  while (walk.nextNode()) if (own(walk.currentNode.parentElement)) found.push(walk.currentNode.data);
  for (const name of ["aria-label", "title", "placeholder", "alt", "aria-valuetext"])
    for (const one of document.querySelectorAll(`[${name}]:not(.media)`))
      if (own(one)) found.push(one.getAttribute(name));
  return found.filter((words) => /[a-z]{3}/i.test(names.reduce((left, name) => left.replaceAll(name, ""), words)));
}"""
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"


def executable():
    """Chromium, as `make browser` installs it; KAPPASHARP_CHROMIUM names another."""
    found = os.environ.get("KAPPASHARP_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError("There is no Chromium on this machine: `make browser` installs one, or KAPPASHARP_CHROMIUM.")
    return found


@contextmanager
def launched():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=FLAGS, timeout=120_000)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def contexts(browser, **usual):
    """Makes contexts that hear of every request and every error, and complains of either at the end."""
    made, complaints = [], []

    def make(**options):
        new = browser.new_context(**({"locale": "en-GB"} | usual | options))
        # Patient: on a busy machine the workers alone take a minute to start.
        new.set_default_timeout(120_000)
        new.on(
            "request",
            lambda r: None if re.match(r"(http://127\.0\.0\.1:|data:|blob:)", r.url) else complaints.append(r.url),
        )
        new.on("weberror", lambda error: complaints.append(str(error.error)))
        made.append(new)
        return new

    yield make
    for one in made:
        one.close()
    assert not complaints, complaints


class Server:
    """`kappasharp serve` in a process of its own."""

    def __init__(self, folder, *words, port=0):
        self.folder = folder
        command = [sys.executable, "-c", START, "serve", "--no-browser", "--port", str(port), *words]
        environment = os.environ | {"KAPPASHARP_STORAGE": "sqlite:///page.db", "OMP_NUM_THREADS": "1"}
        environment["XDG_STATE_HOME"] = str(folder / "state")
        # The tests' renderers, and the package that the tests themselves run on.
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), SOURCE])
        self.errors = (folder / "errors.txt").open("a")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=folder, env=environment
        )
        self.link = self.process.stdout.readline().strip()
        if not self.link:
            raise RuntimeError(f"`serve` did not start: {(folder / 'errors.txt').read_text()}")

    @property
    def port(self):
        return int(self.link.split("/")[2].rpartition(":")[2])

    def kill(self):
        """No good-bye: as when the power fails."""
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)
        self.process.stdout.close()
        self.errors.close()


@contextmanager
def serving(folder, *words, **more):
    server = Server(Path(folder), *words, **more)
    try:
        yield server
    finally:
        server.close()


def study_of(server, name):
    return load_study(name, storage=storage_of(f"sqlite:///{server.folder / 'page.db'}"))


def answers(server, voter, name):
    """What is stored of a voter: question and answer."""
    study = study_of(server, name)
    found = [(one.pair, one.answer) for one in study.history.comparisons.values() if one.voter == voter]
    study.storage.close()
    return found


def opened(context, server, voter, hash="", **options):
    page = context(**options).new_page()
    page.goto(f"{server.link}&{urlencode({'voter': voter})}{hash}")
    if hash in ("", "#compare"):
        settle(page)
    return page


def says(page, words):
    page.locator("#status", has_text=words).wait_for()


def settle(page):
    """Wait until all cards of a question are there, and what is computed for them."""
    page.locator(".board[data-pair]").wait_for()
    page.locator(".drawing, .outcome-note.computing").first.wait_for(state="detached")


def visit(page, view):
    """Go to another view and wait until all of it is there, and nothing of the one before."""
    page.goto(f"{page.url.split('#')[0]}#{view}")
    page.locator(f".view.{view} {LAST[view]}").first.wait_for()
    page.locator("main .quiet:not([hidden])", has_text="…").first.wait_for(state="detached")
    if view == "compare":
        settle(page)


def complaints(page, schemes=("light", "dark")):
    """What axe finds on the page as it stands in both schemes; of the second its colours, all else being the same."""
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(path=AXE)
    found = []
    for scheme, only in zip(schemes, ("{}", "{runOnly: ['color-contrast']}"), strict=True):
        page.emulate_media(color_scheme=scheme)
        rows = page.evaluate(f"axe.run(document, {{resultTypes: ['violations'], ...{only}}})")["violations"]
        found += [(scheme, one["id"], [node["html"][:160] for node in one["nodes"]]) for one in rows]
    return found


def in_english(page, names):
    """What a page in Chinese says in Latin letters that is neither a name nor marked as English."""
    return page.evaluate(SHOWN, sorted(names, key=len, reverse=True))


def number(page):
    return int(page.locator(".board").get_attribute("data-pair"))


def turn(page, act):
    """Do something that answers, and wait for the next pair; its number."""
    before = number(page)
    act()
    page.locator(f".board[data-pair]:not([data-pair='{before}'])").wait_for()
    return number(page)
