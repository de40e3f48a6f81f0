"""Graphs of the tests of alarms: one sleeps, asks with reminders, and goes round; one charges.

Their nodes, and the function that is called when a question reminds, say what they do to a `Told`,
outside of every store: in a list, or in a file that several processes add to.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from operator import add
from typing import Annotated, Any, NamedTuple, Protocol, TypedDict

import anyio

from actorgraph import END, START, Interrupt, StateGraph, astep, get_runtime, interrupt, sleep

OWN_ANSWER = "nobody"
ROUND = ("slept", f"asked {OWN_ANSWER}", "ended")
"""The log of a thread that nobody has answered, of each time that it goes round."""
STEPS = 8
"""Charges of a thread."""
CHARGE_S = 0.004
"""Between a charge and the record of it."""
MICROSECOND = timedelta(microseconds=1)


class Log(TypedDict, total=False):
    """`log` appends what each node did."""

    log: Annotated[list[str], add]


class Told(Protocol):
    """What happened: words, the first of which says what, and the second the thread."""

    def say(self, *words: object) -> None:
        """Add a line."""
        ...


class InMemory:
    """Lines in a list."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []

    def say(self, *words: object) -> None:
        """See `Told.say`."""
        self.lines.append([str(word) for word in words])


class InFile:
    """Lines of a file, each by one `write`, so that those of several processes don't mix."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def say(self, *words: object) -> None:
        """See `Told.say`."""
        os.write(self._file, (" ".join(str(word) for word in words) + "\n").encode())


class Times(NamedTuple):
    """How long a thread sleeps, when its question reminds and is due, how often it goes round."""

    nap: timedelta
    remind: tuple[timedelta, ...]
    due: timedelta
    rounds: int = 1


def own_thread() -> str:
    """The thread of the node that calls this."""
    info = get_runtime().execution_info
    assert info is not None
    return str(info.thread_id)


def timed_graph(told: Told, times: Times, now: Callable[[], int]) -> Any:
    """Sleep, ask, end, and again.

    Args:
        told: of each node's begin, then of what comes after its wait, each with the number of the
            node in the thread's log and the time.
        now: the time, in microseconds since 1970-01-01 UTC.
    """

    def remind(question: Interrupt, how_often: int) -> None:
        told.say("reminds", *question.value.split(), how_often, now())

    async def slept(state: Log) -> dict[str, Any]:
        place = own_thread(), len(state.get("log", ()))
        told.say("sleeps", *place, now())
        await sleep(times.nap)
        told.say("woke", *place, now())
        return {"log": ["slept"]}

    def asked(state: Log) -> dict[str, Any]:
        place = own_thread(), len(state.get("log", ()))
        told.say("asks", *place, now())
        more = {"remind": times.remind, "escalate": remind} if times.remind else {}
        text = "{} {}".format(*place)
        answer = interrupt(text, due=times.due, otherwise=OWN_ANSWER, **more)
        told.say("answered", *place, answer, now())
        return {"log": [f"asked {answer}"]}

    async def ended(state: Log) -> dict[str, Any]:
        told.say("ends", own_thread(), len(state.get("log", ())))
        return {"log": ["ended"]}

    def again(state: Log) -> str:
        return END if len(state.get("log", ())) >= len(ROUND) * times.rounds else "slept"

    builder = StateGraph(Log).add_node(slept).add_node(asked).add_node(ended)
    for one, two in ((START, "slept"), ("slept", "asked"), ("asked", "ended")):
        builder.add_edge(one, two)
    return builder.add_conditional_edges("ended", again, ["slept", END]).compile()


def charging_graph(told: InFile, *, doubts: bool) -> Any:
    """A node that charges several times, by steps.

    Args:
        told: of each charge; it is where `doubt` looks them up.
        doubts: whether its steps have `doubt=`.
    """

    async def charges(_: Log) -> dict[str, Any]:
        thread = own_thread()

        async def one(number: int) -> str:
            async def charge() -> str:
                told.say("charge", thread, number)
                await anyio.sleep(CHARGE_S)
                return f"charged {number}"

            def find() -> str | None:
                with open(told.path, encoding="ascii") as file:  # noqa: PTH123 - a short one
                    found = f"charge {thread} {number}\n" in file
                return f"charged {number}" if found else None

            return await astep(f"charge {number}", charge, doubt=find if doubts else None)

        return {"log": [await one(number) for number in range(STEPS)]}

    return StateGraph(Log).add_node(charges).add_edge(START, "charges").compile()


def told_early(lines: list[list[str]], times: Times) -> int:
    """How often a thread has gone on, or reminded, before its time."""
    first: dict[tuple[str, ...], int] = {}
    found = 0
    for what, *words in lines:
        place = tuple(words[:2])
        if what in {"sleeps", "asks"}:
            first.setdefault(place, int(words[2]))
        after = {
            "woke": lambda: times.nap,
            "answered": lambda words=words: times.due if words[2] == OWN_ANSWER else None,
            "reminds": lambda words=words: times.remind[int(words[2]) - 1],
        }.get(what, lambda: None)()
        if after is not None:
            found += int(words[-1]) < first[place] + after // MICROSECOND
    return found
