"""The other end of the contract: `python -m kappasharp.lab.external.server module:factory` answers JSON by the line.

Runs in the process of a method from outside. What the method prints goes to the errors, so that it cannot spoil the
answers; what it warns of is told with its next question.
"""

import importlib
import inspect
import json
import os
import random
import sys
import traceback
import warnings
from typing import IO, Any

from kappasharp.processes import end_with_parent

FUTURE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


class Speaker:
    """A method's object, which every `begin` makes anew, and what it warned of since its last question."""

    def __init__(self, factory: str) -> None:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` has it
        self.name = factory
        self.made: Any = None
        self.warned: list[str] = []

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to one message; an error is one too."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer: dict[str, Any] = getattr(self, f"_{message['do']}")(message)
            except Exception as error:  # whatever a method raises is told to the one who counts failures
                last = traceback.extract_tb(error.__traceback__)[-1]
                return {"error": f"{type(error).__name__}: {error}", "where": f"{last.filename}, line {last.lineno}"}
        # What a library says when it is imported, or of its own future, is no trouble of a run.
        said = [str(one.message) for one in caught if not issubclass(one.category, FUTURE)]
        self.warned += [] if message["do"] == "begin" else said
        if message["do"] == "ask" and self.warned:
            answer["warning"], self.warned = self.warned[0], []
        return answer

    def _begin(self, message: dict[str, Any]) -> dict[str, Any]:
        module, _, name = self.name.partition(":")
        factory = getattr(importlib.import_module(module), name)
        seed_globally(message["seed"])
        further = [message["problem"]] if "problem" in message else []
        self.made, self.warned = factory(message["dimensions"], message["seed"], *further), []
        lacking = [verb for verb in ("ask", "tell") if not callable(getattr(self.made, verb, None))]
        if lacking:
            raise TypeError(f"{self.name} must make an object with `ask` and `tell`, but its {lacking[0]} is missing")
        return {}

    def _tell(self, message: dict[str, Any]) -> dict[str, Any]:
        self.made.tell(message["pair"], message["answer"], **self._whose("tell", message))
        return {}

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"pair": [plain(design) for design in plain(self.made.ask(**self._whose("ask", message)))]}

    def _whose(self, verb: str, message: dict[str, Any]) -> dict[str, int]:
        """Whose turn it is, where several people answer, for a method that has a parameter `voter` for it."""
        if "voter" not in message or "voter" not in inspect.signature(getattr(self.made, verb)).parameters:
            return {}
        return {"voter": message["voter"]}

    def _best(self, _: dict[str, Any]) -> dict[str, Any]:
        told = self.made.best() if hasattr(self.made, "best") else None
        return {"design": plain(told)}


def seed_globally(seed: int) -> None:
    """Seed what the method may draw from without saying so: Python's generator, NumPy's and torch's if it has them."""
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


def plain(value: Any) -> Any:
    """Arrays and tensors as lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def speak(factory: str, asked: IO[str], answers: IO[str]) -> None:
    """Answer every line until there are no more."""
    speaker = Speaker(factory)
    for line in asked:
        answers.write(json.dumps(speaker.reply(json.loads(line)), default=plain) + "\n")
        answers.flush()


if __name__ == "__main__":
    end_with_parent()
    kept = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(kept, "w") as out:
        speak(sys.argv[1], sys.stdin, out)
