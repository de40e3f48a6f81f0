"""Values that can't be shown: their place says so, and all else is shown."""

import json
from typing import Any, TypedDict

import httpx
import pytest
from pydantic import BaseModel, field_serializer

from actorgraph import START, ActorSystem, StateGraph, interrupt
from actorgraph.web import GraphRoutes
from actorgraph.web.http.jsonable import dumps
from tests.support.every_saver import saver, store

__all__ = ["saver", "store"]

HUGE = 7**6000  # more digits than Python converts to text


class Picky(BaseModel):
    """Its serializer knows two days."""

    day: int

    @field_serializer("day")
    def name(self, day):
        return {1: "Mon", 2: "Tue"}[day]


class Mute:
    """It can't be shown at all."""

    def __repr__(self):
        raise LookupError


class Worse(Mute):
    """Its fields can't be read either."""

    __attrs_attrs__ = property(lambda _: 1 / 0)

    def model_dump(self):
        raise OverflowError


class State(TypedDict, total=False):
    bad: Any
    picky: Picky
    good: str


VALUES = {
    "integer": (HUGE, "<int that can't be shown: ValueError>"),
    "negative": (-HUGE, "<int that can't be shown: ValueError>"),
    "serializer": (Picky(day=3), "<Picky that can't be shown: PydanticSerializationError>"),
    "repr": (Mute(), "<Mute that can't be shown: LookupError>"),
    "model": (Worse(), "<Worse that can't be shown: OverflowError>"),
}


@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES)
def test_it_hides_nothing_beside_it(value, text):
    """
    In a list, a mapping or a question its place has the type and the reason; the others are there.
    """
    shown = json.loads(dumps({"a": [1, value, "x"], "b": {"c": value, "d": 2}, "e": 3}))

    assert shown == {"a": [1, text, "x"], "b": {"c": text, "d": 2}, "e": 3}


def test_keys_stay_apart():
    """
    Two keys that can't be shown are two entries.
    """
    shown = json.loads(dumps({HUGE: 1, "a": 2, HUGE + 1: 3}))

    assert list(shown.values()) == [1, 2, 3]
    assert all("can't be shown" in key for key in shown if key != "a")


@pytest.mark.parametrize("kind", ["integer", "serializer", "question"])
async def test_each_route_answers(kind, saver):
    """
    A thread with such a value, or such a question, is in each answer, and so is another thread.
    """
    key = "picky" if kind == "serializer" else "bad"
    value, text = VALUES["integer" if kind == "question" else kind]

    def write(state):
        return {"good": "yes", key: interrupt({"n": value}) if kind == "question" else value}

    graph = StateGraph(State).add_node("write", write).add_edge(START, "write").compile()
    fine = StateGraph(State).add_node("write", lambda _: {"good": "yes"}).add_edge(START, "write")
    async with (
        ActorSystem({"bad": graph, "fine": fine.compile()}, saver=saver) as system,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=GraphRoutes(system)), base_url="http://t"
        ) as client,
    ):
        for name in ("bad", "fine"):
            await client.post("/threads", json={"thread_id": name})
            answer = await client.post(
                f"/threads/{name}/runs/wait", json={"assistant_id": name, "input": {}}
            )
            assert answer.status_code == 200
            assert (text in answer.text) is (name == "bad")
        assert text in (await client.get("/threads/bad")).text
        assert text in (await client.get("/threads/bad/state")).text
        history = await client.post("/threads/bad/history", json={})
        assert history.status_code == 200
        assert text in history.text
        threads = (await client.post("/threads/search", json={})).json()
        assert {each["thread_id"] for each in threads} == {"bad", "fine"}
        streamed = await client.post(
            "/threads/bad/runs/stream", json={"assistant_id": "bad", "input": {}}
        )
        assert text in streamed.text
        assert "event: error" not in streamed.text
