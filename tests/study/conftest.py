"""Both databases, for real: a SQLite file, and a PostgreSQL server that the tests bring along."""

import psycopg
import pytest
from sqlalchemy import make_url

from kappasharp.store.storage import Storage


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'studies.db'}"
    address = make_url(request.getfixturevalue("postgres"))
    # One database, emptied: one for each test would be eighteen thousand files, and a minute to delete them.
    plain = address.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as c:
        c.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname <> ''"
        )
        c.execute("DROP SCHEMA public CASCADE")
        c.execute("CREATE SCHEMA public")
    return address.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


@pytest.fixture
def storage(url):
    """The same, opened."""
    found = Storage(url, busy_seconds=10.0)
    yield found
    found.close()
