"""The registry of assistants: named, versioned settings of registered graphs.

Each registered graph is an assistant itself, the system assistant, which has one version and can't
be changed. Others are items of the store, each with all of its versions.
"""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from actorgraph.internals import assistant_id
from actorgraph.web.http import bodies
from actorgraph.web.http.identity import stored_settings, without_claims
from actorgraph.web.http.problems import Conflict, NotFound, TooMuch
from actorgraph.web.jobs.stored_items import ItemKind
from actorgraph.web.registries.thread_registry import BEGINNING, moment

VERSIONS_MAX = 1000
"""The most versions of one assistant: they are stored together."""


class VersionOfAssistant(Struct):
    """One version of an assistant.

    Attributes:
        version: counts from 1.
        graph_id: name of the registered graph.
        config: merged under the config of each of its runs.
        context: merged under the context of each of its runs.
        metadata: merged under the metadata of each of its runs; checked by the access rules.
        created_at: ISO 8601 UTC.
        note: which version of the graph `config` and `context` are of (`stored_bodies`); empty
            if an older version of the library wrote it.
    """

    version: int
    graph_id: str
    name: str
    description: str | None
    config: dict[str, Any]
    context: dict[str, Any]
    metadata: dict[str, Any]
    created_at: str
    note: dict[str, Any] = {}


class StoredAssistant(Struct):
    """An assistant and its versions.

    Attributes:
        latest: the version that runs use.
        versions: all of them, oldest first.
        created_at: ISO 8601 UTC.
        updated_at: ISO 8601 UTC.
        system: whether it is a registered graph, which clients can't change.
    """

    assistant_id: str
    latest: int
    versions: list[VersionOfAssistant]
    created_at: str
    updated_at: str
    system: bool = False

    @property
    def now(self) -> VersionOfAssistant:
        """The version that runs use."""
        newest = self.versions[-1]
        if newest.version == self.latest:
            return newest
        return next(one for one in self.versions if one.version == self.latest)

    def under(self, body: bodies.RunBody) -> bodies.RunBody:
        """Return the body of a run with the assistant's settings under those of the request."""
        now = self.now
        if self.system or not (now.config or now.context or now.metadata):
            return body
        config = msgspec.convert(stored_settings(now.config), bodies.ConfigBody)
        return replace(
            body,
            config=_merged(config, body.config),
            context={**without_claims(now.context), **(body.context or {})} or None,
            metadata={**without_claims(now.metadata), **(body.metadata or {})},
        )


def _merged(base: bodies.ConfigBody, over: bodies.ConfigBody | None) -> bodies.ConfigBody:
    over = over or bodies.ConfigBody()
    return bodies.ConfigBody(
        tags=[*(base.tags or ()), *(over.tags or ())] or None,
        recursion_limit=over.recursion_limit or base.recursion_limit,
        configurable={**(base.configurable or {}), **(over.configurable or {})} or None,
        metadata={**(base.metadata or {}), **(over.metadata or {})} or None,
    )


def of_graph(name: str) -> StoredAssistant:
    """Return the system assistant of a registered graph."""
    made_by = {"created_by": "system"}
    version = VersionOfAssistant(1, name, name, None, {}, {}, made_by, BEGINNING)
    return StoredAssistant(assistant_id(name), 1, [version], BEGINNING, BEGINNING, system=True)


class AssistantRegistry:
    """The stored assistants of one server.

    Args:
        store: keeps them.
    """

    def __init__(self, store: Any) -> None:
        self._items = ItemKind(store, "assistants", StoredAssistant, _check)
        self._turn = anyio.Lock(fast_acquire=True)

    async def get(self, identifier: str) -> StoredAssistant | None:
        """Return an assistant; None if it isn't stored or can't be read."""
        return await self._items.get(identifier)

    async def is_unreadable(self, identifier: str) -> bool:
        """Whether an assistant is stored that can't be read."""
        return await self._items.get(identifier) is None and await self._items.has(identifier)

    async def all(self) -> list[StoredAssistant]:
        """Return all stored assistants that can be read."""
        return list((await self._items.all()).values())

    async def make(self, made: StoredAssistant) -> StoredAssistant | None:
        """Store a new assistant; returns the one that has its id already, if there is one.

        Raises:
            Conflict: an assistant that can't be read has its id.
        """
        async with self._turn:
            known = await self.get(made.assistant_id)
            if known is None and await self._items.has(made.assistant_id):
                raise Conflict(
                    f"assistant {made.assistant_id!r} is stored and can't be read; delete it first"
                )
            if known is None:
                await self._put(made)
            return known

    async def add_version(
        self,
        identifier: str,
        changes: Mapping[str, Any],
        metadata: Mapping[str, Any],
        check: Callable[[VersionOfAssistant, VersionOfAssistant], None],
    ) -> StoredAssistant:
        """Add a version, made of the latest one and changes; runs use it from now on.

        Args:
            changes: field -> new value.
            metadata: merged into the latest version's.
            check: called with the new version and the one before; raises to refuse it.
        Raises:
            NotFound: it was removed meanwhile.
            TooMuch: it has too many versions.
        """
        async with self._turn:
            known = await self._known(identifier)
            if len(known.versions) >= VERSIONS_MAX:
                raise TooMuch(
                    f"assistant {identifier!r} has {VERSIONS_MAX} versions; make another assistant",
                    limit="assistant_versions",
                )
            number, when = known.versions[-1].version + 1, moment()
            merged = {**known.now.metadata, **metadata}
            made = replace(known.now, **changes, metadata=merged, version=number, created_at=when)
            check(made, known.now)
            versions = [*known.versions, made]
            return await self._put(
                replace(known, latest=number, versions=versions, updated_at=when)
            )

    async def use_version(self, identifier: str, version: int) -> StoredAssistant:
        """Let runs use a version.

        Raises:
            NotFound: the assistant or the version doesn't exist.
        """
        async with self._turn:
            known = await self._known(identifier)
            if version not in {one.version for one in known.versions}:
                raise NotFound(f"version {version} of assistant {identifier!r} not found")
            return await self._put(replace(known, latest=version, updated_at=moment()))

    async def remove(self, identifier: str) -> None:
        """Remove an assistant with all versions."""
        async with self._turn:
            await self._items.remove(identifier)

    async def _known(self, identifier: str) -> StoredAssistant:
        known = await self.get(identifier)
        if known is None:
            raise missing(identifier)
        return known

    async def _put(self, made: StoredAssistant) -> StoredAssistant:
        await self._items.put(made.assistant_id, made)
        return made


def _check(stored: StoredAssistant) -> None:
    """Raise an error if runs could not use an assistant."""
    if stored.latest not in {one.version for one in stored.versions}:
        msg = f"assistant {stored.assistant_id!r} has no version {stored.latest}"
        raise ValueError(msg)
    msgspec.convert(stored_settings(stored.now.config), bodies.ConfigBody)


def missing(identifier: str) -> NotFound:
    """Make the problem of an assistant that doesn't exist, or that the caller may not see."""
    return NotFound(f"assistant {identifier!r} not found")
