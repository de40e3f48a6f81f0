"""Threads as JSON lines: one for the file, one for each checkpoint, and one that counts them.

Values are in the codec's JSON form, which is exact: tuples, bytes, dates and the program's own
types come back as they were. Runs of an ActorSystem, and their events, are not part of a thread.
"""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from actorgraph.checkpoints import CheckpointTuple
from actorgraph.cli.exit_codes import CommandError
from actorgraph.codec import Codec
from actorgraph.errors import CheckpointError
from actorgraph.internals import raise_located

FORMAT = 2
_WITHOUT_END = 1
"""Files of this format don't say how many lines they have."""


class FileHeading(msgspec.Struct, frozen=True):
    """The first line of a file."""

    actorgraph_threads: int


class FileEnd(msgspec.Struct, frozen=True):
    """The last line of a file: how many checkpoints it has."""

    actorgraph_checkpoints: int


class ExportedWrite(msgspec.Struct, frozen=True):
    """A pending write of a task."""

    task: str
    channel: str
    value: msgspec.Raw


class ExportedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint.

    Attributes:
        parent: its parent's id; None without one.
        values: channel -> value, in the codec's JSON form.
        writes: pending writes, in their order.
    """

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    values: dict[str, msgspec.Raw]
    writes: tuple[ExportedWrite, ...] = ()


def line_of(found: CheckpointTuple, codec: Codec) -> ExportedCheckpoint:
    """Convert a checkpoint.

    Args:
        codec: writes JSON, and doesn't encrypt.
    Raises:
        SerializationError: a value can't be encoded.
    """
    place = found.config["configurable"]
    above = (found.parent_config or {}).get("configurable") or {}
    point: dict[str, Any] = {k: v for k, v in found.checkpoint.items() if k != "channel_values"}
    values: Mapping[str, Any] = found.checkpoint["channel_values"]
    return ExportedCheckpoint(
        thread_id=place["thread_id"],
        checkpoint_ns=place.get("checkpoint_ns", ""),
        checkpoint_id=place["checkpoint_id"],
        parent=above.get("checkpoint_id"),
        checkpoint=point,
        metadata=dict(sorted(found.metadata.items())),
        values={key: _encoded(codec, values[key], f"state[{key!r}]") for key in sorted(values)},
        writes=tuple(
            ExportedWrite(task, channel, _encoded(codec, value, f"a write to {channel!r}"))
            for task, channel, value in found.pending_writes or ()
        ),
    )


def _encoded(codec: Codec, value: Any, path: str) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(value, path).strip())


def _decoded(codec: Codec, raw: msgspec.Raw) -> Any:
    text = bytes(raw)
    # Parsing has removed the space by which the codec marks JSON of one byte.
    return codec.decode(b" " + text if len(text) == 1 else text)


async def lines_of(saver: Any, thread_id: str, codec: Codec) -> AsyncIterator[ExportedCheckpoint]:
    """Read a thread's checkpoints of all namespaces, oldest first."""
    found = [one async for one in saver.alist({"configurable": {"thread_id": thread_id}})]
    for one in reversed(found):
        yield line_of(one, codec)


async def parsed(lines: AsyncIterable[str]) -> AsyncGenerator[ExportedCheckpoint]:
    """Parse the lines of a file.

    Raises:
        CommandError: a line is damaged or missing, or the file is of a newer format.
    """
    ended, number, count, wanted = False, 0, 0, FORMAT
    async for text in lines:
        number += 1
        if not text.strip():
            continue
        if ended:
            raise CommandError(
                f"line {number} follows the last line of an export", do="import each file by itself"
            )
        try:
            if number == 1:
                wanted = _format_of(text)
            elif text.startswith(_END):
                ended = msgspec.json.decode(text, type=FileEnd).actorgraph_checkpoints == count
                if not ended:
                    raise _cut(count)
            else:
                yield msgspec.json.decode(text, type=ExportedCheckpoint)
                count += 1
        except msgspec.MsgspecError as error:
            raise CommandError(
                f"line {number} is not of `actorgraph export`: {error}",
                do="pass the whole file, as export has written it",
            ) from error
    if not ended and wanted > _WITHOUT_END:
        raise _cut(count)


_END = '{"actorgraph_checkpoints":'


def _format_of(text: str) -> int:
    heading = msgspec.json.decode(text, type=FileHeading)
    if heading.actorgraph_threads > FORMAT:
        raise CommandError(
            f"the file has format {heading.actorgraph_threads}; this version of "
            f"actorgraph reads {FORMAT}",
            do="upgrade actorgraph",
        )
    return heading.actorgraph_threads


def _cut(count: int) -> CommandError:
    return CommandError(
        f"the file was cut: it has {count} checkpoints, and no last line that counts as many",
        do="pass the whole file, as export has written it, or export again",
    )


class ReadLine(msgspec.Struct, frozen=True):
    """A checkpoint whose values are decoded.

    Attributes:
        values: channel -> value.
        writes: (task, channel, value), in their order.
    """

    line: ExportedCheckpoint
    values: dict[str, Any]
    writes: tuple[tuple[str, str, Any], ...]


def decoded(line: ExportedCheckpoint, codec: Codec) -> ReadLine:
    """Decode the values of a checkpoint.

    Raises:
        CheckpointError: a value can't be decoded; the text names the thread.
    """
    try:
        values = {key: _decoded(codec, raw) for key, raw in line.values.items()}
        writes = tuple((w.task, w.channel, _decoded(codec, w.value)) for w in line.writes)
    except CheckpointError as error:
        raise_located(error, f"checkpoint {line.checkpoint_id} of thread {line.thread_id!r}")
    return ReadLine(line, values, writes)


async def store(saver: Any, found: ReadLine) -> None:
    """Store a checkpoint, with its id and its pending writes.

    Raises:
        CheckpointError: the saver refuses it.
    """
    line = found.line
    point: Any = {**line.checkpoint, "channel_values": found.values}
    place = {"thread_id": line.thread_id, "checkpoint_ns": line.checkpoint_ns}
    above = place if line.parent is None else {**place, "checkpoint_id": line.parent}
    versions = point["channel_versions"]
    stored = await saver.aput({"configurable": above}, point, line.metadata, versions)
    # Paths keep the order of the tasks, by which their writes are folded later.
    for number, (task, group) in enumerate(groupby(found.writes, key=lambda write: write[0])):
        writes = [(channel, value) for _, channel, value in group]
        await saver.aput_writes(stored, writes, task, f"{number:06}")
