"""The threads of a batch over a compiled graph: they are looked at, and run by `ainvoke`."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import msgspec

from actorgraph.api import config as configs
from actorgraph.api.batches.batch_options import BatchPlan, ReadChunk
from actorgraph.api.batches.batch_work import ENDS_ALL, BatchEntry, BatchThreads, ThreadLook
from actorgraph.api.options import InvokeOptions
from actorgraph.api.streams.formats import result_of
from actorgraph.bridging import BRIDGE
from actorgraph.codec.digests import digest_of, opened_digest, sealed_digest
from actorgraph.errors import ConflictError
from actorgraph.rules.thread_batches import ThreadFacts
from actorgraph.superstep.untracked import storable_update
from actorgraph.values.configs import Config
from actorgraph.values.policies import StreamMode
from actorgraph.values.state_snapshot import StateSnapshot

BATCH = "batch"
"""The key in the metadata of checkpoints for the name of their batch."""
MARK = "batch_input"
"""The key in the metadata of checkpoints for the digest of the input of their batch."""


class BatchCall(msgspec.Struct, frozen=True):
    """The arguments of each run of a batch.

    Attributes:
        options: as for `ainvoke`.
        config: of the caller; without a thread.
        on_chunk: gets the chunks, if any.
        stream_mode: of these chunks.
    """

    options: dict[str, Any]
    config: Mapping[str, Any]
    on_chunk: ReadChunk | None
    stream_mode: StreamMode | Sequence[StreamMode]

    @classmethod
    def of(cls, given: Mapping[str, Any], options: dict[str, Any]) -> "BatchCall":
        """Make them of the arguments of `map`.

        Args:
            given: all of them.
            options: those of each run.
        """
        config = configs.gathered(given.get("config"))
        return cls(options, config, given.get("on_chunk"), given.get("stream_mode", "updates"))

    @property
    def modes(self) -> tuple[StreamMode, ...]:
        """The stream modes that a run needs."""
        if self.on_chunk is None:
            return ()
        given = self.stream_mode
        return (given,) if isinstance(given, str) else tuple(given)

    def config_of(self, thread_id: str, metadata: Mapping[str, str]) -> dict[str, Any]:
        """The config of one run, with the metadata of its batch."""
        place = {**(self.config.get("configurable") or {}), "thread_id": thread_id}
        stored = {**(self.config.get("metadata") or {}), **metadata}
        return {**self.config, "configurable": place, "metadata": stored}


class GraphThreads(BatchThreads):
    """The threads of a batch in the saver of a graph.

    Args:
        graph: the compiled graph; it has a saver.
        plan: of the batch.
        call: the arguments of each run.
    """

    def __init__(self, graph: Any, plan: BatchPlan, call: BatchCall) -> None:
        self.graph = graph
        self.name = plan.name
        self.call = call

    def entry(self, place: int, key: str, given: Any) -> BatchEntry:
        """See `BatchThreads.entry`."""
        thread_id = f"{self.name}:{key}"
        configs.address_of({"configurable": {"thread_id": thread_id}}, needs_thread=True)
        stored = storable_update(self.graph.plan.untracked, BRIDGE.adapt_input(given))
        return BatchEntry(place, key, thread_id, given, digest_of(self.graph.codec, stored))

    async def look(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadLook | Exception]:
        """See `BatchThreads.look`."""
        found: dict[str, ThreadLook | Exception] = {}

        async def look_at(thread_id: str) -> None:
            try:
                found[thread_id] = await self._look_at(thread_id)
            except ENDS_ALL:
                raise
            except Exception as error:  # noqa: BLE001 - of this thread alone, such as a damaged row
                found[thread_id] = error

        if len(thread_ids) == 1:
            await look_at(thread_ids[0])
            return found
        async with anyio.create_task_group() as group:  # together they are few transactions
            for thread_id in thread_ids:
                group.start_soon(look_at, thread_id)
        return found

    async def _look_at(self, thread_id: str) -> ThreadLook:
        config = {"configurable": {"thread_id": thread_id}}
        snapshot: StateSnapshot = await self.graph.aget_state(config)
        if snapshot.created_at is None:
            return ThreadLook(ThreadFacts())
        mark = self._mark_in(snapshot.metadata)
        if mark is None:  # a person has answered, or has changed its state, after the batch
            older = self.graph.aget_state_history(config, filter={BATCH: self.name}, limit=1)
            async for one in older:
                mark = self._mark_in(one.metadata)
        facts = ThreadFacts(
            exists=True,
            left=bool(snapshot.next),
            failed=snapshot.error is not None,
            stuck=snapshot.is_stuck,
            questions=len(snapshot.interrupts),
        )
        return ThreadLook(
            facts,
            mark=mark,
            output=self._output(snapshot.values),
            questions=snapshot.interrupts,
            error=snapshot.error or "",
        )

    def _mark_in(self, metadata: Mapping[str, Any] | None) -> str | None:
        stored = metadata or {}
        if stored.get(BATCH) != self.name or not isinstance(stored.get(MARK), str):
            return None
        return opened_digest(self.graph.codec, stored[MARK])

    def _output(self, values: Any) -> Any:
        """Return the output of a thread from its state."""
        plan, keys = self.graph.plan, self.call.options.get("output_keys")
        if isinstance(values, dict) and not isinstance(keys, str):
            if keys is None and plan.bare_output:
                return values.get(plan.output_keys[0])
            shown = plan.output_keys if keys is None else keys
            values = {key: values[key] for key in shown if key in values}
        return result_of(plan, (values, None), keys, "v2").value

    def config_of(self, entry: BatchEntry, mark: str) -> dict[str, Any]:
        """The config of a thread's run."""
        sealed = sealed_digest(self.graph.codec, mark)
        return self.call.config_of(entry.thread_id, {BATCH: self.name, MARK: sealed})

    async def run(self, entry: BatchEntry, given: Any, mark: str) -> ThreadLook:
        """See `BatchThreads.run`."""
        config = self.config_of(entry, mark)
        if self.call.on_chunk is not None:
            await self._stream(entry, given, config, self.call.on_chunk)
            return await self._look_at(entry.thread_id)
        options: InvokeOptions = self.call.options  # type: ignore[assignment]
        ended = await self.graph.ainvoke(given, config, version="v2", **options)
        facts = ThreadFacts(
            exists=True, left=bool(ended.interrupts), questions=len(ended.interrupts)
        )
        return ThreadLook(facts, mark=mark, output=ended.value, questions=ended.interrupts)

    async def _stream(
        self, entry: BatchEntry, given: Any, config: Config, on_chunk: ReadChunk
    ) -> None:
        modes = list(self.call.modes)
        options = {name: v for name, v in self.call.options.items() if name != "output_keys"}
        async with self.graph.astream(given, config, stream_mode=modes, **options) as stream:
            async for mode, chunk in stream:
                on_chunk(entry.key, mode, chunk)

    async def copy_head(self, thread_id: str) -> None:
        """See `BatchThreads.copy_head`."""
        config = {"configurable": {"thread_id": thread_id}}
        await self.graph.aupdate_state(config, None, "__copy__")

    async def await_run(self, thread_id: str) -> bool:
        """Never called: without a system a thread's runs are not known before they conflict."""
        raise ConflictError(
            f"thread {thread_id!r} has a run", do="run the batch again when that has ended"
        )
