"""The actors that run the tasks of one run: one per node, one per `@task` function."""

from collections.abc import Mapping, Sequence

from anyio.abc import TaskGroup

from actorgraph.plan.graph import NodePlan
from actorgraph.runtime.call_actor import CallActor
from actorgraph.runtime.called import TaskCalls
from actorgraph.runtime.node_actor import NodeActor, NodeActorStatistics, RunEnvironment
from actorgraph.values.constants import CALL
from actorgraph.values.run import StartTask


class TaskActors:
    """Starts actors at their first task, and assigns tasks to them.

    Args:
        nodes: the graph's, by name.
        environment: of the run's tasks.
        calls: the run's `@task` calls.
    """

    def __init__(
        self, nodes: Mapping[str, NodePlan], environment: RunEnvironment, calls: TaskCalls
    ) -> None:
        self._nodes = nodes
        self._environment = environment
        self._calls = calls
        self._of_nodes: dict[str, NodeActor] = {}
        self._of_calls: dict[int, CallActor] = {}

    def assign(self, start: StartTask, group: TaskGroup) -> None:
        """Assign a task to its actor. Never waits."""
        if start.task.path[-1] == CALL:
            self._of_function(self._calls[start.task.id].node, group).assign(start)
            return
        name = start.task.name
        actor = self._of_nodes.get(name)
        if actor is None:
            actor = self._of_nodes[name] = NodeActor(self._nodes[name], self._environment, group)
            group.start_soon(actor.serve)
        actor.assign(start)

    def _of_function(self, node: NodePlan, group: TaskGroup) -> CallActor:
        actor = self._of_calls.get(id(node))  # an actor holds its node, so no other one has its id
        if actor is None:
            actor = self._of_calls[id(node)] = CallActor(node, self._environment, group)
        return actor

    def cancel(self, only: Sequence[str] = ()) -> None:
        """Stop all tasks, or only some calls; each sends its event.

        Args:
            only: ids of the calls; none for all tasks.
        """
        for identifier in only:
            called = self._calls.get(identifier)
            if called is not None and id(called.node) in self._of_calls:
                self._of_calls[id(called.node)].stop_call(identifier)
        if not only:
            for actor in (*self._of_nodes.values(), *self._of_calls.values()):
                actor.cancel()

    def stop(self) -> None:
        """End each actor once it is idle."""
        for actor in self._of_nodes.values():
            actor.stop()

    def statistics(self) -> dict[str, NodeActorStatistics]:
        """Figures of each actor, by node name; those of functions under `name()`."""
        found = {name: actor.statistics() for name, actor in self._of_nodes.items()}
        for actor in self._of_calls.values():
            found[f"{actor.name}()"] = actor.statistics()
        return found
