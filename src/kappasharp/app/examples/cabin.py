"""Example: a small wooden cabin, sketched as SVG from its measures. Numbers, whole numbers and choices in one space."""

import math
from typing import Any

SPACE = {
    "width": {"low": 3.0, "high": 8.0},
    "wall height": {"low": 2.0, "high": 4.0},
    "roof pitch": {"low": 10.0, "high": 60.0},
    "porch": {"low": 0.0, "high": 2.5},
    "windows": {"type": "int", "low": 1, "high": 4},
    "cladding": ["spruce", "charred", "falu red"],
}
CLADDING = {"spruce": ("#c99a5b", "#a97c42"), "charred": ("#3b3a3d", "#232226"), "falu red": ("#8c3326", "#6d251b")}
METRE, GROUND, MIDDLE = 38.0, 318.0, 300.0
SCENERY = """<defs>
<linearGradient id="sky" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#8fc1e3"/>
<stop offset="1" stop-color="#f6ead2"/></linearGradient>
<linearGradient id="glass" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#dff1f8"/>
<stop offset="1" stop-color="#f7c873"/></linearGradient></defs>
<rect width="600" height="380" fill="url(#sky)"/>
<circle cx="500" cy="70" r="26" fill="#fff6da"/>
<path d="M0,236 Q90,170 190,222 T380,206 T600,226 V380 H0Z" fill="#9fb8b4"/>
<path d="M0,268 Q120,224 240,258 T470,246 T600,262 V380 H0Z" fill="#7c9f86"/>
<rect y="306" width="600" height="74" fill="#6b8f5e"/>"""


def render(params: dict[str, Any]) -> str:
    """The cabin's front, a fir and a person for scale; its title is for those who do not see it."""
    wide, high = params["width"] * METRE, params["wall height"] * METRE
    porch = params["porch"] * METRE
    left = MIDDLE - (wide + porch) / 2
    title = f"a cabin {params['width']:.1f} m wide, its roof at {params['roof pitch']:.0f}°, {params['cladding']}"
    parts = (
        f"<title>{title}, {params['windows']} windows, a porch of {params['porch']:.1f} m</title>",
        SCENERY,
        _fir(52, 150),
        _fir(104, 105),
        _fir(560, 170),
        _porch(left + wide, porch, high),
        _walls(left, wide, high, str(params["cladding"])),
        _openings(left, wide, high, int(params["windows"])),
        _roof(left, wide, high, params["roof pitch"]),
        _person(left + wide + porch + 34),
        _measure(left, wide, params["width"]),
    )
    size = 'viewBox="0 0 600 380" stroke-linejoin="round"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _walls(left: float, wide: float, high: float, cladding: str) -> str:
    light, dark = CLADDING[cladding]
    boards = "".join(
        f'<line x1="{left + x:.1f}" x2="{left + x:.1f}" y1="{GROUND - high:.1f}" y2="{GROUND}" stroke="{dark}"/>'
        for x in range(9, int(wide), 9)
    )
    wall = f'<rect x="{left:.1f}" y="{GROUND - high:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{light}"/>'
    base = f'<rect x="{left - 3:.1f}" y="{GROUND - 5}" width="{wide + 6:.1f}" height="9" fill="#8b8780"/>'
    return wall + boards + base


def _roof(left: float, wide: float, high: float, pitch: float) -> str:
    over = 18.0
    rise = math.tan(math.radians(pitch)) * (wide / 2)
    # A steep roof on a wide cabin would leave the picture.
    rise = min(rise, GROUND - high - 30)
    base, top, middle = GROUND - high, GROUND - high - rise, left + wide / 2
    eaves = base + over * rise / (wide / 2)
    line = f"M{left - over:.1f},{eaves:.1f} L{middle:.1f},{top:.1f} L{left + wide + over:.1f},{eaves:.1f}"
    gable = f"M{left:.1f},{base + 0.5:.1f} L{middle:.1f},{top:.1f} L{left + wide:.1f},{base + 0.5:.1f}Z"
    chimney_y = top + 0.4 * rise
    return (
        f'<rect x="{middle + wide * 0.2:.1f}" y="{chimney_y - 26:.1f}" width="15" height="40" fill="#79665c"/>'
        f'<path d="{gable}" fill="#b58a56"/><path d="{gable}" fill="#00000026"/>'
        f'<path d="{line}" fill="none" stroke="#37424d" stroke-width="9" stroke-linecap="round"/>'
    )


def _openings(left: float, wide: float, high: float, windows: int) -> str:
    door_wide, door_high = 0.9 * METRE, min(2.0 * METRE, high - 6)
    door_x = left + 0.16 * METRE + 8
    door = (
        f'<rect x="{door_x:.1f}" y="{GROUND - door_high:.1f}" width="{door_wide:.1f}" height="{door_high:.1f}" rx="2" '
        'fill="#4a3728" stroke="#f3ede2" stroke-width="3"/>'
        f'<circle cx="{door_x + door_wide - 7:.1f}" cy="{GROUND - door_high / 2:.1f}" r="2" fill="#e8c66b"/>'
    )
    start = door_x + door_wide + 12
    each = (left + wide - 10 - start) / windows
    size = max(min(each - 10, 1.2 * METRE), 8.0)
    tall = min(size * 1.1, high * 0.5)
    top = GROUND - min(high * 0.74, 2.1 * METRE)
    return door + "".join(_window(start + each * (i + 0.5) - size / 2, top, size, tall) for i in range(windows))


def _window(x: float, y: float, wide: float, tall: float) -> str:
    cross = f"M{x + wide / 2:.1f},{y:.1f} v{tall:.1f} M{x:.1f},{y + tall / 2:.1f} h{wide:.1f}"
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" fill="url(#glass)" stroke="#f3ede2" '
        f'stroke-width="3"/><path d="{cross}" stroke="#f3ede2" stroke-width="1.6"/>'
    )


def _porch(x: float, deep: float, high: float) -> str:
    if deep < 4:  # noqa: PLR2004
        return ""
    roof = GROUND - high * 0.86
    slope = f"M{x - 4:.1f},{roof - 14:.1f} L{x + deep + 10:.1f},{roof + 2:.1f}"
    return (
        f'<rect x="{x + deep - 7:.1f}" y="{roof:.1f}" width="6" height="{GROUND - roof:.1f}" fill="#8a6a43"/>'
        f'<path d="M{x:.1f},{GROUND - 30} h{deep - 4:.1f}" stroke="#8a6a43" stroke-width="4"/>'
        f'<rect x="{x:.1f}" y="{GROUND - 8}" width="{deep:.1f}" height="10" fill="#a5824f"/>'
        f'<path d="{slope}" stroke="#37424d" stroke-width="7" stroke-linecap="round"/>'
    )


def _fir(x: float, tall: float) -> str:
    layers = " ".join(
        f"M{x - wide:.1f},{GROUND - low:.1f} l{wide:.1f},{-up:.1f} l{wide:.1f},{up:.1f}Z"
        for wide, low, up in (
            (0.2 * tall, 0.12 * tall, 0.43 * tall),
            (0.16 * tall, 0.36 * tall, 0.42 * tall),
            (0.11 * tall, 0.6 * tall, 0.4 * tall),
        )
    )
    trunk = f'<rect x="{x - 3}" y="{GROUND - 22}" width="6" height="24" fill="#5b4631"/>'
    return f'{trunk}<path d="{layers}" fill="#2f5a41"/>'


def _person(x: float) -> str:
    tall = 1.75 * METRE
    head, body = GROUND - tall + 7, GROUND - tall + 14
    leg = GROUND - body - 26
    figure = f"M{x - 7:.1f},{body + 26:.1f} v-18 q0,-8 7,-8 t7,8 v18 l-3,2 v{leg:.1f} h-3 v-22 h-2 v22 h-3 v-{leg:.1f}Z"
    return f'<g fill="#2b3340"><circle cx="{x:.1f}" cy="{head:.1f}" r="6.5"/><path d="{figure}"/></g>'


def _measure(left: float, wide: float, metres: float) -> str:
    y = 348
    line = f"M{left:.1f},{y - 6} v12 M{left:.1f},{y} h{wide:.1f} M{left + wide:.1f},{y - 6} v12"
    return (
        f'<path d="{line}" stroke="#2b3340" fill="none"/>'
        f'<text x="{left + wide / 2:.1f}" y="{y + 18}" text-anchor="middle" font-family="system-ui, sans-serif" '
        f'font-size="14" fill="#1c2733">{metres:.1f} m</text>'
    )
