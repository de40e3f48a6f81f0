"""The `@task` calls of a stored superstep, by the paths of their rows: which of them are lost.

A call's result is claimed by the same call of its caller's next attempt. It is lost if no task of
the program has its name any more. Whether that is so is asked twice, by the same rule: of a stored
thread, by the check before a deployment; and at the end of each caller, where it is refused, as
some tasks are defined while a run goes on.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import dropwhile
from typing import NamedTuple

import msgspec

from actorgraph.errors import did_you_mean
from actorgraph.plan.plan import Plan
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.values.constants import CALL, HANDLER_MARK, PUSH
from actorgraph.values.run import Task, TaskPath, path_key

_OWN_PARTS = 3
"""Parts of a call's path behind its caller's: number, name, mark."""
_CALLER_PARTS_MIN = 2


class CallPlace(NamedTuple):
    """The place of a call.

    Attributes:
        caller: key of the caller's path.
        number: of the call.
        name: of the function.
    """

    caller: str
    number: int
    name: str


class StoredCall(msgspec.Struct, frozen=True):
    """A call that has stored something: its result, answers that it has used, calls in it.

    Attributes:
        chain: its place, behind those of the calls that it was made in.
        ended: whether its result is stored.
    """

    chain: tuple[CallPlace, ...]
    ended: bool


StoredCalls = Mapping[tuple[str, int], Mapping[str, StoredCall]]
"""Key of the caller's path and number of the call -> name of the function -> the call."""


class KnownTasks:
    """The names of a program's `@task`s: defined, or to be defined while a run goes on.

    Args:
        defined: those of this process.
        plan: of the graph whose functions may define more.
    """

    def __init__(self, defined: AbstractSet[str], plan: Plan) -> None:
        self.defined = defined
        self._plan = plan

    def __contains__(self, name: str) -> bool:
        """Whether a task has the name, or may get it."""
        return name in self.defined or name in self._plan.late_tasks


def stored_path(task: Task) -> TaskPath:
    """The path of a task as its rows have it."""
    return task.path if task.stored is None else task.stored.path


def stored_calls(known: Mapping[str, Attempt]) -> StoredCalls:
    """List the calls among stored attempts, by their places."""
    calls: dict[tuple[str, int], dict[str, StoredCall]] = {}
    for attempt in known.values():
        chain = call_chain(attempt.path) if attempt.writes or attempt.answers else ()
        for length, (caller, number, name) in enumerate(chain, 1):
            ended = length == len(chain) and bool(attempt.writes)
            place = calls.setdefault((caller, number), {})
            if ended or name not in place:
                place[name] = StoredCall(chain[:length], ended)
    return calls


def call_chain(path: TaskPath) -> tuple[CallPlace, ...]:
    """Read a call's path: its place, behind those of the calls around it; () for no call.

    A step's path (`calls.step_path`) has no number, but may have one of a Send or a handler there.
    """
    if not path or not str(path[-1]).endswith(CALL):
        return ()
    parts, calls = path_key(path).lstrip("~").split(", "), list[CallPlace]()
    while parts[-1] == CALL:
        caller, number = parts[1:-_OWN_PARTS], parts[-_OWN_PARTS]
        is_task = len(caller) >= _CALLER_PARTS_MIN and caller[-1] != HANDLER_MARK
        if parts[0] != PUSH or not is_task or not number.isdigit():
            return ()
        calls.append(CallPlace("~" + ", ".join(caller), int(number), parts[-2]))
        parts = caller
    return tuple(reversed(calls))


def lost_calls(stored: StoredCalls, plan: Plan, tasks: KnownTasks, caller: Task) -> Iterator[str]:
    """The names of stored calls of a caller, and of those made in them, that nothing can claim.

    A call in one that has ended isn't needed any more; one in a call that is dropped goes with it.
    """
    own = path_key(stored_path(caller))
    for call in [one for named in stored.values() for one in named.values()]:
        for place in dropwhile(lambda place: place.caller != own, call.chain):
            now = plan.renames.task(place.name)
            if now is None:
                break
            if now not in tasks:
                yield place.name
                break
            around = stored.get((place.caller, place.number), {}).get(place.name)
            if around is not None and around.ended:
                break


def lost_advice(name: str, tasks: Iterable[str]) -> tuple[str, str]:
    """Return the Migration that says what became of a task, and what to do in words."""
    cure = f"Migration(tasks={{{name!r}: 'its new name'}})"
    return cure, (
        f"{did_you_mean(name, sorted(tasks))}; @entrypoint(migrations=[{cure}]), or the same in "
        "compile(), None drops it; or go on with the program that stored it"
    )
