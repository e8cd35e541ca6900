"""Somebody who answers beside what a test looks at: between any two readings of a study, or at a pace of their own."""

import threading
from contextlib import contextmanager
from itertools import cycle
from random import Random

import kappasharp as ks
from kappasharp.store.storage import Storage

# What happens in turn: most of it is new, and now and then an answer goes.
TURNS = ("add", "add", "undo", "add", "amend")


class Answering:
    """Another holder of a study, through a connection of its own, who changes what is known of it at every turn."""

    def __init__(self, name, url, voters=("anna", "ben")):
        self.study = ks.load_study(name, storage=url)
        self.random, self.voters, self.turns = Random(7), cycle(voters), cycle(TURNS)
        self.done = 0

    def design(self):
        return {name: self.random.uniform(part.low, part.high) for name, part in self.study.space.tuned.items()}

    def turn(self):
        """One more thing happens."""
        voter, what = next(self.voters), next(self.turns)
        own = [one for one in self.study.history.comparisons.values() if one.voter == voter]
        if what == "add" or not own:
            first, second = sorted((self.design(), self.design()), key=lambda one: sum(one.values()))
            self.study.add_comparison(second, first, voter=voter)
        elif what == "undo":
            self.study.undo(voter)
        else:
            self.study.amend(own[-1].event, "tie", voter=voter)
        self.done += 1


@contextmanager
def between_readings(monkeypatch, name, url):
    """Something happens after every reading of a study; how many readings there were is `done`."""
    other, read = Answering(name, url), Storage.read

    def then_more(self, *given, **more):
        found = read(self, *given, **more)
        if self is not other.study.storage:
            other.turn()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "read", then_more)
        yield other
    other.study.storage.close()


@contextmanager
def at_a_pace(name, url, seconds):
    """Something happens every so many seconds."""
    other, over, failed = Answering(name, url), threading.Event(), []

    def go():
        try:
            while not over.wait(seconds):
                other.turn()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield other
    finally:
        over.set()
        thread.join()
        other.study.storage.close()
    assert not failed, failed
