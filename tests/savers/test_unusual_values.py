"""Values and names that some databases don't take: every saver gives the same answer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorgraph import InvalidConfigError, SerializationError
from actorgraph.testing.conformance.builders import checkpoint, metadata, new_task
from tests.codec.shapes import CODEC, VALUES, same
from tests.support.graphs import at, in_a_row

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

ODD = {
    "NUL": "a\0b",
    "NaN": math.nan,
    "infinity": -math.inf,
    "a big number": 2**200,
    "emoji": "\U0001f600 é",
    "bytes": b"\x00\xff" * 10,
    "nested": {"a\0": [{"b": (1, 2)}, None, True, 1.0]},
    "long": "x" * 100_000,
}


@pytest.mark.parametrize("name", ODD)
async def test_unusual_values_come_back_as_written(store, name):
    """
    NUL in text, NaN, infinity, numbers of any size come back as they were.
    """
    value = ODD[name]

    async def node(state):
        return {"foo": value, "bar": [value]}

    async with store.saver() as saver:
        await in_a_row({"node": node}, checkpointer=saver).ainvoke({}, at())
    async with store.again() as saver:
        found = (await in_a_row({"node": node}, checkpointer=saver).aget_state(at())).values

    assert repr(found) == repr({"foo": value, "bar": [value]})  # NaN isn't equal to itself


@pytest.mark.promise("T30")
def test_any_value_is_the_same_on_every_saver(store):
    """
    Any combination of types that a program allows comes back equal and of the same
    type, as a value and as a write.
    """

    @given(st.lists(VALUES, max_size=4))
    @settings(max_examples=30)
    def check(values):
        channels = {str(n): value for n, value in enumerate(values)}
        config = saver.put(at(), checkpoint(channels), metadata(0), dict.fromkeys(channels, 1))
        saver.put_writes(config, [*channels.items()], new_task())
        found = saver.get_tuple(config)
        read = found.checkpoint["channel_values"]

        assert same([read[name] for name in channels], values)
        assert same([value for _, _, value in found.pending_writes], values)

    with store.saver() as saver:
        saver.codec = CODEC.in_form("json" if store.kind == "jsonl" else "msgpack")
        check()


@pytest.mark.promise("T30")
@pytest.mark.every_loop("sqlite-memory")
@pytest.mark.parametrize("value", ["\ud800", object(), {1: object()}, {"a": [lambda: 0]}])
async def test_refused_values_are_refused_by_every_saver(saver, value):
    """
    A value that can't be stored exactly fails its node with the path, on every saver alike.
    """
    graph = in_a_row({"node": lambda _: {"foo": value}}, checkpointer=saver)

    with pytest.raises(SerializationError, match="node: foo"):
        await graph.ainvoke({}, at())
    assert (await graph.aget_state(at())).next == ("node",)


ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.array([(1, "é")], "i2,U3"),
    np.float32(0.1),
    np.str_("a"),
]


@pytest.mark.promise("T30")
async def test_arrays_are_the_same_on_every_saver(store):
    """
    Arrays and scalars of numpy come back exactly; one of objects is refused with its path, and
    nothing of it is stored.
    """

    async def node(state):
        return {"foo": ARRAYS[0], "bar": ARRAYS}

    async def bad(state):
        return {"foo": {"a": [np.array([print])]}}

    async with store.saver() as saver:
        await in_a_row({"node": node}, checkpointer=saver).ainvoke({}, at())
        with pytest.raises(
            SerializationError, match=r"bad: foo\['a'\]\[0\] of type 'numpy:ndarray'"
        ):
            await in_a_row({"bad": bad}, checkpointer=saver).ainvoke({}, at("u"))
    async with store.again() as saver:
        found = (await in_a_row({"node": node}, checkpointer=saver).aget_state(at())).values

    for one, value in zip([found["foo"], *found["bar"]], [ARRAYS[0], *ARRAYS], strict=True):
        assert (type(one), one.dtype, one.tobytes()) == (type(value), value.dtype, value.tobytes())


@pytest.mark.parametrize("thread", ["a\0b", "\ud800", ""], ids=ascii)
async def test_names_that_a_database_does_not_take_are_refused(saver, thread):
    """
    A thread id with NUL, or that isn't Unicode, is refused before anything runs.
    """
    with pytest.raises(InvalidConfigError, match="thread_id"):
        await in_a_row({}, checkpointer=saver).ainvoke({}, at(thread))


@pytest.mark.parametrize("metadata", [{"k": "a\0b"}, {"k": True}, {"k": 1.0}, {"k": [1, "é"]}])
async def test_metadata_are_found_by_what_they_are(saver, metadata):
    """
    A listing's filter distinguishes 1 from true and from 1.0, and takes any text.
    """
    graph = in_a_row({}, checkpointer=saver)
    await graph.ainvoke({}, {**at(), "metadata": metadata})

    same = [item async for item in saver.alist(at(), filter=metadata)]
    other = [item async for item in saver.alist(at(), filter={"k": 1})]

    assert (len(same) > 0, other) == (True, [])
