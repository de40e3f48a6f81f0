"""The state that all routes of one server share."""

from collections.abc import Mapping
from typing import Any, cast

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.system.system import ActorSystem
from actorgraph.web.access import Access
from actorgraph.web.readiness import Readiness
from actorgraph.web.request_limits import Limits, Rates, StreamSlots
from actorgraph.web.thread_registry import Registry, StoredThread, TemporaryThreads, find_thread


class Server:
    """A system that is served, with its rules and limits.

    Attributes:
        system: opened by the application.
        access: rules of authentication and authorization.
        limits: of requests.
        rates: token buckets of the clients.
        store: where threads are registered, and items of the store routes kept.
        threads: the registry of threads.
        streams: slots of open event streams.
        temporary: removes temporary threads after their runs.
        readiness: whether saver and store can be used.
    """

    def __init__(self, system: ActorSystem, access: Access, limits: Limits, store: Any) -> None:
        self.system = system
        self.access = access
        self.limits = limits
        self.rates = Rates(limits)
        self.store = store
        self.threads = Registry(store, self._found, self._begun if is_volatile(store) else None)
        self.streams = StreamSlots(limits.streams)
        self.temporary = TemporaryThreads(system, self.threads)
        self.readiness = Readiness(system, store)

    @property
    def saver(self) -> Any:
        """The system's saver; all savers that programs open have LangGraph's methods."""
        return self.system.saver

    @property
    def graphs(self) -> Mapping[str, CompiledStateGraph]:
        """Name -> registered graph."""
        return cast("Mapping[str, CompiledStateGraph]", self.system.graphs)

    async def _begun(self) -> list[str]:
        """Return the ids of threads that have stored runs."""
        return list(dict.fromkeys(run.thread_id for run in await self.system.runs()))

    async def _found(self, thread_id: str) -> StoredThread | None:
        return await find_thread(self.system, thread_id)


def is_volatile(store: Any) -> bool:
    """Whether a store loses its items when the process ends."""
    from actorgraph.stores import InMemoryStore

    return isinstance(store, InMemoryStore)
