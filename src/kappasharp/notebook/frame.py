"""The page in a notebook: served from a thread of this process, for this machine alone, and shown in a frame."""

import json
import time
from collections.abc import Callable
from html import escape
from threading import Thread, main_thread
from typing import Any

import uvicorn

from kappasharp.errors import InvalidTypeError, InvalidValueError, StorageError
from kappasharp.study.study import Study
from kappasharp.web import connections, guard, pictures
from kappasharp.web.server import application
from kappasharp.web.service import Service

HOST, HEIGHT = "127.0.0.1", 720
# Seconds that the page may take to open its port, and to close it.
PATIENCE = 30.0
_running: dict[tuple[str, str | None], "Frame"] = {}


class Frame:
    """A page that is being served: `url` opens it in a tab, `close` ends it; so does the end of the process."""

    def __init__(self, study: Study, renderer: str | None) -> None:
        service = Service(study.storage, renderers=() if renderer is None else (renderer,))
        service.show(study, renderer)
        token, listener = guard.new_token(), connections.listen(HOST, None)
        app = application(service, token=token, hosts=guard.allowed_hosts(HOST), framed=True)
        self.port = listener.getsockname()[1]
        self.url = connections.address(connections.Exposure(HOST), self.port, token)
        self.height = HEIGHT
        self._server = uvicorn.Server(connections.configured(app))
        self._thread = Thread(target=self._server.run, args=([listener],), name="kappasharp page", daemon=True)
        self._thread.start()
        # A session that ends must not wait for a page that would go on.
        Thread(target=self._end_with_session, daemon=True).start()
        until = time.monotonic() + PATIENCE
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                raise StorageError(f"The page could not be served on {HOST}:{self.port}.")
            time.sleep(0.01)

    @property
    def is_open(self) -> bool:
        """Whether it is still served."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the page; every answer is already stored."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)

    def _end_with_session(self) -> None:
        main_thread().join()
        self._server.should_exit = True

    def __repr__(self) -> str:
        return f"<the page at {self.url}>" if self.is_open else "<a page that was closed>"

    def _repr_html_(self) -> str:
        # The key is kept as a cookie of this site alone: the frame must be addressed as the notebook itself is.
        # Lazy, it loads when it is laid out, and by then the script has run: one load, not two that cross.
        frames, local = f"iframe[data-kappasharp='{self.port}']", json.dumps(self.url.replace(HOST, "localhost"))
        script = (
            f"if (location.hostname === 'localhost') for (const one of document.querySelectorAll({json.dumps(frames)}))"
            f" if (one.src !== {local}) one.src = {local};"
        )
        return (
            f"<iframe data-kappasharp='{self.port}' title='kappasharp' loading='lazy' src='{escape(self.url)}' "
            f"style='width:100%;height:{self.height}px;border:0'></iframe>"
            f"<div><a href='{escape(self.url)}' target='_blank' rel='noopener'>Open it in a tab</a></div>"
            f"<script>{script}</script>"
        )


def show(study: Study, render: str | Callable[..., Any] | None = None, *, height: int = HEIGHT) -> Frame:
    """The page for a study; the same one again as long as it runs.

    Args:
        study: what is asked about.
        render: draws a design, `render(params)`: a function of a module, or its name "module:function".
        height: of the frame, in pixels.
    """
    if isinstance(height, bool) or not isinstance(height, int) or height < 1:
        raise InvalidValueError(f"`height` must be a whole number of pixels, but got {height!r}.")
    renderer = _named(render)
    if renderer is not None:
        pictures.load(renderer)
    key = (study.stored.uid, renderer)
    if key not in _running or not _running[key].is_open:
        _running[key] = Frame(study, renderer)
    _running[key].height = height
    return _running[key]


def _named(render: Any) -> str | None:
    """A renderer by its name: workers of their own draw, and import it."""
    if render is None or isinstance(render, str):
        return render
    if not callable(render):
        raise InvalidTypeError(f"`render` must be a function or its name 'module:function', but got {render!r}.")
    module, name = getattr(render, "__module__", None), getattr(render, "__qualname__", "")
    if module in (None, "__main__") or "<" in name:
        raise InvalidValueError(
            "`render` must be a function of a module that can be imported, but got one of this notebook; put it in a "
            "file beside the notebook, say draw.py, and give 'draw:render'."
        )
    return f"{module}:{name}"
