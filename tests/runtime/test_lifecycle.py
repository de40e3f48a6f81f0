"""Handlers that hear of pauses and resumes."""

from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.runnables import RunnableLambda

from actorgraph import Command, GraphCallbackHandler, interrupt
from tests.support.graphs import at, in_a_row, writer
from tests.support.subgraphs import Log, child, parent


class Hears(GraphCallbackHandler):
    """A handler that keeps what it hears.

    Attributes:
        heard: `(kind, event)`.
    """

    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []

    def on_interrupt(self, event):
        self.heard.append(("interrupt", event))

    async def on_resume(self, event):
        self.heard.append(("resume", event))


def asking():
    async def node(state):
        return {"bar": [interrupt("who?")]}

    return node


class TestEvents:
    @pytest.mark.langgraph("F-C24")
    async def test_a_question_and_its_answer(self, saver):
        """
        A pause is reported with its questions and place, and going on with the same place.
        """
        handler = Hears()
        graph = in_a_row({"a": writer("a"), "b": asking()}, checkpointer=saver)
        config = {**at(), "callbacks": [handler]}

        await graph.ainvoke({}, config)
        await graph.ainvoke(Command(resume="ada"), config)

        (first, paused), (second, resumed) = handler.heard
        assert (first, second) == ("interrupt", "resume")
        assert (paused.status, [i.value for i in paused.interrupts]) == ("pending", ["who?"])
        assert paused.checkpoint_id == resumed.checkpoint_id
        assert (paused.checkpoint_ns, resumed.checkpoint_ns) == ((), ())
        assert isinstance(paused.run_id, UUID)
        assert paused.run_id != resumed.run_id

    @pytest.mark.langgraph("F-C24")
    @pytest.mark.parametrize("kind", ["interrupt_before", "interrupt_after"])
    async def test_breakpoints(self, saver, kind):
        """
        A pause at a breakpoint says which kind, and has no questions.
        """
        handler = Hears()
        nodes = {"a": writer("a"), "b": writer("b"), "c": writer("c")}
        graph = in_a_row(nodes, checkpointer=saver, **{kind: ["b"]})
        stream = graph.astream({}, {**at(), "callbacks": [handler]})
        [chunk async for chunk in stream]

        assert [(name, event.status, event.interrupts) for name, event in handler.heard] == [
            ("interrupt", kind, ())
        ]

    @pytest.mark.langgraph("F-C24")
    async def test_graphs_inside(self, saver):
        """
        The root run reports a pause below it; each run that goes on reports so.
        """
        handler, log = Hears(), []
        graph = parent(log, child(log, "who?"), saver)
        config = {**at(), "callbacks": [handler]}

        await graph.ainvoke({}, config)
        await graph.ainvoke(Command(resume="ada"), config)

        told = [(name, len(event.checkpoint_ns)) for name, event in handler.heard]
        assert told == [("interrupt", 0), ("resume", 0), ("resume", 1)]

    @pytest.mark.langgraph("F-C24")
    async def test_a_new_input_is_not_a_resume(self, saver):
        """
        A run from an input, also on a thread that has run before, reports nothing.
        """
        handler = Hears()
        graph = in_a_row({"a": writer("a")}, checkpointer=saver)
        for _ in range(2):
            await graph.ainvoke({}, {**at(), "callbacks": [handler]})

        assert handler.heard == []


class TestAmongLangChains:
    @pytest.mark.langgraph("F-C24")
    async def test_they_can_be_mixed_with_other_handlers(self, saver):
        """
        A manager and a handler that hears LangChain too work, and runnables are not disturbed.
        """

        class Both(BaseCallbackHandler, Hears):
            def __init__(self):
                super().__init__()
                Hears.__init__(self)
                self.chains = 0

            def on_chain_start(self, *_, **__):
                self.chains += 1

        both, only = Both(), Hears()
        runnable = RunnableLambda(lambda text: text.upper())

        def node(state, config):
            return {"log": [runnable.invoke(interrupt("who?"), config)]}

        graph = in_a_row({"a": node}, schema=Log, checkpointer=saver)
        config = {**at(), "callbacks": CallbackManager([both, only])}
        await graph.ainvoke({}, config)
        result = await graph.ainvoke(Command(resume="ada"), config)

        assert result["log"] == ["ADA"]
        assert [name for name, _ in both.heard] == ["interrupt", "resume"]
        assert [name for name, _ in only.heard] == ["interrupt", "resume"]
        assert both.chains >= 1

    @pytest.mark.langgraph("F-C24")
    async def test_one_that_raises_changes_nothing(self, saver, caplog):
        """
        A handler's error is logged, and the run's result is the same.
        """

        class Bad(GraphCallbackHandler):
            def on_interrupt(self, event):
                raise ValueError("boom")

        graph = in_a_row({"a": asking()}, checkpointer=saver)
        result = await graph.ainvoke({}, {**at(), "callbacks": [Bad()]})

        assert [i.value for i in result["__interrupt__"]] == ["who?"]
        assert "callback.failed" in caplog.text
