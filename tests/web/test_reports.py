"""Reports while many answer: the page, the library and the command line make them, and each names its last answer."""

import re

import pytest

import kappasharp as ks
from kappasharp.views import report
from tests.beside import at_a_pace, between_readings
from tests.cli.shell import Shell
from tests.web.doubles import service

HEAD = re.compile(r"Up to answer (\d+) \(event (\d+)\); answers that count: (\d+)\.")
# Seconds between two of 200 answers a minute.
PACE = 0.3


@pytest.fixture
def busy(opened):
    """A page whose study two people have answered, and where its database is."""
    browser = opened(service(renderer="tests.web.renderers:svg"))
    for turn, word in enumerate("abbaab"):
        voter = ("anna", "ben")[turn % 2]
        assert browser.answer(browser.pair(voter), word, voter=voter).status_code == 200
    return browser, browser.service.storage.url


def downloaded(browser):
    found = browser.get(browser.at("export/html"))
    assert found.status_code == 200, found.text
    return found.text


def spoken_up_to(text, url):
    """The event that a report names, when all of it is of that moment."""
    answer, event, counted = map(int, HEAD.search(text).groups())
    then = ks.load_study("taste", storage=url, through=event).moment()
    assert (answer, counted) == (max(then.history.answer_numbers().values()), len(then.history.counted()))
    assert text.count("class='edge") + text.count('class="edge') == counted
    for section in report.html(then).split("<section>"):
        assert section in text or "The designs, the best first" in section
    return event


def test_reports_of_the_page_are_of_one_moment_whenever_somebody_answers(busy, monkeypatch):
    browser, url = busy
    with between_readings(monkeypatch, "taste", url):
        text = downloaded(browser)
    now = ks.load_study("taste", storage=url, through=spoken_up_to(text, url)).moment()
    shown = [int(number) for number in re.findall(r"<figcaption>Design <b>(\d+)</b>", text)]
    assert shown == list(report.pictured(now)), "pictures are those of the same moment"


def test_none_fails_during_200_answers_a_minute(busy, tmp_path):
    browser, url = busy
    shell, path = Shell(tmp_path), tmp_path / "taste.html"
    shell.url = url

    def by_command():
        shell("export", "taste", path)
        return path.read_text()

    ways = [
        lambda: downloaded(browser), by_command, lambda: ks.load_study("taste", storage=url).export(path).read_text()
    ]  # fmt: skip
    with at_a_pace("taste", url, PACE) as other:
        texts = [make() for make in ways]
    assert other.done, "somebody has answered meanwhile"
    named = [spoken_up_to(text, url) for text in texts]
    assert named == sorted(named) and named[0] < named[-1]
