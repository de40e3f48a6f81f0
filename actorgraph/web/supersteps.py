"""Commands and updates as clients write them, as those of a graph."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from actorgraph.errors import ActorGraphError
from actorgraph.runtime.log import event
from actorgraph.values.commands import Command, Send, StateUpdate
from actorgraph.web import bodies
from actorgraph.web.endpoint import Call
from actorgraph.web.graphs import graph_for
from actorgraph.web.problems import HttpProblem, Unprocessable
from actorgraph.web.registry import Stored
from actorgraph.web.standing import config_of


async def write_supersteps(
    call: Call, thread: Stored, supersteps: Sequence[bodies.Superstep]
) -> None:
    """Give a new thread its state: one checkpoint per superstep, all of them or none.

    Raises:
        NotFound: nobody has said which graph the thread is of.
        Unprocessable: an update has values and a command.
    """
    graph = graph_for(call, thread)
    steps = [[_update(one) for one in step.updates] for step in supersteps]
    with told_by_the_graph():
        await graph.abulk_update_state(config_of(thread.thread_id, {}), steps)


@contextmanager
def told_by_the_graph() -> Generator[None]:
    """What the graph's own code raises about a client's values is told to the client.

    Raises:
        Unprocessable: a reducer, or whatever else reads the values, has failed.
    """
    try:
        yield
    except (ActorGraphError, HttpProblem, OSError):
        raise
    except Exception as error:
        event("warning", "web.update_failed", error=repr(error))
        text = f"the graph can't take the values: {type(error).__name__}: {error}"
        raise Unprocessable(text) from error


def _update(said: bodies.SuperstepUpdate) -> StateUpdate:
    if said.command is None:
        return StateUpdate(said.values, said.as_node)
    if said.values is not None:
        raise Unprocessable("an update has values or a command, not both")
    return StateUpdate(command_of(said.command), said.as_node)


def command_of(command: bodies.CommandBody) -> Command[Any]:
    """A client's command."""
    said: dict[str, Any] = {}
    if command.answers:
        said["resume"] = command.resume
    if command.update is not None:
        said["update"] = command.update
    if command.goto is not None:
        goto = command.goto if isinstance(command.goto, list) else [command.goto]
        said["goto"] = [g if isinstance(g, str) else Send(g.node, g.input) for g in goto]
    return Command(**said)
