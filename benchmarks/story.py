"""The figure of docs/results/what-wins.md: best utility against questions, on the paper's eleven problems.

python -m benchmarks.story          # reads the packed runs in docs/results/what-wins, writes story.png beside them
"""

from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D

from benchmarks.what_wins import rows_of
from kappasharp.lab.analysis import style
from kappasharp.problems.registry import PROBLEMS

HERE = Path(__file__).parents[1] / "docs" / "results" / "what-wins"
# BoTorch has thirty seeds, so all lines have these: they are paired.
START, SEEDS = "pool_n6_k15", 30
# File, method, preset, words, colour, dashes.
LINES = (
    ("paper.parquet", "baseline", "paper", "the paper's baseline (our code)", style.PALE, "-"),
    ("paper.parquet", "adaptive", "paper", "the paper's Adaptive KS (our code)", style.BLUE, (0, (5, 1.5))),
    ("botorch.parquet", "botorch_0_18", "modern", "BoTorch 0.18.1", style.VERMILLION, (0, (1.5, 1.2))),
    ("confirmation.parquet", "baseline", "modern", "ours: modern, the default", style.INK, "-"),
    ("confirmation.parquet", "baseline", "local", "ours: local", style.GREEN, (0, (6, 1.5, 1.5, 1.5))),
)


def curves(file, method, preset):
    """Best utility (runs, questions + 1) by problem."""
    found = {}
    for row in rows_of(HERE / file):
        chosen = (row["method"], row["preset"], row["initialization"]) == (method, preset, START)
        if chosen and row["seed"] < SEEDS:
            found.setdefault(row["problem"], []).append(row["best_utility"])
    return {problem: np.array(values) for problem, values in found.items()}


def main():
    handles = [Line2D([], [], color=colour, ls=dashes, label=words) for _, _, _, words, colour, dashes in LINES]
    title = "Best utility seen against questions: mean of 30 runs with equal starts, and its 95 % interval"
    figure, axes = style.canvas((4, 3), (9.0, 10.0), title, handles)
    data = [(curves(file, method, preset), colour, dashes) for file, method, preset, _, colour, dashes in LINES]
    for axis, problem in zip(axes.flat, PROBLEMS, strict=False):
        for found, colour, dashes in data:
            if problem not in found:
                continue
            values = found[problem]
            mean, error = values.mean(0), 1.96 * values.std(0, ddof=1) / np.sqrt(len(values))
            steps = np.arange(values.shape[1])
            axis.plot(steps, mean, color=colour, ls=dashes, lw=1.4)
            axis.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.12, lw=0)
        axis.set_title(problem, loc="left", fontsize=style.LABEL)
        axis.tick_params(labelsize=style.SMALL)
    for axis in axes.flat[len(PROBLEMS) :]:
        axis.set_axis_off()
    figure.savefig(HERE / "story.png", dpi=style.DOTS_PER_INCH)


if __name__ == "__main__":
    main()
