"""Listeners hear of stored types that are refused."""

import logging

import ormsgpack
import pytest

from actorgraph import Codec, UnknownTypeError, register_serde_event_listener
from tests.codec.shapes import CODEC, Note


@pytest.fixture
def heard():
    """The events of a listener; it is taken off at the end."""
    events = []
    leave = register_serde_event_listener(events.append)
    yield events
    leave()


@pytest.mark.langgraph("F-E20")
def test_a_refused_type_is_reported_once(heard):
    """
    A type that isn't allowed is reported to listeners with module and name, beside the error.
    """
    with pytest.raises(UnknownTypeError):
        Codec().decode(CODEC.encode([{1: (Note("x"),)}]))

    assert heard == [{"kind": "msgpack_blocked", "module": "tests.codec.shapes", "name": "Note"}]


def test_allowed_types_are_not_reported(heard):
    """
    Values of allowed types, and damaged ones, cause no event.
    """
    assert CODEC.decode(CODEC.encode(Note("x"))) == Note("x")
    with pytest.raises(Exception, match="can't be decoded"):
        CODEC.decode(b"\xc7\x01")
    assert heard == []


def test_a_listener_that_raises_disturbs_no_others(heard, caplog):
    """
    An error of a listener is logged; the others hear the event, and the error stays the same.
    """

    def fails(event):
        raise ValueError("listener")

    leave = register_serde_event_listener(fails)
    with caplog.at_level(logging.WARNING), pytest.raises(UnknownTypeError):
        Codec().decode(CODEC.encode(Note("x")))
    leave()
    leave()

    assert len(heard) == 1
    assert "listener for refused types failed" in caplog.text


def test_a_listener_is_removed_once(heard):
    """
    A listener that is registered twice hears each event twice, until one of the two is removed.
    """
    others: list[object] = []

    def listener(event):
        others.append(event)

    first, second = (register_serde_event_listener(listener) for _ in range(2))
    for leave, count in ((first, 2), (second, 3), (second, 3)):
        with pytest.raises(UnknownTypeError):
            Codec().decode(CODEC.encode(Note("x")))
        assert len(others) == count
        leave()

    with pytest.raises(UnknownTypeError):
        Codec().decode(CODEC.encode(Note("x")))
    assert len(others) == 3
    assert len(heard) == 4


def test_a_name_without_a_module(heard):
    """
    A forged name is reported as it is, with what is behind the first colon as the class.
    """
    for name in ("nope", "a:b:c", ""):
        payload = ormsgpack.packb(ormsgpack.Ext(40, ormsgpack.packb([name, {}])))
        with pytest.raises(UnknownTypeError):
            Codec().decode(payload)

    assert [(event["module"], event["name"]) for event in heard] == [("nope", ""), ("a", "b:c")]


def test_the_log_of_a_listener_that_raises(heard, caplog):
    """
    The log has the listener's error with its traceback, as a warning of the codec's logger.
    """

    def fails(event):
        raise ValueError("listener")

    leave = register_serde_event_listener(fails)
    with caplog.at_level(logging.WARNING), pytest.raises(UnknownTypeError):
        Codec().decode(CODEC.encode(Note("x")))
    leave()
    (record,) = caplog.records

    assert record.getMessage() == "a listener for refused types failed"
    assert (record.name, record.levelname) == ("actorgraph.codec", "WARNING")
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError
