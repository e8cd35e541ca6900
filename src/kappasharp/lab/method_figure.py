"""The method in one picture, computed: a comparison graph in two pieces, its Hessian, and the corrected one."""

from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from torch import Tensor

from kappasharp.core import comparisons, correction, kernel, laplace
from kappasharp.lab import style
from kappasharp.methods import fitting
from kappasharp.methods.registry import KAPPASHARP, PRESETS

# Six designs and four answers, winner first; x₅ and x₆ are close, so the prior knows most there.
POINTS = ((0.04, 0.62), (0.30, 0.97), (0.46, 0.58), (0.66, 0.02), (0.78, 0.40), (0.99, 0.30))
ANSWERS = ((1, 0), (1, 2), (4, 3), (5, 4))
LENGTHSCALE, OUTPUTSCALE = 0.3, 4.0
PRIOR, FIRST, SECOND, CORRECTION = style.BLUE, style.ORANGE, style.VERMILLION, style.GREEN
FULL = 0.96  # side of the largest square in its cell
NEGATIVE = 0.2  # share of colour in a negative number's square
SUBSCRIPTS = "₁₂₃₄₅₆"


class Example(NamedTuple):
    """All that is drawn, as the package computes it."""

    points: Tensor
    pairs: Tensor
    component: Tensor
    prior: Tensor
    likelihood: Tensor
    correction: Tensor
    strength: float
    condition_before: float
    condition_after: float


def example() -> Example:
    """Algorithm 1, lines 3 and 7 to 9, for the example with fixed hyperparameters, under preset `paper`."""
    model = PRESETS["paper"].model
    points = torch.tensor(POINTS, dtype=torch.float64)
    pairs = torch.tensor(ANSWERS)
    theta = torch.tensor([LENGTHSCALE, LENGTHSCALE, OUTPUTSCALE], dtype=torch.float64).log()
    C = comparisons.incidence(pairs, len(points))
    K = kernel.covariance(model.family, points, theta, model.nugget)
    omega = fitting.weights(model, laplace.find_map(K, C, model.likelihood), None)
    H_lik = comparisons.laplacian(C, omega)
    H, a, _ = correction.precision(K, H_lik)
    found = correction.calibrate(H, a, KAPPASHARP.target_exponent)
    return Example(
        points, pairs, comparisons.components(pairs, len(points)), H - H_lik, H_lik,
        correction.spread(KAPPASHARP.weights, found.eta, a),
        float(found.eta), float(found.kappa_before), float(found.kappa_after),
    )  # fmt: skip


def hero() -> Figure:
    """The graph, H = K⁻¹ + H_lik, and H + R: areas of squares are the sizes of the numbers. [fig:hero]"""
    shown = example()
    pieces = len(shown.component.unique())
    parts = (
        (PRIOR, "prior precision K⁻¹"),
        (FIRST, "likelihood, component 1"),
        (SECOND, "component 2"),
        (CORRECTION, "correction R"),
    )
    handles = [Line2D([], [], ls="", marker="s", ms=9, color=colour, label=label) for colour, label in parts]
    handles.append(
        Line2D([], [], ls="", marker="s", ms=8, mfc=_mix(style.INK, NEGATIVE), mec=style.INK, label="pale: negative")
    )
    title = f"{pieces} groups of designs that no answer links: the correction is strongest where the prior is weakest"
    figure, axes = style.canvas((1, 3), (style.WIDTH, 3.6), title, handles)
    graph, before, after = axes[0]
    _graph(graph, shown)
    _matrix(before, shown, corrected=False)
    _matrix(after, shown, corrected=True)
    rank = int(torch.linalg.matrix_rank(shown.likelihood))
    style.say(
        figure,
        f"{len(shown.points)} designs, {len(shown.pairs)} answers (arrows run from winner to loser), {pieces} "
        f"components: the likelihood's part has rank {rank} of {len(shown.points)} and nothing outside a component "
        "(shaded). Squares and rings have the area of their numbers, on one scale. Beside the rows: the diagonal's "
        "prior precision a and correction r.",
        f"RBF kernel, length scale {LENGTHSCALE}, output scale {OUTPUTSCALE:g}, preset paper; "
        f"η* = {shown.strength:.3g} brings κ from {shown.condition_before:.1f} to "
        f"{shown.condition_after:.1f} = κ(H)^{1 - KAPPASHARP.target_exponent:g}.",
    )
    return figure


def _graph(axis: Axes, shown: Example) -> None:
    colours = _component_colours(shown)
    for number, (winner, loser) in enumerate(shown.pairs.tolist()):
        axis.annotate(
            "", _xy(shown, loser), _xy(shown, winner), gid=f"arrow:{number}",
            arrowprops={"arrowstyle": "-|>", "color": colours[winner], "lw": 1.8, "shrinkA": 11, "shrinkB": 11},
        )  # fmt: skip
    for number, colour in enumerate(colours):
        x, y = _xy(shown, number)
        axis.plot([x], [y], "o", ms=20, mfc="white", mec=colour, mew=2, gid=f"design:{number}")
        axis.text(x, y, _name(number), ha="center", va="center", fontsize=style.LABEL, color=style.INK)
    axis.set(xlim=(-0.09, 1.09), ylim=(-0.09, 1.09), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axis.set_xlabel("first parameter", fontsize=style.SMALL, color=style.INK)
    axis.set_ylabel("second parameter", fontsize=style.SMALL, color=style.INK)
    axis.set_title("The comparison graph", loc="left", fontsize=style.LABEL + 1, color=style.INK)


def _matrix(axis: Axes, shown: Example, *, corrected: bool) -> None:
    n = len(shown.points)
    for row, column in np.ndindex(n, n):
        _nest(axis, shown, (row, column), corrected=corrected)
    apart = shown.component[:, None] != shown.component[None, :]
    axis.imshow(0.07 * apart.double().numpy(), cmap="Greys", vmin=0, vmax=1, zorder=-1)
    axis.set(xticks=range(n), yticks=range(n), xlim=(-0.55, n - 0.45), ylim=(n - 0.45, -0.55), aspect="equal")
    axis.set_xticklabels([_name(number) for number in range(n)])
    axis.set_yticklabels([_name(number) for number in range(n)])
    axis.grid(visible=False)
    axis.tick_params(length=0, pad=2)
    axis.spines[["left", "bottom"]].set_visible(False)
    sign, kappa = (
        ("$H + R$", shown.condition_after) if corrected else (r"$H = K^{-1} + H_\mathrm{lik}$", shown.condition_before)
    )
    axis.set_title(f"{sign},   κ = {kappa:.1f}", loc="left", fontsize=style.LABEL + 1, color=style.INK)
    letter, colour, values = ("r", CORRECTION, shown.correction) if corrected else ("a", PRIOR, shown.prior.diagonal())
    for number, value in enumerate(values.tolist()):
        text = f"{letter}{SUBSCRIPTS[number]} = {value:.3f}"
        axis.text(n - 0.4, number, text, va="center", fontsize=style.SMALL, color=colour, gid=f"{letter}:{number}")


def _nest(axis: Axes, shown: Example, at: tuple[int, int], *, corrected: bool) -> None:
    """A cell's numbers as areas: the prior's a square, the likelihood's the ring around it, the correction's on top."""
    prior, likelihood = float(shown.prior[at]), float(shown.likelihood[at])
    colour = _component_colours(shown)[at[0]]
    fade = 0.35 if corrected else 1.0
    parts = [("likelihood", colour, likelihood, abs(prior) + abs(likelihood)), ("prior", PRIOR, prior, abs(prior))]
    if corrected and at[0] == at[1]:
        parts.append(("correction", CORRECTION, r := float(shown.correction[at[0]]), r))
    largest = float((shown.prior + shown.likelihood).diagonal().max())
    for name, colour, value, area in (part for part in parts if part[2] != 0):
        side = FULL * (area / largest) ** 0.5
        share = fade if name != "correction" else 1.0
        patch = Rectangle(
            (at[1] - side / 2, at[0] - side / 2), side, side, gid=f"{name}:{at[0]}:{at[1]}",
            edgecolor=_mix(colour, share), facecolor=_mix(colour, share if value > 0 else share * NEGATIVE),
            linewidth=0.8 * (value < 0),
        )  # fmt: skip
        axis.add_patch(patch)


def _mix(colour: str, share: float) -> tuple[float, float, float]:
    """A share of the colour, the rest white."""
    red, green, blue = to_rgb(colour)
    return 1 - share * (1 - red), 1 - share * (1 - green), 1 - share * (1 - blue)


def _component_colours(shown: Example) -> list[str]:
    order = shown.component.unique().tolist()
    return [(FIRST, SECOND)[order.index(label)] for label in shown.component.tolist()]


def _xy(shown: Example, number: int) -> tuple[float, float]:
    return float(shown.points[number, 0]), float(shown.points[number, 1])


def _name(number: int) -> str:
    return "x" + SUBSCRIPTS[number]
