"""How many designs a question has computed, and how long it takes, by parameters, kind and limits. (docs/outcomes.md)

python -m benchmarks.budgets            a function of ten milliseconds, whose budget is 64 designs a question
"""

import math
import time

import kappasharp as ks

NAME, QUESTIONS, FIRST = "benchmarks.budgets:slow", 9, 6
SPACES = {
    "whole numbers": {f"x{i}": ks.Int(1, 100) for i in range(4)},
    "numbers": {f"x{i}": (1.0, 100.0) for i in range(4)},
    "both": {"x0": ks.Int(1, 100), "x1": (1.0, 100.0), "x2": (1.0, 100.0), "x3": ks.Int(1, 100)},
}
KINDS = ("pair", "choice:4", "order:4", "slider")
LIMITS = {"none": [], "of an outcome": [ks.AtMost("far", 0.9)], "of parameters": ["x0 + x1 <= 150"]}


def slow(design):
    """Two outcomes, in ten milliseconds."""
    time.sleep(0.01)
    x = [value / 100.0 for value in design.values()]
    return {"far": sum((v - 0.3) ** 2 for v in x), "wave": math.sin(3.0 * x[0]) * x[1]}


def answer(question):
    """Who likes large numbers, and leaves sliders at two fifths."""
    utility = [sum(design.values()) for design in question.designs]
    order = sorted(range(len(utility)), key=lambda i: -utility[i])
    return {"pair": "abcd"[order[0]], "choice": order[0], "order": order, "slider": 0.4}[question.kind]


def asked(space, kind, limits):
    """Seconds and designs of each question."""
    study = ks.create_study(space, storage="sqlite://", seed=1, outcomes=NAME, question=kind, limits=limits)
    simulator, found = study.definition.simulator, []
    for _ in range(QUESTIONS):
        before, begin = simulator.computed, time.perf_counter()
        question = study.ask()
        found.append((time.perf_counter() - begin, simulator.computed - before))
        study.tell(question, answer(question))
    return found


def main():
    print("| parameters | question | limits | seconds, first | later | designs, first | later |")
    print("| --- | --- | --- |" + " ---: |" * 4)
    for name, space in SPACES.items():
        for kind in KINDS:
            if (name, kind) == ("whole numbers", "slider"):
                continue
            for limit, limits in LIMITS.items():
                found = asked(space, kind, limits)
                seconds, designs = (
                    [max(part) for part in (column[:FIRST], column[FIRST:])] for column in zip(*found, strict=True)
                )
                cells = [f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", f"{designs[0]}", f"{designs[1]}"]
                print(f"| {name} | {kind} | {limit} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
