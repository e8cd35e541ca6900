"""FitNote: what a fit leaves for the next one, and what views say of it."""

from typing import Any


def noted_after(memo: Any) -> int | None:
    """How many answers there were when a model noted this; None where it does not say, as imports once allowed."""
    answers = memo.get("answers") if isinstance(memo, dict) else None
    return answers if isinstance(answers, int) else None
