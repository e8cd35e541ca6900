"""How much of the paper's correction is plain shrinkage of the MAP: python -m benchmarks.shrinkage.

On states of baseline runs (development problems, `pool_n6_k15`, 10, 25 and 40 questions), the corrected MAP is compared
with the plain one over the designs seen, both without their mean, since only differences of utility have a meaning.
The best single factor c minimises ‖f_corrected − c f_plain‖; what it explains is their squared correlation. And whether
the corrected MAP could come from a smaller output scale: the same with the MAP of a tempered prior of the same size.
"""

import torch

from kappasharp.algorithm import correction, loop
from kappasharp.correction import spectral
from kappasharp.inference.evidence import model_from
from kappasharp.lab import grid
from kappasharp.lab.experiment import parse
from kappasharp.lab.run import play
from kappasharp.problems.registry import DEVELOPMENT
from kappasharp.settings import METHODS, PRESETS

SEEDS, QUESTIONS = [5100, 5101, 5102, 5103], (10, 25, 40)
FACTORS = torch.logspace(-1, 3, 33, dtype=torch.float64)


def states(problem, preset):
    """A baseline run's states at some questions."""
    chosen = {"problems": [problem], "initializations": ["pool_n6_k15"], "methods": ["baseline"], "presets": [preset]}
    blocks = grid.blocks(parse("shrinkage", chosen | {"seeds": SEEDS, "queries": max(QUESTIONS)}))
    return [step.after for number, step in enumerate(play(blocks), start=1) if number in QUESTIONS]


def centred(f):
    """Without its mean over the designs."""
    return f - f.mean(-1, keepdim=True)


def explained(f, g):
    """The best factor c of g for f, and the squared correlation."""
    along = (f * g).sum(-1)
    return along / g.square().sum(-1), along.square() / (f.square().sum(-1) * g.square().sum(-1))


def tempered(model, fit, target):
    """The best squared correlation with the MAP of any smaller output scale."""
    best = torch.zeros(len(fit.X), dtype=torch.float64)
    for factor in FACTORS:
        shrunk = spectral.tempered(fit.K, fit.C, factor.expand(len(fit.X)))
        f = spectral.find_map(shrunk, fit.C, model.likelihood, fit.map.dual.z, fit.ties).f
        best = torch.maximum(best, explained(target, centred(f))[1])
    return best


def measure(preset):
    """Factor, share explained by it, and share explained by a smaller output scale, over all states."""
    model, found = model_from(PRESETS[preset]), []
    for problem in DEVELOPMENT:
        for state in states(problem, preset):
            fit = loop.learn(state).fit
            every = torch.ones(len(fit.X), dtype=torch.bool)
            moved = correction.correct(model, fit, METHODS["static"].correction, every)
            corrected, plain = centred(moved.map.f), centred(fit.map.f)
            factor, share = explained(corrected, plain)
            found.append(torch.stack([factor, share, tempered(model, fit, corrected)], -1)[moved.active])
    return torch.cat(found)


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    print(
        "| preset | states | factor c | explained by c | by a smaller output scale |\n| --- | --- | --- | --- | --- |"
    )
    for preset in ("paper", "modern"):
        found = measure(preset)
        low, middle, high = (found.quantile(q, 0) for q in (0.1, 0.5, 0.9))
        cells = (f"{m:.2f} ({a:.2f} to {b:.2f})" for a, m, b in zip(low, middle, high, strict=True))
        print(f"| `{preset}` | {len(found)} | {' | '.join(cells)} |", flush=True)
    print("\nMedian, and the range of the middle eight tenths.")


if __name__ == "__main__":
    main()
