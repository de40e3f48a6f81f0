"""A process that answers a question of a thread; another one answers it at the same moment.

The answer's converter holds the process between the check of its answer and the run that is stored:
it says "checked" and waits for a line on standard input. Then it says "won LOG", or "lost",
and why: "answered" or "busy"; and "ran NAME" whenever the question's node has got an answer.
"""

import sys
from dataclasses import dataclass
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import (
    START,
    ActorSystem,
    Codec,
    Command,
    PostgresSaver,
    SqliteSaver,
    StateGraph,
    ThreadBusyError,
    interrupt,
)
from actorgraph.errors import AlreadyResumedError
from tests.support.system_worker import say


class Answer:
    """The name of a process; a class that only a converter stores."""

    def __init__(self, by: str) -> None:
        self.by = by

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and other.by == self.by

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Log(TypedDict, total=False):
    log: Annotated[list[str], add]


@dataclass
class Hold:
    """Holds the first conversion of an answer, if it is due."""

    due: bool

    def __call__(self, answer: Answer) -> str:
        """Convert."""
        if self.due:
            self.due = False
            say("checked")
            sys.stdin.readline()
        return answer.by


def ask(state: Log) -> dict[str, Any]:
    """Ask who answers."""
    answer = interrupt("who?")
    say("ran", answer.by)
    return {"log": [answer.by]}


def answering(place: str, *, holds: bool = False) -> ActorSystem:
    """A system over a database: a file's path, or URL#SCHEMA."""
    codec = Codec(converters={Answer: (Hold(holds), Answer)})
    url, _, schema = place.partition("#")
    saver = (
        PostgresSaver(url, schema=schema, codec=codec)
        if schema
        else SqliteSaver(place, codec=codec)
    )
    graph = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").compile()
    return ActorSystem({"g": graph}, saver=saver)


async def main(place: str, name: str, question: str, if_busy: Any, form: str) -> None:
    """Answer the question of thread "t", by `answers` or by a strict "command"."""
    async with answering(place, holds=True) as system:
        try:
            if form == "answers":
                answers = {question: Answer(name)}
                run = await system.resume("g", "t", answers=answers, if_busy=if_busy)
            else:
                given = Command[Any](resume={question: Answer(name)})
                run = await system.resume("g", "t", given, if_busy=if_busy, strict_resume=True)
            done = await run.result()
        except AlreadyResumedError:
            say("lost", "answered")
        except ThreadBusyError:
            say("lost", "busy")
        else:
            say("won", *done["log"])


if __name__ == "__main__":
    from tests.support import answer_worker  # its Answer has the name that other processes know

    loop, at, who, asked, policy, how = sys.argv[1:]
    anyio.run(answer_worker.main, at, who, asked, policy, how, backend=loop)
