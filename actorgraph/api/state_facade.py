"""CompiledStateGraph: the compiled graph, with its sync API.

Its async methods are in `run`, `state` and `describe`, its construction is in `setup`. Here are
their blocking versions, changed copies of a graph, its cache, and its use in LangChain's chains.
"""

from collections.abc import Iterator
from typing import Any, cast, overload

from actorgraph.api.blocking import block_on
from actorgraph.api.compiled import Config
from actorgraph.api.pages import Pages
from actorgraph.api.traveling import ResumeMethods
from actorgraph.values.commands import Command
from actorgraph.values.snapshot import StateSnapshot
from actorgraph.values.targets import ResumeTarget


class BlockingStateMethods(ResumeMethods):
    """Blocking versions of the methods that read and change a thread."""

    @overload
    def get_state(
        self, config: Config, checkpoint_id: None = None, *, subgraphs: bool = False
    ) -> StateSnapshot: ...
    @overload
    def get_state(
        self, config: str, checkpoint_id: str | None = None, *, subgraphs: bool = False
    ) -> StateSnapshot | None: ...
    @overload
    def get_state(
        self, *, thread_id: str, checkpoint_id: str | None = None, subgraphs: bool = False
    ) -> StateSnapshot | None: ...
    def get_state(self, config: Any = None, checkpoint_id: Any = None, **options: Any) -> Any:
        """Blocking version of `aget_state`."""
        call: Any = self.aget_state
        return block_on("aget_state", lambda: call(config, checkpoint_id, **options))

    def get_state_history(
        self, config: Config | str | None = None, **options: Any
    ) -> Iterator[StateSnapshot]:
        """Blocking version of `aget_state_history`, with the same options.

        It blocks at the call and whenever a page is read.
        """

        async def begun() -> tuple[Pages[StateSnapshot], list[StateSnapshot]]:
            history = self.aget_state_history(config, **options)
            pages = cast("Pages[StateSnapshot]", history)
            return pages, await pages.page()

        pages, first = block_on("aget_state_history", begun)

        def rest() -> Iterator[StateSnapshot]:
            page = first
            while page:
                yield from page
                page = block_on("aget_state_history", pages.page)

        return rest()

    def update_state(
        self,
        config: Config | str | None = None,
        values: Any = None,
        as_node: str | None = None,
        task_id: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Blocking version of `aupdate_state`, with the same options."""
        return block_on(
            "aupdate_state",
            lambda: self.aupdate_state(config, values, as_node, task_id, **options),
        )

    def bulk_update_state(
        self, config: Config | str | None = None, supersteps: Any = (), **options: Any
    ) -> dict[str, Any]:
        """Blocking version of `abulk_update_state`, with the same options."""
        return block_on(
            "abulk_update_state", lambda: self.abulk_update_state(config, supersteps, **options)
        )

    def fork_state(
        self,
        source: Config | str | None = None,
        target_thread_id: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Blocking version of `afork_state`, with the same options."""
        return block_on(
            "afork_state", lambda: self.afork_state(source, target_thread_id, **options)
        )

    def resume_from(
        self,
        thread: Config | str,
        target: ResumeTarget,
        command: Command[Any] | None = None,
        **options: Any,
    ) -> Any:
        """Blocking version of `aresume_from`, with the same options."""
        return block_on(
            "aresume_from", lambda: self.aresume_from(thread, target, command, **options)
        )

    def resume(
        self, thread: Config | str, command: Command[Any] | None = None, **options: Any
    ) -> Any:
        """Blocking version of `aresume`, with the same options."""
        return block_on("aresume", lambda: self.aresume(thread, command, **options))

    def retry(self, thread: Config | str, **options: Any) -> Any:
        """Blocking version of `aretry`, with the same options."""
        return block_on("aretry", lambda: self.aretry(thread, **options))
