"""What a supervisor tells of its run."""

import msgspec

from actorgraph.runtime.node_actor import NodeActorStatistics


class SupervisorStatistics(msgspec.Struct, frozen=True):
    """A run so far.

    Attributes:
        step: of the newest checkpoint. sent, durable: saves handed over and acknowledged.
        running: tasks running now. nodes: each node actor's figures.
    """

    step: int
    sent: int
    durable: int
    running: int
    nodes: dict[str, NodeActorStatistics]
