"""A page over studies in memory, for tests: real server, real guard, workers that are threads of this process."""

import asyncio
import sys
import tempfile
from copy import copy

import httpx

from kappasharp.store import invites
from kappasharp.store.storage import Storage
from kappasharp.study import collection
from kappasharp.web import server
from kappasharp.web.service import Service
from kappasharp.web.workers import Workers

# httpx tries to import it at every request, and a library that is not there is looked for in every folder.
sys.modules.setdefault("sniffio", None)

TOKEN = "0123456789abcdef" * 3
HOST = "http://127.0.0.1:8642"
WRITE = {"x-kappasharp": "1", "content-type": "application/json"}
SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


class AtOnce(Workers):
    """Workers whose jobs are done at once, in this process."""

    is_warm = True

    async def run(self, job, *given, limit, turn=None):
        return job(*given)


class Clock(asyncio.SelectorEventLoop):
    """A loop whose clock a test puts forward: a limit passes without anybody waiting for it, on any machine."""

    ahead = 0.0

    def time(self):
        return super().time() + self.ahead


def run_by_clock(coroutine):
    """What a coroutine comes to on such a loop."""
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(coroutine)


def pass_time(seconds):
    asyncio.get_running_loop().ahead += seconds


async def there(path):
    """Wait until a process has made a file."""
    while not path.exists():
        await asyncio.sleep(0.01)


def service(*, space=None, name="taste", renderer=None):
    """A service over a database of its own, which goes when the client is closed."""
    folder = tempfile.TemporaryDirectory()
    made = Service(Storage(f"sqlite:///{folder.name}/page.db"), renderers=() if renderer is None else (renderer,))
    made.folder = folder
    made.computing, made.figures, made.drawing = AtOnce(1), AtOnce(1), AtOnce(1)
    made.cards.workers = made.drawing
    study = collection.create_study(space or SPACE, storage=made.storage, study_name=name, load_if_exists=True)
    made.show(study, renderer)
    return made


def events(of):
    """How many events all studies of a service hold: what a request that was refused must not change."""
    return [(record.name, len(of.storage.read(record))) for record in of.storage.studies()]


class Browser:
    """A client of the page that speaks to it in process; it has the cookie unless it is told otherwise."""

    def __init__(self, of, *, hosts=("localhost", "127.0.0.1", "::1"), signed_in=True, raising=False):
        self.service = of
        self.app = server.application(of, token=TOKEN, hosts=hosts)
        self.cookies = {f"kappasharp_{TOKEN[:6]}": TOKEN} if signed_in else {}
        self.study = of.current
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=raising)
        self.client = httpx.AsyncClient(transport=transport, base_url=HOST, cookies=self.cookies)

    def run(self, coroutine):
        return self._runner.run(coroutine)

    def request(self, method, path, **more):
        return self.run(self.client.request(method, path, **more))

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, data, **more):
        return self.request("POST", path, json=data, headers=WRITE | more.pop("headers", {}), **more)

    def at(self, rest):
        return f"/api/studies/{self.study}/{rest}"

    def pair(self, voter="me"):
        return self.get(self.at("pair"), params={"voter": voter}).json()["pair"]

    def answer(self, pair, answer, voter="me", **more):
        data = {"pair": pair["number"], "answer": answer, "seconds": 1.5, "voter": voter} | more
        return self.post(self.at("answer"), data)

    def came_by(self, role, name=None):
        """Another client over the same server, of somebody who came by a new link; `invite` and `code` are of that."""
        invite, code = invites.make(self.service.storage, self.service.session(self.study).study.stored, role)
        return self.stranger().come_in(invite, code, name)

    def stranger(self):
        """Another client over the same server, with no cookie."""
        found = copy(self)
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        found.client = httpx.AsyncClient(transport=transport, base_url=HOST)
        return found

    def come_in(self, invite, code, name=None):
        """Come in by a link."""
        self.invite, self.code = invite, code
        self.post("/api/join", {"secret": code, "name": name}).raise_for_status()
        return self

    def close(self):
        self.run(self.client.aclose())
        self.service.close()
        self._runner.close()
        self.service.storage.close()
        self.service.folder.cleanup()
