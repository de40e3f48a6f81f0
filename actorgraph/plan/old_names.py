"""Arguments under the names that they had in older versions of LangGraph.

Programs written for those still run: an old name is taken, with a warning that gives the new one.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from actorgraph.errors import OldNameWarning
from actorgraph.errors.warning_places import warn

P = ParamSpec("P")
T = TypeVar("T")


def old_names(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take some of its keyword arguments by their old names, too.

    Args:
        names: old name -> the parameter's name. An argument under the latter wins, unless it is
            None.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def renamed(*args: P.args, **given: P.kwargs) -> T:
            for old in names.keys() & given.keys():
                now, value = names[old], given.pop(old)
                warn(
                    f"{old}= is an old name of {now}=\n  Do this: pass {now}=",
                    OldNameWarning,
                )
                if given.get(now) is None:
                    given[now] = value
            return function(*args, **given)

        return renamed

    return decorate
