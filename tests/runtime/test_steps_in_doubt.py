"""Steps whose end is unknown: `astep` and `step` with `doubt=`."""

from typing import Any

import pytest

from actorgraph import START, Command, RetryPolicy, StateGraph, astep, interrupt, step
from actorgraph.errors import InvalidConfigError, InvalidResumeError
from tests.support.graphs import AB, at, in_a_row


class Shop:
    """A service whose answers get lost.

    Attributes:
        orders: what it has done.
        lost: answers that it still loses.
        looks: how often it was asked what it has done.
    """

    def __init__(self, lost: int = 1, *, does: bool = True) -> None:
        self.orders: list[str] = []
        self.lost = lost
        self.looks = 0
        self.does = does

    def order(self) -> str:
        if self.does or not self.lost:
            self.orders.append("order")
        if self.lost:
            self.lost -= 1
            msg = "the answer was lost"
            raise ConnectionError(msg)
        return f"receipt {len(self.orders)}"

    async def aorder(self) -> str:
        return self.order()

    def look(self) -> str | None:
        self.looks += 1
        return f"receipt {len(self.orders)}" if self.orders else None

    async def alook(self) -> str | None:
        return self.look()


def nodes(shop: Shop, doubt: Any = None) -> dict[str, Any]:
    """The same node as an async and as a plain function."""

    async def node(state):
        return {"bar": [await astep("order", shop.aorder, doubt=doubt or shop.alook)]}

    def plain(state):
        return {"bar": [step("order", shop.order, doubt=doubt or shop.look)]}

    return {"async": node, "plain": plain}


KINDS = pytest.mark.parametrize("kind", ["async", "plain"])


@KINDS
@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_an_effect_that_has_taken_place_is_not_repeated(saver, kind, durability):
    """
    The next attempt, in another run, gets the result that `doubt` has found, and stores it.
    """
    shop = Shop()
    graph = in_a_row({"node": nodes(shop)[kind]}, checkpointer=saver)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({}, at(), durability=durability)
    result = await graph.ainvoke(None, at(), durability=durability)

    assert result["bar"] == ["receipt 1"]
    assert (shop.orders, shop.looks) == (["order"], 1)


@KINDS
async def test_an_effect_that_has_not_taken_place_is_done(saver, kind):
    """
    If `doubt` returns None, the function is called.
    """
    shop = Shop(does=False)
    graph = in_a_row({"node": nodes(shop)[kind]}, checkpointer=saver)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({}, at())
    result = await graph.ainvoke(None, at())

    assert result["bar"] == ["receipt 1"]
    assert (shop.orders, shop.looks) == (["order"], 1)


@KINDS
async def test_a_retry_in_the_same_run_asks_too(saver, kind):
    """
    An attempt after an error of the function asks before it calls it again.
    """
    shop = Shop()
    builder = StateGraph(AB).add_node("node", nodes(shop)[kind], retry_policy=FAST)
    graph = builder.add_edge(START, "node").compile(checkpointer=saver)
    result = await graph.ainvoke({}, at())

    assert result["bar"] == ["receipt 1"]
    assert (shop.orders, shop.looks) == (["order"], 1)


FAST = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ConnectionError)


async def test_nothing_is_asked_without_a_doubt(saver):
    """
    A step that succeeds at once asks nothing, and its node has its result when it runs again.
    """
    shop = Shop(lost=0)

    async def node(state):
        receipt = await astep("order", shop.aorder, doubt=shop.alook)
        return {"bar": [receipt, interrupt("go on?")]}

    graph = in_a_row({"node": node}, checkpointer=saver)
    await graph.ainvoke({}, at())
    result = await graph.ainvoke(Command(resume="yes"), at())

    assert result["bar"] == ["receipt 1", "yes"]
    assert (shop.orders, shop.looks) == (["order"], 0)


@KINDS
@pytest.mark.parametrize(
    ("answer", "receipt", "orders"),
    [
        ({"done": True, "result": "by phone"}, "by phone", 1),
        ({"done": True}, True, 1),
        ({"done": False}, "receipt 2", 2),
    ],
)
async def test_a_person_is_asked(saver, kind, answer, receipt, orders):
    """
    With "ask" the run pauses with a question; its answer is the result, or lets the step be done.
    """
    shop = Shop()
    graph = in_a_row({"node": nodes(shop, "ask")[kind]}, checkpointer=saver)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({}, at())
    paused = await graph.ainvoke(None, at())
    (question,) = paused["__interrupt__"]
    assert question.value["step"] == "order"
    assert question.response_schema["required"] == ["done"]
    result = await graph.ainvoke(Command(resume=answer), at())

    assert result["bar"] == [receipt]
    assert len(shop.orders) == orders


@KINDS
async def test_a_person_is_asked_about_each_attempt(saver, kind):
    """
    That one attempt was not done says nothing of the next one: a person is asked again.
    """
    shop = Shop(lost=2)
    graph = in_a_row({"node": nodes(shop, "ask")[kind]}, checkpointer=saver)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({}, at())
    await graph.ainvoke(None, at())
    with pytest.raises(ConnectionError):
        await graph.ainvoke(Command(resume={"done": False}), at())
    paused = await graph.ainvoke(None, at())
    assert len(paused["__interrupt__"]) == 1
    assert len(shop.orders) == 2
    result = await graph.ainvoke(Command(resume={"done": True, "result": "found"}), at())

    assert result["bar"] == ["found"]
    assert len(shop.orders) == 2


@KINDS
async def test_later_questions_have_their_own_answers(saver, kind):
    """
    Questions that a node asks after a person was asked about a step get their own answers, however
    often the node runs again.
    """
    shop = Shop()

    async def node(state):
        receipt = await astep("order", shop.aorder, doubt="ask")
        return {"bar": [receipt, interrupt("one?"), interrupt("two?")]}

    def plain(state):
        receipt = step("order", shop.order, doubt="ask")
        return {"bar": [receipt, interrupt("one?"), interrupt("two?")]}

    graph = in_a_row({"node": node if kind == "async" else plain}, checkpointer=saver)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({}, at())
    await graph.ainvoke(None, at())
    for answer in ({"done": True, "result": "receipt"}, "1", "2"):
        result = await graph.ainvoke(Command(resume=answer), at())

    assert result["bar"] == ["receipt", "1", "2"]


async def test_an_answer_that_says_nothing_is_refused(saver):
    """
    The answer about a step must say whether it is done; the step is not repeated meanwhile.
    """
    shop = Shop()
    graph = in_a_row({"node": nodes(shop, "ask")["async"]}, checkpointer=saver)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({}, at())
    await graph.ainvoke(None, at())
    with pytest.raises(InvalidResumeError, match="done"):
        await graph.ainvoke(Command(resume="perhaps"), at())

    assert shop.orders == ["order"]
    (question,) = (await graph.aget_state(at())).interrupts
    assert question.value["step"] == "order"


@pytest.mark.parametrize("doubt", ["later", 7])
async def test_another_doubt_is_refused(saver, doubt):
    """
    `doubt` is a function or "ask"; the step does not begin with anything else.
    """
    shop = Shop()
    graph = in_a_row({"node": nodes(shop, doubt)["async"]}, checkpointer=saver)
    with pytest.raises(InvalidConfigError, match="doubt="):
        await graph.ainvoke({}, at())

    assert shop.orders == []


@pytest.mark.parametrize("way", ["exit", "no saver"])
async def test_a_doubt_needs_rows_that_are_stored_at_once(saver, way):
    """
    Where the beginning of a step could not be stored before it, `doubt` is refused.
    """
    shop = Shop()
    some = None if way == "no saver" else saver
    graph = in_a_row({"node": nodes(shop)["async"]}, checkpointer=some)
    with pytest.raises(InvalidConfigError, match="doubt="):
        await graph.ainvoke({}, at(), durability="exit" if way == "exit" else None)

    assert shop.orders == []
