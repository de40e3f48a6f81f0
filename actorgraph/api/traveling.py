"""Resume a thread from a checkpoint, retry it, or fork it."""

from typing import Any, Unpack, cast

from actorgraph.api import config as configs
from actorgraph.api.addresses import config_of
from actorgraph.api.compiled import AddressedGraph, Config
from actorgraph.api.forking import (
    ForkTarget,
    address_of_copy,
    copy_checkpoint,
    load_source,
    subgraph_states_before,
)
from actorgraph.api.inspecting import StateMethods
from actorgraph.api.options import CallOptions
from actorgraph.api.running import RunMethods
from actorgraph.codec import Codec
from actorgraph.errors import EmptyInputError
from actorgraph.ports import Saver
from actorgraph.runtime.hosting import host_of
from actorgraph.values.commands import Command
from actorgraph.values.commits import Commit
from actorgraph.values.ids import as_text
from actorgraph.values.targets import Latest, ResumeTarget


class ResumeMethods(RunMethods, StateMethods):
    """`aresume`, `aresume_from`, `aretry` and `afork_state`."""

    async def aresume_from(
        self,
        thread: Config | str,
        target: ResumeTarget,
        command: Command[Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Resume a thread from a checkpoint; from any but the newest, on a branch.

        Args:
            thread: its id or config.
            target: `Latest` or `ResumeTarget.checkpoint(id)`.
            command: an answer, an update or a route; None for none.
            options: as for `ainvoke`.
        Returns: as `ainvoke`.
        Raises: as `ainvoke`.
        """
        return await self.ainvoke(command, config_of(thread, None, target.checkpoint_id), **options)

    async def aresume(
        self,
        thread: Config | str,
        command: Command[Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Resume a thread from its newest checkpoint; see `aresume_from`."""
        return await self.aresume_from(thread, Latest, command, **options)

    async def aretry(self, thread: Config | str, **options: Unpack[CallOptions]) -> Any:
        """Run a failed thread's unfinished tasks again; finished ones are kept.

        If all have finished and folding their writes failed, all of them run again, on a copy of
        the checkpoint: nothing else could change the outcome. To change the state first, use
        `aupdate_state` and then this or `ainvoke(None, ...)`.

        Args:
            thread: its id or config.
            options: as for `ainvoke`.
        Raises:
            EmptyInputError: the thread has no pending task.
            Exception: as `ainvoke`.
        """
        config = config_of(thread)
        found = await self.aget_state(config)
        if not found.next:
            raise EmptyInputError(
                "there is nothing to retry: the thread has no pending task",
                do="read get_state(thread).failed_node; pass an input to start again",
            )
        if found.is_stuck:
            config = await self.aupdate_state(config, None, "__copy__")
        return await self.ainvoke(None, config, **options)

    async def afork_state(
        self,
        source: Config | str | None = None,
        target_thread_id: str | None = None,
        *,
        thread_id: str | None = None,
        checkpoint_id: str | None = None,
        saver: Saver | None = None,
    ) -> dict[str, Any]:
        """Copy a checkpoint's state to a new thread; its pending tasks are pending there too.

        The state that stateful subgraphs had by then is copied along. A subgraph that was in the
        middle of a run starts again, as its task does.

        Args:
            source: the thread, or one of its checkpoints: a config or an id.
            target_thread_id: a thread that has no checkpoint.
            thread_id: the source thread, instead of `source`.
            checkpoint_id: the source checkpoint, instead of one in `source`.
            saver: where to store the new thread, e.g. that of another compiled graph; default
                the graph's own.
        Returns: a config that addresses the new thread's first checkpoint: it has no parent, and
            `metadata["forked_from"]` holds its origin. The source stays as it is.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            CheckpointNotFoundError: the source doesn't exist.
            ConflictError: the target has checkpoints.
        """
        at = self._target("fork_state()", config_of(source, thread_id, checkpoint_id))
        target = {"configurable": {"thread_id": target_thread_id}}
        target_id = configs.address_of(target, needs_thread=True).thread_id
        found = await load_source(at)
        host = at.host if saver is None else host_of(saver)
        commits: list[Commit] = []
        sequence = found.restored.sequence if found.restored else 0
        for row in await subgraph_states_before(at, sequence):
            place = {"thread_id": at.address.thread_id, "checkpoint_ns": row.namespace}
            inner = self._target(
                "fork_state()", {"configurable": {**place, "checkpoint_id": as_text(row.row.id)}}
            )
            if inner.declared:
                to = ForkTarget(target_id, host, self._codec_at(inner, saver))
                commits.append(await copy_checkpoint(inner, await load_source(inner), to))
        # The root is stored last, as in the source, where subgraphs' states are older than it.
        commits.append(
            await copy_checkpoint(at, found, ForkTarget(target_id, host, self._codec_at(at, saver)))
        )
        await host.writer.store(*commits)
        return address_of_copy(commits[-1])

    def _codec_at(self, at: AddressedGraph, saver: Saver | None) -> Codec:
        """Return the codec for the copy: that of the given saver, or of the source."""
        own = getattr(saver, "codec", None)
        return at.codec if own is None else cast("Codec", own).with_types(self.stored_types)
