"""The supervisor: the loop around `advance`. One per run; the only owner of the run's state.

Receives   events: from node actors, from the persistence actor, and requests to cancel
Sends      tasks to node actors, encoded saves to the persistence actor, chunks to the broadcast
Order      one event at a time, and its effects in the order in which the core gives them: a
           save is encoded before the next task starts
Ends       with the core's `Finish`. A cancellation from outside becomes an event: the run stops
           its tasks and stores their results under a shield, within a deadline
"""

import msgspec

from actorgraph.runtime.node_actor import NodeActorStatistics


class SupervisorStatistics(msgspec.Struct, frozen=True):
    """A run so far.

    Attributes:
        step: of the newest checkpoint.
        sent: saves handed over.
        durable: saves acknowledged.
        running: tasks running now.
        nodes: node name -> figures of its actor.
    """

    step: int
    sent: int
    durable: int
    running: int
    nodes: dict[str, NodeActorStatistics]
