"""Checks that a saver has answered: a caller would wait for ever for an answer that is missing."""

from collections.abc import Sequence
from typing import Any

from actorgraph.errors import SaverBrokenError
from actorgraph.ports import Saver


def checked_answers(
    saver: Saver, method: str, asked: Sequence[Any], answers: Sequence[Any]
) -> Sequence[Any]:
    """Return the answers of a saver, if there is one for each query or request.

    Raises:
        SaverBrokenError: there are more or fewer, or it isn't a list.
    """
    some = isinstance(answers, (list, tuple))
    if some and len(answers) == len(asked):
        return answers
    returned = f"{len(answers)} answers" if some else type(answers).__name__
    one = getattr(saver, "saver", saver)
    raise SaverBrokenError(
        f"{type(one).__name__}.{method}() returned {returned} for {len(asked)} requests",
        do="return a list with one answer for each request, in order; "
        "`actorgraph.testing.check_saver` tests a saver",
    )
