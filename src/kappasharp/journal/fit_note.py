"""What a model noted beside the question that it chose, `Asked.memo`: after how many answers that was.

The rest of a note is plain data too: `planning/next_question.py` writes it, `validation.py` checks it.
"""

from typing import Any


def noted_after(memo: Any) -> int | None:
    """How many answers there were when a model noted this; None where it does not say, as imports once allowed."""
    answers = memo.get("answers") if isinstance(memo, dict) else None
    return answers if isinstance(answers, int) else None
