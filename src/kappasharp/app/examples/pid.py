"""Example: a PID controller, judged by its step response. Drawn as SVG, light or dark as the page is."""

from typing import Any

from kappasharp.problems import step_response
from kappasharp.problems.step_response import SECONDS, SETTLED, STEPS, STRONGEST

HINTS = {name: {"better": "less"} for name in ("overshoot [%]", "rise time [s]", "settling time [s]", "largest force")}
OUTCOMES = {"function": "kappasharp.app.examples.pid:outcomes", **HINTS}
SPACE = {
    "proportional": {"low": 0.5, "high": 12.0, "log": True},
    "integral": {"low": 0.1, "high": 4.0, "log": True},
    "derivative": {"low": 0.1, "high": 6.0, "log": True},
}
WIDTH, TOP, MIDDLE, BOTTOM = 560.0, 14.0, 248.0, 338.0
LEFT, RIGHT = 46.0, 14.0
HIGHEST = 1.8

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #5d6b7a }
  .line { fill: none; stroke: #0b7285; stroke-width: 2.6; stroke-linejoin: round }
  .force { fill: none; stroke: #b25000; stroke-width: 1.6; stroke-linejoin: round }
  .grid { stroke: #d9dfe5 } .target { stroke: #5d6b7a; stroke-dasharray: 5 5 } .band { fill: #0b72851a }
  .over { fill: #b2500033 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9aa7b4 } .line { stroke: #4dc4d6 } .force { stroke: #ff9a62 }
    .grid { stroke: #333d47 } .target { stroke: #9aa7b4 } .band { fill: #4dc4d622 } .over { fill: #ff9a6233 }
  }
"""


def simulate(proportional: float, integral: float, derivative: float) -> tuple[list[float], list[float]]:
    """Position and force after a unit step."""
    positions, forces = step_response.simulate([[proportional, integral, derivative]])
    return positions[0].tolist(), forces[0].tolist()


def outcomes(params: dict[str, Any]) -> dict[str, float]:
    """What an engineer reads off a response; each may be bought with another."""
    gains = [[params["proportional"], params["integral"], params["derivative"]]]
    over, rise, settled, force = step_response.measures(gains)[0].tolist()
    # Beyond twice the step nobody counts.
    return {
        "overshoot [%]": 100.0 * min(over, 1.0),
        "rise time [s]": rise,
        "settling time [s]": settled,
        "largest force": force,
    }


def render(params: dict[str, Any]) -> str:
    """The response and the actuator's force, over twelve seconds."""
    positions, forces = simulate(params["proportional"], params["integral"], params["derivative"])

    def across(i: int) -> float:
        return LEFT + i / (STEPS - 1) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return MIDDLE - min(max(value, 0.0), HIGHEST) / HIGHEST * (MIDDLE - TOP)

    def pushed(value: float) -> float:
        return BOTTOM - 38 - value / STRONGEST * 34

    path = " ".join(f"{across(i):.1f},{up(v):.1f}" for i, v in enumerate(positions) if i % 2 == 0)
    force = " ".join(f"{across(i):.1f},{pushed(v):.1f}" for i, v in enumerate(forces) if i % 2 == 0)
    grid = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(v):.1f}" y2="{up(v):.1f}" class="grid"/>'
        f'<text x="{LEFT - 8}" y="{up(v) + 4:.1f}" text-anchor="end">{v:g}</text>'
        for v in (0, 0.5, 1, 1.5)
    )
    ticks = "".join(
        f'<text x="{across(i):.1f}" y="{BOTTOM + 16}" text-anchor="middle">{round(i / STEPS * SECONDS)} s</text>'
        for i in range(0, STEPS + 1, STEPS // 4)
    )
    band = up(1 + SETTLED)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {BOTTOM + 24:g}">
<style>{STYLE}</style>
<rect x="{LEFT}" y="{band:.1f}" width="{WIDTH - LEFT - RIGHT}" height="{up(1 - SETTLED) - band:.1f}" class="band"/>
{grid}<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(1):.1f}" y2="{up(1):.1f}" class="target"/>
<polyline points="{path}" class="line"/>
<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{pushed(0):.1f}" y2="{pushed(0):.1f}" class="grid"/>
<text x="{LEFT - 8}" y="{pushed(0) + 4:.1f}" text-anchor="end">force</text>
<polyline points="{force}" class="force"/>{ticks}
</svg>"""
