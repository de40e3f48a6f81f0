"""Read the timeline of a thread: which tasks ran, when, how often, and how each attempt ended."""

from actorgraph.api import config as configs
from actorgraph.api.config import config_of
from actorgraph.api.graph.setup import AddressedGraph, Config
from actorgraph.api.graph.state import StateMethods, decoded
from actorgraph.codec.records import decode_names
from actorgraph.superstep.timeline import timeline_tasks
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, StoredCheckpoint
from actorgraph.values.ids import as_text
from actorgraph.values.timeline import TimelineStep

STEPS = 100
"""Steps that a timeline has by default."""
PAGE_SIZE = 50


class TimelineMethods(StateMethods):
    """The timeline of a thread."""

    async def aget_timeline(
        self,
        config: Config | str | None = None,
        *,
        thread_id: str | None = None,
        before: Config | str | None = None,
        limit: int | None = STEPS,
    ) -> list[TimelineStep]:
        """Return a thread's supersteps, newest first, with the attempts of their tasks.

        A step without tasks and without a next node, such as that behind the last checkpoint, is
        left out. With durability "exit" only the steps that were stored are known.

        Args:
            config: the thread: its config or its id. One with a checkpoint_ns addresses a
                subgraph; one with a checkpoint_id names the one superstep that follows it.
            thread_id: the thread, instead of `config`.
            before: a config or a checkpoint id; only steps of older checkpoints.
            limit: the most checkpoints to read; None for all.
        Returns: steps; empty for an unknown thread.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            InvalidConfigError: an argument is invalid.
        """
        at = self.locate("get_timeline()", config_of(config, thread_id))
        rows = await _rows(at, configs.before_of(before), configs.limit_of(limit))
        steps = [timeline_step(at, stored) for stored in rows]
        return [step for step in steps if step.tasks or step.next]


async def _rows(
    at: AddressedGraph, before: bytes | None, limit: int | None
) -> list[StoredCheckpoint]:
    place, ask = at.address, at.host.reader.ask
    if place.checkpoint is not None:
        query = LoadCheckpoint(place.thread_id, place.namespace, place.checkpoint)
        found = (await ask(query)).checkpoint
        return [found] if found else []
    rows: list[StoredCheckpoint] = []
    after: tuple[bytes, str, int] | None = None
    while limit is None or len(rows) < limit:
        size = PAGE_SIZE if limit is None else min(limit - len(rows), PAGE_SIZE)
        query = ListCheckpoints(
            place.thread_id,
            place.namespace,
            None if after else before,
            limit=size,
            after=after,
        )
        page: list[StoredCheckpoint] = await ask(query)
        rows += page
        if len(page) < size:
            break
        after = (page[-1].row.id, page[-1].thread_id, page[-1].sequence)
    return rows


def timeline_step(at: AddressedGraph, stored: StoredCheckpoint) -> TimelineStep:
    """Make the step that follows a stored checkpoint."""
    row = stored.row
    return TimelineStep(
        step=row.step + 1,
        checkpoint_id=as_text(row.id),
        parent_id=as_text(row.parent) if row.parent else None,
        namespace=stored.namespace,
        source=row.source,
        run_id=as_text(row.run) if row.run else None,
        created=row.created,
        next=tuple(decode_names(row.next)),
        tasks=timeline_tasks(decoded(at.codec, stored)),
    )
