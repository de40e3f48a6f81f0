"""Re-encryption of stored runs and their events, page by page."""

from actorgraph.codec import Codec
from actorgraph.codec.encryption import call_of, event_of
from actorgraph.errors import CheckpointError
from actorgraph.errors.storage import fails_every_request
from actorgraph.errors.texts import add_note
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.sizes import MB
from actorgraph.values.ids import as_text
from actorgraph.values.systems import EventRow, ListRuns, ReadEvents, RunRow, SealRun

PAGE_BYTES = 4 * MB
"""Bytes of stored events with which a page ends."""
RESEAL_PAGE = 500
"""Events that one transaction changes at most."""


async def reseal_runs(host: Host, codec: Codec, thread_id: str | None) -> list[CheckpointError]:
    """Re-encrypt runs and their events; running runs may store more events meanwhile.

    Args:
        thread_id: only the runs of this thread; None for all.
    Returns: one error for each run that can't be read with the codec's keys; its events stay as
        they are from the unreadable one on.
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
    # A run that can't be taken up again has no payload.
    payload = codec.reencrypt(row.payload, place, place) if row.payload else None
    after = 0
    while True:
        query = ReadEvents(row.run, row.thread_id, after, RESEAL_PAGE, bytes_max=PAGE_BYTES)
        events = query.cut(await host.reader.ask(query))
        sealed = tuple(_sealed(codec, row.run, event) for event in events)
        size = sum(len(event.payload) for event in sealed) + len(payload or b"")
        await host.writer.store(SealRun(row.run, row.thread_id, payload, sealed, size))
        if not events.is_full:
            return
        payload, after = None, events[-1].place


def _sealed(codec: Codec, run: bytes, event: EventRow) -> EventRow:
    place = event_of(run, event.place)
    return EventRow(event.place, event.created, codec.reencrypt(event.payload, place, place))
