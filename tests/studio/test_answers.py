"""Questions in subgraphs, odd fields and stuck threads: answered and retried through the studio."""

import re

import pytest
from langgraph.checkpoint.memory import MemorySaver

from actorgraph import END, START, ActorSystem, InMemorySaver, StateGraph, interrupt
from actorgraph.studio import Studio
from actorgraph.web import running
from tests.studio.conftest import TOKEN, Place, State, chain, first


async def ask_twice(_):
    """A node with two questions, one after the other."""
    return {"log": [interrupt("first?"), interrupt("second?")]}


async def ask_oddly(_):
    """A question whose field has the name of the form's own, and choices with two spaces."""
    spec = {"interrupt": {"type": "string"}, "size": {"enum": ["a  b", "c"]}}
    found = interrupt({"schema": {"type": "object", "properties": spec}})
    return {"log": [str(found)]}


class Conflict:
    """Nodes that write the same key until they are mended."""

    def __init__(self):
        self.broken = True

    async def one(self, _):
        """Write the key."""
        return {"value": 1}

    async def other(self, _):
        """Write the key too, while broken."""
        return {"value": 2} if self.broken else {"log": ["mended"]}

    def graph(self):
        """Both nodes in one step."""
        builder = StateGraph(Stuck).add_node("one", self.one).add_node("other", self.other)
        for name in ("one", "other"):
            builder.add_edge(START, name).add_edge(name, END)
        return builder.compile()


class Stuck(State):
    """`value` takes one write a step."""

    value: int


class AnswersPlace:
    """Opens a studio over a system with some graphs."""

    def __init__(self, saver=None, **graphs):
        self._system = ActorSystem(graphs, saver=saver or InMemorySaver())

    async def __aenter__(self):
        self._running = running(self._system)
        await self._running.__aenter__()
        place = Place(self._system, Studio(self._system, token=TOKEN), None)
        await place.client.get(f"/?token={TOKEN}")
        return place

    async def __aexit__(self, *error):
        await self._running.__aexit__(*error)


def question_in(html):
    """The id of the only question of a page."""
    (found,) = re.findall(r'name="interrupt" value="([^"]+)"', html)
    return found


async def newest(place, thread_id):
    """The newest run of a thread, after its end."""
    run = (await place.system.runs(thread_id=thread_id))[-1]
    await run.wait()
    return run


async def test_questions_of_a_subgraph_are_answered_one_by_one():
    """
    The page shows the open question of a subgraph's node; each answer leads to the next one.
    """
    outer = StateGraph(State).add_node("sub", chain(ask_twice))
    async with AnswersPlace(outer=outer.add_edge(START, "sub").compile()) as place:
        await place.ran("outer", "t")
        for text, answer in (("first?", "yes"), ("second?", "two\r\nlines")):
            html = await place.get("/threads/t")
            assert text in html
            await place.post("/threads/t/answer", interrupt=question_in(html), answer=answer)
            run = await newest(place, "t")

        assert (await run.result())["log"] == ["yes", "two\nlines"]


async def test_a_field_may_have_any_name_and_choices():
    """
    A property named like the form's own field is answered, and choices keep their spaces.
    """
    async with AnswersPlace(odd=chain(ask_oddly)) as place:
        await place.ran("odd", "t")
        html = await place.get("/threads/t")
        assert '<option value="&#34;a  b&#34;">a  b</option>' in html
        assert '<option value="">none</option>' in html

        given = {"interrupt": [question_in(html), "mine"], "size": '"a  b"'}
        await place.post("/threads/t/answer", **given)
        found = await (await newest(place, "t")).result()
        assert found["log"] == [str({"interrupt": "mine", "size": "a  b"})]


async def test_stuck_threads_are_retried_from_the_list_of_runs():
    """
    A thread whose writes conflict runs all of its tasks again, as from its own page.
    """
    conflict = Conflict()
    async with AnswersPlace(stuck=conflict.graph()) as place:
        run = await place.ran("stuck", "t")
        conflict.broken = False

        await place.post("/runs", do="retry", run=run.id)
        assert await (await newest(place, "t")).result() == {"value": 1, "log": ["mended"]}


@pytest.mark.filterwarnings("ignore::actorgraph.errors.ForeignSaverWarning")
async def test_a_saver_that_keeps_no_runs_is_enough():
    """
    Over a saver of LangGraph's, which stores neither, threads are started and replayed.
    """
    async with AnswersPlace(MemorySaver(), odd=chain(first)) as place:
        await place.post("/threads", graph="odd", thread_id="t", input="{}")
        assert await (await newest(place, "t")).result() == {"log": ["first"]}

        (step,) = re.findall(r'step=([0-9a-f-]+)".{0,200}then first', await place.get("/threads/t"))
        await place.post("/threads/t/replay", checkpoint=step)
        assert len(await place.system.runs(thread_id="t")) == 2


async def test_an_unknown_step_is_not_the_newest():
    """
    The address of a step that the thread doesn't have is a 404, not the thread's newest state.
    """
    async with AnswersPlace(odd=chain(first)) as place:
        await place.ran("odd", "t")

        await place.get(f"/threads/t?step={'0' * 8}-0000-6000-8000-{'0' * 12}", 404)


async def test_ended_threads_are_not_run_again():
    """
    The newest step of a thread that has ended offers no further run; older steps do.
    """
    async with AnswersPlace(odd=chain(first)) as place:
        await place.ran("odd", "t")

        html = await place.get("/threads/t")
        assert "Run again from here" not in html
        older = re.findall(r'step=([0-9a-f-]+)"', html)[1]
        assert "Run again from here" in await place.get(f"/threads/t?step={older}")


async def test_markup_in_names_of_nodes_is_text():
    """
    Names of graphs, nodes and edges are escaped in drawings, marks and the waterfall.
    """
    hostile = "\"><img src=x onerror=alert(1)>'"
    builder = StateGraph(State).add_node(hostile, first).add_edge(START, hostile)
    builder.add_conditional_edges(hostile, lambda _: "<b>end", {"<b>end": END})
    async with AnswersPlace(**{"<i>": builder.compile()}) as place:
        await place.ran("<i>", "t")

        for path in ("/threads", "/threads/t", "/threads/t/steps", "/graphs", "/graphs/%3Ci%3E"):
            html = await place.get(path)
            assert not [one for one in ("<img", "<b>", "<i>") if one in html]
