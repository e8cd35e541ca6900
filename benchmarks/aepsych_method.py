"""AEPsych as an entrant of the common benchmark: a program that speaks its contract (docs/benchmark.md).

AEPsych pins other libraries than ours, so it has an environment of its own:

    python -m venv ENV
    ENV/bin/pip install aepsych==0.8.0
    kappasharp check-method --method-command "ENV/bin/python benchmarks/aepsych_method.py"
    kappasharp run pbo-1 --core --method-command "aepsych=ENV/bin/python benchmarks/aepsych_method.py" --out DIR

Model, acquisition and its search are those of AEPsych's own configuration for optimization by pairs:
`PairwiseProbitModel`, `qNoisyExpectedImprovement` of `ProbitObjective`, `OptimizeAcqfGenerator`, fitted anew at every
question, and for what it tells, which has the highest mean of those seen. It knows no ties: one counts for the first
design.
"""

import json
import os
import sys
import tempfile
import warnings

import torch

CONFIG = """
[common]
parnames = [{names}]
stimuli_per_trial = 2
outcome_types = [binary]
strategy_names = [asking]

[asking]
min_asks = 1000000
refit_every = 1
generator = OptimizeAcqfGenerator
model = PairwiseProbitModel

[OptimizeAcqfGenerator]
acqf = qNoisyExpectedImprovement

[qNoisyExpectedImprovement]
objective = ProbitObjective
"""
PARAMETER = "\n[{name}]\npar_type = continuous\nlower_bound = 0\nupper_bound = 1\n"


class Asker:
    """One run: AEPsych's strategy, and what it was told."""

    def __init__(self, dimensions, seed):
        from aepsych.config import Config  # noqa: PLC0415 - its own environment alone has it
        from aepsych.strategy import SequentialStrategy  # noqa: PLC0415

        torch.manual_seed(seed % 2**63)
        names = [f"x{number}" for number in range(dimensions)]
        text = CONFIG.format(names=", ".join(names)) + "".join(PARAMETER.format(name=name) for name in names)
        self.strategy = SequentialStrategy.from_config(Config(config_str=text))
        self.seen = torch.empty(0, dimensions, dtype=torch.float64)

    def tell(self, pair, answer):
        """One more comparison; 1 is the second design's in AEPsych too."""
        points = torch.tensor(pair, dtype=torch.float64)
        self.strategy.add_data(points.T.unsqueeze(0), torch.tensor([1.0 if answer == 1 else 0.0]))
        self.seen = torch.cat([self.seen, points])

    def ask(self):
        """The next pair (2, d)."""
        return self.strategy.gen()[0].T.clamp(0.0, 1.0).tolist()

    def best(self):
        """Of the designs seen that with the highest posterior mean."""
        if not len(self.seen):
            return None
        self.strategy.fit()
        mean, _ = self.strategy.model.predict(self.seen, rereference=None)
        return self.seen[int(mean.argmax())].tolist()


def reply(state, message):
    """What one line is answered with."""
    if message["do"] == "begin":
        state["asker"] = Asker(message["dimensions"], message["seed"])
        return {}
    if message["do"] == "tell":
        state["asker"].tell(message["pair"], message["answer"])
        return {}
    if message["do"] == "ask":
        return {"pair": state["asker"].ask()}
    return {"design": state["asker"].best()}


def main():
    """Answer every line; what the library prints goes to the errors, and its log to a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        answer_lines()
        os.chdir(os.sep)


def answer_lines():
    """The contract, line by line."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    state = {}
    for line in sys.stdin:
        try:
            said = reply(state, json.loads(line))
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
