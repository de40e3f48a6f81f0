"""Start runs and apply updates: convert the requests of clients to what a system and graph take."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from actorgraph.errors import ActorGraphError
from actorgraph.runtime.log import event
from actorgraph.values.commands import Command, Send, StateUpdate
from actorgraph.web import bodies
from actorgraph.web.endpoint import ApiCall
from actorgraph.web.graphs import graph_of_thread
from actorgraph.web.problems import HttpProblem, Unprocessable
from actorgraph.web.registry import StoredThread
from actorgraph.web.standing import config_of


async def write_supersteps(
    call: ApiCall, thread: StoredThread, supersteps: Sequence[bodies.Superstep]
) -> None:
    """Create the state of a new thread: one checkpoint per superstep, all of them or none.

    Raises:
        NotFound: the thread's graph is unknown.
        Unprocessable: an update has values and a command, or the graph can't apply it.
    """
    graph = graph_of_thread(call, thread)
    steps = [[_update(one) for one in step.updates] for step in supersteps]
    with graph_errors_as_problems():
        await graph.abulk_update_state(config_of(thread.thread_id, {}), steps)


@contextmanager
def graph_errors_as_problems() -> Generator[None]:
    """Turn exceptions of the graph's code about a client's values into a 422.

    Raises:
        Unprocessable: a reducer, or other code of the graph that reads the values, failed.
    """
    try:
        yield
    except (ActorGraphError, HttpProblem, OSError):
        raise
    except Exception as error:
        event("warning", "web.update_failed", error=repr(error))
        text = f"the graph refused the values: {type(error).__name__}: {error}"
        raise Unprocessable(text) from error


def _update(said: bodies.SuperstepUpdate) -> StateUpdate:
    if said.command is None:
        return StateUpdate(said.values, said.as_node)
    if said.values is not None:
        raise Unprocessable("values and command can't be combined; send one of them")
    return StateUpdate(command_of(said.command), said.as_node)


def command_of(command: bodies.CommandBody) -> Command[Any]:
    """Convert a client's command."""
    said: dict[str, Any] = {}
    if command.answers:
        said["resume"] = command.resume
    if command.update is not None:
        said["update"] = command.update
    if command.goto is not None:
        goto = command.goto if isinstance(command.goto, list) else [command.goto]
        said["goto"] = [g if isinstance(g, str) else Send(g.node, g.input) for g in goto]
    return Command(**said)
