"""Under the key that encrypts now: what an ActorSystem has stored of its runs, and their events."""

from actorgraph.codec import Codec
from actorgraph.codec.places import call_of, event_of
from actorgraph.errors import CheckpointError
from actorgraph.errors.storage import fails_every_request
from actorgraph.errors.telling import add_note
from actorgraph.runtime.hosting import Host
from actorgraph.values.ids import as_text
from actorgraph.values.systems import EventRow, ListRuns, ReadEvents, RunRow, SealRun

PAGE = 500
"""Events that are changed in one transaction at most."""


async def reseal_runs(host: Host, codec: Codec, thread_id: str | None) -> list[CheckpointError]:
    """Seal each run and its events anew; a run that goes on may store more meanwhile.

    Args:
        thread_id: only the runs of this thread; None for all.
    Returns: for each run that can't be read with the codec's keys why; it stays as it is from
        there on.
    Raises:
        StorageError: the saver can't be used.
    """
    rows: list[RunRow] = await host.reader.ask(ListRuns(thread_id=thread_id))
    failed: list[CheckpointError] = []
    for row in rows:
        try:
            await _reseal(host, codec, row)
        except CheckpointError as error:
            if fails_every_request(error):
                raise
            add_note(error, f"run {as_text(row.run)} of thread {row.thread_id!r} stays as it is")
            failed.append(error)
    return failed


async def _reseal(host: Host, codec: Codec, row: RunRow) -> None:
    place = call_of(row.run)
    # A run that nobody can take up again has no payload.
    payload = codec.reencrypt(row.payload, place, place) if row.payload else None
    after = 0
    while True:
        query = ReadEvents(row.run, row.thread_id, after, PAGE)
        events: list[EventRow] = await host.reader.ask(query)
        made = tuple(_sealed(codec, row.run, event) for event in events)
        size = sum(len(event.payload) for event in made) + len(payload or b"")
        await host.writer.store(SealRun(row.run, row.thread_id, payload, made, size))
        if len(events) < PAGE:
            return
        payload, after = None, events[-1].place


def _sealed(codec: Codec, run: bytes, event: EventRow) -> EventRow:
    place = event_of(run, event.place)
    return EventRow(event.place, event.created, codec.reencrypt(event.payload, place, place))
