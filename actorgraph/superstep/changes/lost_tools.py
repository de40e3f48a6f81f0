"""Tools that a node has no more, and whose questions wait: no tool would get an answer.

A node that runs tools answers a call of an unknown one by a message to the model. So the model's
mistakes don't end a run; but where the tool was there when the thread was stored and has asked a
person, the person's answer would be left out without a word.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from actorgraph.errors import InvalidUpdateError, did_you_mean
from actorgraph.plan.plan import Plan
from actorgraph.superstep.calls import step_id
from actorgraph.superstep.changes.stored_tasks import bare_state, stages_of
from actorgraph.superstep.pending_writes import attempts
from actorgraph.superstep.tasks import input_of
from actorgraph.values.checkpoint import Restored
from actorgraph.values.graph_changes import Finding, FindingKind
from actorgraph.values.run import Task


@runtime_checkable
class RunsTools(Protocol):
    """A node's object that runs the tools which a message calls."""

    def unknown_calls(self, input_value: Any) -> Sequence[tuple[str, str]]:
        """List the calls in a node's input that no tool answers: (key of the step, name)."""
        ...

    @property
    def tools_by_name(self) -> dict[str, Any]:
        """Name -> tool."""
        ...


def runs_tools(plan: Plan) -> bool:
    """Whether a node of the graph runs tools."""
    return any(isinstance(node.bound, RunsTools) for node in plan.nodes.values())


def lost_tools(plan: Plan, restored: Restored) -> Iterator[Finding]:
    """Find the calls of tools that the graph lacks, in tasks that have asked a person.

    Calls that have ended are left out: their results are stored, and they don't run again.
    """
    known = attempts(restored.ledger)
    asking = {
        task
        for task, attempt in known.items()
        if attempt.writes is None and (attempt.interrupts or attempt.answers or attempt.routed)
    }
    if not asking or not runs_tools(plan):
        return
    with suppress(Exception):  # such a key has its own finding
        for state, tasks in stages_of(bare_state(plan, restored), restored.ledger):
            for task in tasks:
                node = plan.nodes[task.name].bound if task.id in asking else None
                if not isinstance(node, RunsTools):
                    continue
                with suppress(InvalidUpdateError):  # the run refuses its input
                    for key, name in node.unknown_calls(input_of(state, task)):
                        if step_id(task, key) not in known:
                            yield _lost(plan, task, name, node, restored.namespace)


def _lost(plan: Plan, task: Task, name: str, node: RunsTools, namespace: str) -> Finding:
    return Finding(
        FindingKind.TOOL,
        name,
        f"has an unfinished call of tool {name!r} in node {task.name!r}, which waits for a person",
        f"which the node in graph {plan.title!r} doesn't have",
        "",
        lost_tool_advice(name, list(node.tools_by_name)),
        namespace,
    )


def lost_tool_advice(name: str, tools: Sequence[str]) -> str:
    """Say what to do about a tool whose answered call can't go on."""
    return (
        f"{did_you_mean(name, tools)}; give the node a tool named {name!r} until such threads have "
        "gone on (a renamed one under both names); or go on with the program that stored it"
    )
