"""Renderers for tests: each kind of thing that a card can show, and each way to fail."""

import os
import sys
import time
import wave
from io import BytesIO
from pathlib import Path

from kappasharp import processes
from kappasharp.app.examples import image_filter, pid

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 3"><rect width="4" height="3" fill="teal"/></svg>'
HTML = """<!doctype html><body style="height: 2000px"><p id=hi>hello</p>
<button onclick="this.textContent = 'turned'">turn</button><script>document.title = 'ran'</script>"""
FILTER = {"exposure": 0.0, "contrast": 1.0, "saturation": 1.0, "warmth": 0.0, "sharpness": 0.0, "vignette": 0.0}


class Mute(Exception):
    """One that cannot even say what is wrong."""

    def __str__(self):
        raise RuntimeError


def svg(params):
    return SVG


def quits(params):
    sys.exit("no licence")


def mute(params):
    raise Mute


def png(params):
    return image_filter.render(FILTER)


def html(params):
    return HTML


def html_when_ready(params):
    if not Path("ready").exists():
        raise RuntimeError("the simulator has no licence")
    return HTML


def sound(params, samples=800):
    target = BytesIO()
    with wave.open(target, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", "not compressed"))
        file.writeframes(b"\x00\x10" * samples)
    return target.getvalue()


def played(params):
    """A minute of sound, a film that lies in the server's folder, or where a number is 1 one that nobody can play."""
    if 1.0 in params.values():
        return film(params)
    return Path("clip.webm") if params["shows"] == "film" else sound(params, 480_000)


def film(params):
    return b"\x1aE\xdf\xa3" + b"\x00" * 64


def path(params):
    target = Path(os.environ["KAPPASHARP_TEST_FOLDER"]) / "card.svg"
    target.write_text(SVG)
    return target


def nothing(params):
    return None


def fails(params):
    raise RuntimeError("the simulator has no licence")


def wrong(params):
    return 42


def garbage(params):
    return b"not a picture"


def hangs(params):
    time.sleep(600)


def dies(params):
    os._exit(3)


def step(params):
    return pid.render({"proportional": 6.0, "integral": 2.0, "derivative": 2.0})


def begins_late(folder, niceness, bare):
    """The start of a worker, which is no renderer: it goes on once it is let."""
    (folder / "begun").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    processes.begin(niceness, bare)
