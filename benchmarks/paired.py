"""Packed runs compared seed by seed: which candidate gains how much over another, on which problems surely."""

from collections import defaultdict

import numpy as np
import pyarrow.parquet as pq
import torch

from kappasharp.lab.analysis.statistics import holm, paired_t

# Fewer pairs than this have no spread to speak of.
FEWEST = 3


def read(sources, keep=lambda row, source: True):
    """(method, preset) → problem → seed → row, of the rows to keep."""
    found = defaultdict(lambda: defaultdict(dict))
    for source in sources:
        for row in pq.read_table(source).to_pylist():
            if keep(row, source):
                found[row["method"], row["preset"]][row["problem"]][row["seed"]] = row
    return found


def at(row, measure, questions):
    """A measure after so many questions, of runs that keep every one; NaN where a run has none."""
    value = row[measure][questions - 1] if len(row[measure]) >= questions else None
    return np.nan if value is None else value


def shared(ours, theirs):
    """problem → the seeds that both have."""
    both = {problem: sorted(set(rows) & set(theirs.get(problem, {}))) for problem, rows in ours.items()}
    return {problem: seeds for problem, seeds in both.items() if seeds}


def gains(ours, theirs, value, other=None):
    """Standardised paired gain, p and mean gain of every problem; `value` and `other` read ours and theirs."""
    found = {}
    for problem, seeds in shared(ours, theirs).items():
        pairs = [(value(ours[problem][s]), (other or value)(theirs[problem][s])) for s in seeds]
        difference = np.array([a - b for a, b in pairs])
        if len(difference) < FEWEST or np.isnan(difference).any():
            continue
        _, p = paired_t(torch.zeros(len(difference), dtype=torch.float64), torch.from_numpy(difference))
        found[problem] = difference.mean() / max(difference.std(ddof=1), 1e-12), float(p), difference.mean()
    return found


def counts(found):
    """Wins and losses, plain and after Holm's correction over the problems."""
    p = np.array([one[1] for one in found.values()])
    sign = np.array([np.sign(one[2]) for one in found.values()])
    corrected = np.array(holm(p.tolist()))
    return [(int(((q < 0.05) & (sign > 0)).sum()), int(((q < 0.05) & (sign < 0)).sum())) for q in (p, corrected)]
