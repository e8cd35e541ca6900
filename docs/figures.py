"""The pictures of the documentation, from one command: `make figures`. Each is stamped with what made it."""

import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

import kappasharp as ks
from kappasharp.cli import demo
from kappasharp.problems import plasma, plasma_jet, step_response

OUT = Path(__file__).parent / "figures"
INK, WINNER, LOSER, PALE = "#1f2933", "#0b7a75", "#d1495b", "#9aa5b1"
QUESTIONS, SEED = 30, 1


def tuned(folder):
    """The demonstration's study, and the best hidden score after each answer."""
    study = demo.start(Path(folder), SEED)
    return study, [step.best_score for step in demo.tune(study, QUESTIONS)]


def landscape(axis, study):
    """What the answers taught: the posterior mean over two gains, the third at the best design's."""
    model, space = study.model(), study.space
    points = model.state.points[0]
    centre = points[model.surrogate.utility.argmax()]
    grid = torch.linspace(0, 1, 60, dtype=torch.float64)
    first, third = torch.meshgrid(grid, grid, indexing="xy")
    where = torch.stack([first, centre[1].expand_as(first), third], -1).reshape(-1, 3)
    mean = torch.cat([model.surrogate.posterior(part).mean for part in where.split(600)])
    gains = torch.stack([demo.gains_of(space.decode(point.tolist())) for point in where]).reshape(60, 60, 3)
    axis.contourf(gains[..., 0], gains[..., 2], mean.reshape(60, 60), levels=14, cmap="YlGnBu")
    for one in study.history.counted():
        winner, loser = (demo.gains_of(study.history.options[number]) for number in one.ordered)
        ends = torch.stack([loser, winner])
        axis.plot(ends[:, 0], ends[:, 2], color=INK, lw=0.7, alpha=0.5)
        axis.plot(*ends[0, [0, 2]], "o", ms=4, mfc="white", mec=LOSER, mew=1.1)
        axis.plot(*ends[1, [0, 2]], "o", ms=4, color=WINNER)
    best = demo.gains_of(study.best_params)
    axis.plot(best[0], best[2], "*", ms=16, color="#f2b134", mec=INK, mew=0.8)
    axis.set(xscale="log", yscale="log", xlabel="proportional gain", ylabel="derivative gain")
    axis.set_title("Every answer links two designs", loc="left", fontsize=11)


def responses(axis, study):
    """The step response of the first designs and of the one found."""
    time = torch.linspace(0, step_response.SECONDS, step_response.STEPS)
    for design in study.history.options[: 2 * study.definition.first_pairs]:
        axis.plot(time, demo.step_response(demo.gains_of(design))[0], color=PALE, lw=1)
    axis.plot(time, demo.step_response(demo.gains_of(study.best_params))[0], color=WINNER, lw=2.4)
    axis.axhline(1, color=INK, lw=0.6, ls=":")
    axis.set(xlabel="seconds", ylabel="position", ylim=(0, 2))
    axis.set_title("The first controllers, and the one found", loc="left", fontsize=11)


def progress(axis, best):
    axis.step(range(1, len(best) + 1), best, where="post", color=WINNER, lw=2)
    axis.set(xlabel="questions answered", ylabel="best hidden score so far")
    axis.set_title("Nobody ever said a number", loc="left", fontsize=11)


# Impatient and without brakes: a hot reference, no back-off, changes of the inputs cost nothing.
BAD_CONTROLLER = (2.0, -3.0, -3.0, -3.0, -2.0, -2.0, 2.0, -1.0, 46.0, 46.0, 46.0, 46.0, 0.0, 0.0, -1.0, 4.0)


def treatments():
    """One treatment of plasma-16d under a bad, a hand-tuned and the best controller found."""
    controllers = {"bad": BAD_CONTROLLER, "hand-tuned": plasma.HAND_TUNED, "best found": plasma.BEST_KNOWN}
    figure, axes = plt.subplots(4, 3, figsize=(12, 8), sharex=True, sharey="row")
    for column, (name, parameters) in enumerate(controllers.items()):
        treatment = plasma_jet.treat(parameters)
        costs = plasma_jet.score(treatment)
        top, power, flow, dose = axes[:, column]
        top.plot(treatment.seconds, treatment.temperature, color=INK, lw=1.1, label="measured")
        top.plot(treatment.seconds[1:], treatment.reference, color=WINNER, lw=1.1, ls="--", label="reference")
        top.axhline(plasma_jet.LIMIT, color=LOSER, lw=0.9, label="limit")
        power.step(treatment.seconds[:-1], treatment.power, where="post", color=INK, lw=1.1)
        flow.step(treatment.seconds[:-1], treatment.flow, where="post", color=INK, lw=1.1)
        dose.plot(treatment.seconds, treatment.dose, color=WINNER, lw=1.8)
        dose.axhline(plasma_jet.DOSE_TARGET, color=LOSER, lw=0.9)
        dose.set_xlabel("seconds")
        top.set_title(f"{name}: utility −{-plasma.weighed(*costs):.1f}", loc="left", fontsize=11)
        words = f"dose {costs.dose_tracking:.0f} · heat {costs.violation:.1f} · {costs.minutes:.2f} min"
        words += f" · chatter {costs.chatter:.0f}"
        dose.text(0.99, 0.06, words, transform=dose.transAxes, ha="right", fontsize=7.5, color=INK)
    axes[0, 0].legend(frameon=False, fontsize=7.5, loc="lower right", ncols=3)
    for axis, label in zip(
        axes[:, 0], ("temperature [°C]", "power [W]", "flow [slm]", "dose [min at 43 °C]"), strict=True
    ):
        axis.set_ylabel(label)
    save(
        figure,
        "plasma.png",
        f"kappasharp {ks.__version__}, plasma-16d version {plasma.PLASMA_16D.version}: make figures",
    )


def save(figure, name, stamp):
    figure.text(0.995, 0.005, stamp, ha="right", va="bottom", fontsize=6.5, color=PALE)
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(OUT / name, dpi=130, metadata={"Software": stamp})


def main():
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": INK})
    treatments()
    with tempfile.TemporaryDirectory() as folder:
        tuning(*tuned(folder))


def tuning(study, best):
    """The picture of the front page."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.7), width_ratios=[1.15, 1, 0.85])
    landscape(axes[0], study)
    responses(axes[1], study)
    progress(axes[2], best)
    stamp = f"kappasharp {ks.__version__}, {QUESTIONS} questions, baseline, modern, seed {SEED}: make figures"
    save(figure, "tuning.png", stamp)


if __name__ == "__main__":
    sys.exit(main())
