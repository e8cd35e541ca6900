"""What the recorded studies name: a function of outcomes, a picture of a design, a program that judges."""

import json
import sys
from typing import Any

Design = dict[str, Any]


def simulate(design: Design) -> dict[str, float]:
    """Two outcomes that disagree about `kp`."""
    return {
        "overshoot": 0.25 * max(design["kp"] - 0.5, 0.0) + 0.1 * design["ki"],
        "settling": 3.0 / (0.3 + design["kp"]) + 0.2 * design["ki"],
    }


def render(design: Design) -> str:
    """A small picture that says which design it is of; a page where its mode is hard."""
    words = ", ".join(f"{name} {value}" for name, value in design.items())
    if design.get("mode") == "hard":
        return f"<!doctype html><title>{words}</title><p>{words}</p>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><title>{words}</title><circle r="4"/></svg>'


def utility(design: Design) -> float:
    """The hidden taste behind every recorded answer: a hill over all numbers, and for words their length."""
    total = 0.0
    for place, (name, value) in enumerate(sorted(design.items())):
        if isinstance(value, str):
            total += 0.1 * len(value)
        elif not isinstance(value, bool):
            total -= (float(value) - 0.3 * (place + 1)) ** 2 / (1.0 + len(name))
    return total


if __name__ == "__main__":
    values = [utility(one["params"]) for one in json.load(sys.stdin)["designs"]]
    print("ab"[values.index(max(values))])
