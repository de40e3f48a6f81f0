"""CompiledStateGraph: a compiled graph, assembled from its parts."""

from typing import Self

from actorgraph.api import config as configs
from actorgraph.api.batches import BatchMethods
from actorgraph.api.binding import BindingMethods
from actorgraph.api.caching import CacheMethods
from actorgraph.api.chaining import ChainMethods
from actorgraph.api.drawing import DrawingMethods
from actorgraph.api.eventing import EventMethods
from actorgraph.api.surface import DescriptionMethods
from actorgraph.values.policies import Durability, DurabilityMode


class CompiledStateGraph(
    ChainMethods,
    EventMethods,
    BatchMethods,
    BindingMethods,
    CacheMethods,
    DescriptionMethods,
    DrawingMethods,
):
    """A compiled graph: immutable, shared by any number of runs, threads and event loops.

    Made by `StateGraph.compile()`. With a checkpointer every call takes
    `config={"configurable": {"thread_id": ...}}`; other keys of `config`: `recursion_limit`
    (supersteps, default 10007), `max_concurrency` (tasks at once, default unbounded),
    `max_unsaved_steps` (async durability, default 16), `metadata` (stored with checkpoints).
    """

    def with_durability(self, mode: DurabilityMode) -> Self:
        """Return a copy of the graph with another default durability.

        Raises:
            InvalidConfigError: there is no such mode.
        """
        return self._changed(_durability=configs.durability_of(mode, Durability.SYNC))
