"""Clients of the page, closed when the test ends; and a real browser for each file that wants one."""

import pytest

from tests.web import chromium
from tests.web.doubles import Browser, service


@pytest.fixture(scope="module")
def chrome():
    with chromium.launched() as found:
        yield found


@pytest.fixture
def opened():
    """Makes clients: of a new service unless they are given one."""
    made = []

    def make(of=None, **more):
        made.append(Browser(of or service(), **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def browser(opened):
    return opened()


@pytest.fixture
def stranger(opened):
    return opened(signed_in=False)
