"""`study.show()`: the page in a notebook's frame, answered in a real browser; the study object sees the answers."""

import http.server
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

import kappasharp as ks
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.notebook import frame
from kappasharp.web import guard
from tests.web.chromium import number, settle, turn

SPACE = {"x": (0.0, 1.0), "mode": ["soft", "hard"]}


@pytest.fixture
def notebook():
    """Serves one cell's output, as a notebook server of this machine does; its port and the place for the output."""
    output = {"html": ""}

    class Cell(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(f"<!doctype html><title>notebook</title>{output['html']}".encode())

        def log_message(self, *_):
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cell)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], output
    server.shutdown()
    server.server_close()


def test_a_person_answers_in_the_frame(chrome, notebook):
    port, output = notebook
    study = ks.create_study(SPACE, storage="sqlite://")
    shown = study.show(height=500)
    try:
        assert study.show() is shown and str(shown.port) in repr(shown)
        output["html"] = shown._repr_html_()
        # A notebook is opened by either name; the frame's cookie is the site's own under both.
        for host in ("localhost", "127.0.0.1"):
            page = chrome.new_page()
            page.set_default_timeout(120_000)
            page.goto(f"http://{host}:{port}/")
            # Only under the notebook's own name has the frame a question; what it was at first goes.
            inner = page.frame_locator("iframe")
            settle(inner)
            assert inner.locator("body").evaluate("() => location.hostname") == host
            before = len(study.history.comparisons)
            asked = number(inner)
            page.locator("iframe").focus()
            turn(inner, lambda page=page: page.keyboard.press("ArrowLeft"))
            (told,) = list(study.history.comparisons.values())[before:]
            assert (told.pair, told.answer) == (asked, "a")
            page.close()
        assert study.best.n_comparisons == 2
        asked = urllib.request.Request(f"http://127.0.0.1:{shown.port}/")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(asked)
        with urllib.request.urlopen(shown.url) as answer:
            policy = answer.headers["content-security-policy"]
        assert guard.NOTEBOOKS in policy and policy.count("frame-ancestors") == 1 and "script-src 'self'" in policy
    finally:
        shown.close()
    assert not shown.is_open and "closed" in repr(shown)


def test_a_renderer_is_one_that_workers_can_import():
    study = ks.create_study(SPACE, storage="sqlite://")
    assert frame._named("draw:render") == "draw:render"
    assert frame._named(frame.show) == "kappasharp.notebook.frame:show"
    with pytest.raises(InvalidValueError, match=r"put it in a file beside the notebook, say draw\.py"):
        study.show(lambda params: "")
    with pytest.raises(InvalidTypeError, match="must be a function or its name"):
        study.show(3)
    with pytest.raises(InvalidValueError, match="`height` must be"):
        study.show(height=0)


def test_a_session_ends_with_the_page_open():
    """As a kernel does: no process left behind, not held up by the thread, and no word.

    A worker that is still starting on a busy machine may say that its parent has gone. So one of three ends is silent.
    """
    code = "import kappasharp as ks; f = ks.create_study({'x': (0, 1)}, storage='sqlite://').show(); print(f.url)"
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0 and done.stdout.startswith("http://127.0.0.1:")
        if done.stderr == "":
            return
    raise AssertionError(done.stderr)
