"""The actors of one run that perform its tasks: one per node, one per function that tasks call."""

from collections.abc import Mapping, Sequence

from anyio.abc import TaskGroup

from actorgraph.plan.graph import NodePlan
from actorgraph.runtime.call_actor import CallActor
from actorgraph.runtime.called import Calls
from actorgraph.runtime.node_actor import NodeActor, NodeActorStatistics, Surroundings
from actorgraph.values.constants import CALL
from actorgraph.values.run import StartTask


class Actors:
    """Starts actors at their first task, and hands tasks to them.

    Args:
        nodes: by name. calls: knows the functions.
    """

    def __init__(self, nodes: Mapping[str, NodePlan], around: Surroundings, calls: Calls) -> None:
        self._nodes = nodes
        self._around = around
        self._calls = calls
        self._of_nodes: dict[str, NodeActor] = {}
        self._of_calls: dict[int, CallActor] = {}

    def assign(self, start: StartTask, group: TaskGroup) -> None:
        """Give a task to its actor. Never waits."""
        if start.task.path[-1] == CALL:
            self._of_function(self._calls[start.task.id].node, group).assign(start)
            return
        name = start.task.name
        actor = self._of_nodes.get(name)
        if actor is None:
            actor = self._of_nodes[name] = NodeActor(self._nodes[name], self._around, group)
            group.start_soon(actor.serve)
        actor.assign(start)

    def _of_function(self, node: NodePlan, group: TaskGroup) -> CallActor:
        actor = self._of_calls.get(id(node))  # an actor holds its node, so no other one has its id
        if actor is None:
            actor = self._of_calls[id(node)] = CallActor(node, self._around, group)
        return actor

    def cancel(self, only: Sequence[str] = ()) -> None:
        """Stop every task, or only these calls; each one answers with an event."""
        for identifier in only:
            called = self._calls.get(identifier)
            if called is not None and id(called.node) in self._of_calls:
                self._of_calls[id(called.node)].stop_call(identifier)
        if not only:
            for actor in (*self._of_nodes.values(), *self._of_calls.values()):
                actor.cancel()

    def stop(self) -> None:
        """End once idle."""
        for actor in self._of_nodes.values():
            actor.stop()

    def statistics(self) -> dict[str, NodeActorStatistics]:
        """Each actor's figures; those of functions under `name()`."""
        found = {name: actor.statistics() for name, actor in self._of_nodes.items()}
        for actor in self._of_calls.values():
            found[f"{actor.name}()"] = actor.statistics()
        return found
