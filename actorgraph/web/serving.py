"""What all routes of one server share."""

from collections.abc import Mapping
from typing import Any, cast

from actorgraph.api.graph import CompiledStateGraph
from actorgraph.api.system import ActorSystem
from actorgraph.web.access import Access
from actorgraph.web.finding import found
from actorgraph.web.limits import Limits, Rates
from actorgraph.web.readiness import Readiness
from actorgraph.web.registry import Registry, Stored
from actorgraph.web.slots import Slots
from actorgraph.web.temporary import Temporary


class Serving:
    """A system and the rules under which it is served.

    Attributes:
        threads: what is known of threads beside their checkpoints.
        streams: places for event streams.
        temporary: the threads that go with their runs.
        readiness: whether saver and store can be used.
    """

    def __init__(self, system: ActorSystem, access: Access, limits: Limits, store: Any) -> None:
        self.system = system
        self.access = access
        self.limits = limits
        self.rates = Rates(limits)
        self.store = store
        self.threads = Registry(store, self._found, self._begun if forgets(store) else None)
        self.streams = Slots(limits.streams)
        self.temporary = Temporary(system, self.threads)
        self.readiness = Readiness(system, store)

    @property
    def saver(self) -> Any:
        """The system's saver: one with LangGraph's methods, as all that programs use are."""
        return self.system.saver

    @property
    def graphs(self) -> Mapping[str, CompiledStateGraph]:
        """The registered graphs by name."""
        return cast("Mapping[str, CompiledStateGraph]", self.system.graphs)

    async def _begun(self) -> list[str]:
        """The threads of which runs are stored."""
        return list(dict.fromkeys(run.thread_id for run in await self.system.runs()))

    async def _found(self, thread_id: str) -> Stored | None:
        return await found(self.system, thread_id)


def forgets(store: Any) -> bool:
    """Whether what a store has is gone with the process."""
    from actorgraph.stores import InMemoryStore

    return isinstance(store, InMemoryStore)
