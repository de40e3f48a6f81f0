"""The record of a checkpoint: all that a resume needs, and nothing else. On every saver."""

import json
from contextlib import contextmanager

import pytest

from actorgraph import Command, FormatVersionError, interrupt
from actorgraph.codec import save_encoder
from actorgraph.values.commits import ListCheckpoints
from tests.support.graphs import at, in_a_row

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

ALWAYS = {"v", "parts", "graph", "channel_versions", "versions_seen", "updated_channels"}
WHERE_VALUES_ARE = {"values", "lists", "blobs"}
FOR_RESUMING = {"v", "channel_versions", "versions_seen", *WHERE_VALUES_ARE}


def graph(saver):
    nodes = {
        "a": lambda _: {"foo": "text", "bar": ["a"]},
        "ask": lambda _: {"foo": interrupt("?")},
    }
    return in_a_row(nodes, checkpointer=saver)


@contextmanager
def changed_on_the_way(change):
    """Records that are stored meanwhile, of what comes after node `a`, are changed."""

    def encode(record):
        known = {"blobs": [], **json.loads(whole(record))}
        if "foo" in known["blobs"]:
            change(known)
        return json.dumps(known)

    whole, save_encoder.encode_record = save_encoder.encode_record, encode
    try:
        yield
    finally:
        save_encoder.encode_record = whole


async def stored(saver, thread: str, change=lambda record: None) -> None:
    """A thread with a question, of which the last record has been changed."""
    with changed_on_the_way(change):
        await graph(saver).ainvoke({"bar": ["in"]}, at(thread))


async def newest(saver, thread: str):
    """The record of the last checkpoint."""
    (page,) = await saver.query([ListCheckpoints(thread, limit=1)])
    return json.loads(page[0].row.record)


class TestRecord:
    @pytest.mark.promise("S045")
    async def test_it_has_what_a_resume_needs_and_no_more(self, saver):
        """
        A record has coordination and places of values, and nothing that follows from them.
        """
        await stored(saver, "t")

        assert set(await newest(saver, "t")) == ALWAYS | WHERE_VALUES_ARE

    @pytest.mark.promise("S045")
    async def test_a_lost_part_is_an_error(self, store):
        """
        Without any part that a resume needs, or with one value fewer than it had, the resume fails
        with a typed error.
        """
        changes = {part: lambda record, part=part: record.pop(part) for part in FOR_RESUMING}
        changes["one value"] = lambda record: record["blobs"].remove("foo")
        async with store.saver() as saver:
            for name, change in changes.items():
                await stored(saver, name, change)

        async with store.again() as saver:
            for name in changes:
                with pytest.raises(FormatVersionError):
                    await graph(saver).ainvoke(Command(resume="yes"), at(name))

    @pytest.mark.promise("S062", "S067", "C21")
    async def test_a_lost_shortcut_changes_nothing(self, store, monkeypatch):
        """
        Without the list of changed channels, the graph's name and the next nodes, a resume comes
        to the same end.
        """
        monkeypatch.setattr(save_encoder, "encode_names", lambda _: "[]")
        async with store.saver() as saver:
            await stored(saver, "t", lambda record: [record.pop(k) for k in SHORTCUTS])

        async with store.again() as saver:
            assert not SHORTCUTS & set(await newest(saver, "t"))
            result = await graph(saver).ainvoke(Command(resume="yes"), at())

        assert result == {"foo": "yes", "bar": ["in", "a"]}


SHORTCUTS = {"updated_channels", "graph"}
