"""Reading and changing a compiled graph's threads from outside a run."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from actorgraph.api import config as configs
from actorgraph.api import state as states
from actorgraph.api.compiled import CompiledBase, Config
from actorgraph.values.snapshot import StateSnapshot


class StateMethods(CompiledBase):
    """The methods that read and change a thread's state."""

    async def aget_state(self, config: Config, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread: the live view of its head, or the record of one checkpoint.

        Returns: an empty snapshot for an unknown thread.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            CheckpointNotFoundError: the config names a checkpoint that doesn't exist.
        """
        host = self._saver_host("get_state()")
        address = configs.address_of(config, needs_thread=True)
        return await states.read_state(host, self._codec, self.plan, address, config)

    def aget_state_history(
        self,
        config: Config,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """The thread's checkpoints as snapshots, newest first.

        Args:
            filter: metadata that must be equal, e.g. `{"source": "loop"}`.
            before: a config; only checkpoints older than the one it names.
            limit: how many at most; default all.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
        """
        host = self._saver_host("get_state_history()")
        address = configs.address_of(config, needs_thread=True)
        bound = configs.address_of(before, needs_thread=False).checkpoint if before else None
        return states.read_history(
            host,
            self._codec,
            self.plan,
            address,
            where=configs.where_of(filter),
            before=bound,
            limit=limit,
        )

    async def aupdate_state(
        self, config: Config, values: Any, as_node: str | None = None
    ) -> dict[str, Any]:
        """Change a thread's state as if a node had returned `values`.

        Args:
            config: the thread; with a checkpoint_id, a branch from that checkpoint.
            values: an update, folded by the same reducers as a node's.
            as_node: the node; its edges decide what runs next. Default the node that ran last,
                if that is clear; otherwise what was due stays due.
        Returns: a config that addresses the new checkpoint; it is durable.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            MissingNodeError, InvalidUpdateError: nothing was written.
            ConflictError: a run has the thread.
        """
        host = self._saver_host("update_state()")
        address = configs.address_of(config, needs_thread=True)
        return await states.write_update(
            host, self._codec, self.plan, address, values=values, as_node=as_node
        )
