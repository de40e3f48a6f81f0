"""The mark of errors that refuse an answer: the question, which then waits again."""

from typing import Any

_INVALID_RESUME = "__actorgraph_invalid_resume__"


def mark_invalid_resume(error: BaseException, question: Any) -> None:
    """Mark an error as the refusal of the answer to a question."""
    setattr(error, _INVALID_RESUME, question)


def refused_question(error: BaseException) -> Any:
    """Read the question whose answer an error refuses; None for any other error."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(refused_question, error.exceptions)), None)
    return getattr(error, _INVALID_RESUME, None)


def is_invalid_resume(error: BaseException) -> bool:
    """Whether an error says that an answer doesn't match its question's `response_schema`.

    The answer is not stored, and the question can be answered again.
    """
    return refused_question(error) is not None
