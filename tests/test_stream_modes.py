"""A stream mode is known in every place that treats modes: a new one fails here until it is.

`tests/superstep/test_untracked.py` has one more place: what is removed from its stored chunks.
"""

from typing import get_args, get_origin, get_type_hints

import pytest

from actorgraph.api.options import OtherMode
from actorgraph.api.streams import events, message_streams, projections
from actorgraph.prebuilt import tool_events
from actorgraph.values.policies import STREAM_MODES
from actorgraph.values.stream_items import StreamPart
from actorgraph.web.http.event_translator import EventTranslator, graph_modes
from actorgraph.web.stream_protocol.protocol_events import WIRE_MODES
from actorgraph.web.stream_protocol.subscriptions import CHANNELS
from tests.support.source_files import ROOT

CHUNKS = {"messages": ({"content": "x"}, {})}
"""The chunk of a mode, where it is not a dict."""

PROJECTIONS = [
    kind
    for module in (message_streams, projections, tool_events)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, events.StreamTransformer)
]


def test_each_part_of_a_stream_has_its_type():
    """
    `StreamPart` has one dict per mode: add the new one to values/stream_items.py.
    """
    parts = [get_origin(part) or part for part in get_args(StreamPart)]
    types = [get_args(get_type_hints(part)["type"])[0] for part in parts]

    assert sorted(types) == sorted(STREAM_MODES)


def test_each_is_among_the_types_of_a_call():
    """
    `OtherMode` of api/options.py has every mode but "values", whose parts have a type of their own.
    """
    assert sorted({*get_args(OtherMode), "values"}) == sorted(STREAM_MODES)


def test_each_has_a_channel():
    """
    The streaming protocol has a channel for each; "debug" is made of "checkpoints" and "tasks".
    """
    assert sorted({*WIRE_MODES, "debug"}) == sorted(STREAM_MODES)
    assert set(WIRE_MODES) < set(CHANNELS)


@pytest.mark.parametrize("mode", STREAM_MODES)
def test_each_has_a_projection(mode):
    """
    An event stream has the mode's chunks: add a projection to api/streams/projections.py.
    """
    assert [kind for kind in PROJECTIONS if mode in kind.required_stream_modes]


@pytest.mark.parametrize("mode", STREAM_MODES)
def test_each_is_served(mode):
    """
    A client of the server that asks for the mode gets its chunks under its name.
    """
    wanted = graph_modes([mode])
    served = EventTranslator(["messages-tuple" if mode == "messages" else mode], subgraphs=False)

    found = served.events((), mode, CHUNKS.get(mode, {"a": 1}))

    assert wanted == [mode]
    assert [name for name, _ in found] == [mode]


@pytest.mark.parametrize("mode", STREAM_MODES)
def test_each_is_documented(mode):
    """
    The table of modes in docs/streaming.md has a row for it.
    """
    page = (ROOT / "docs" / "streaming.md").read_text("utf-8")
    _, _, table = page.partition("| mode | chunk |\n")
    named = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()]

    assert any(f"`{mode}`" in cell for cell in named)
