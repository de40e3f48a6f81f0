"""A superstep whose tasks have all finished, and which has not ended."""

from tests.support.graphs import at, in_a_row, writer


async def test_a_thread_is_not_over_before_its_superstep_is(saver):
    """
    When all tasks have finished and nothing is folded yet, as after a cancellation, `next` still
    names them, the values have their writes, and going on runs none of them again.
    """
    log: list[str] = []
    graph = in_a_row({"a": writer("a", log), "b": writer("b", log)}, checkpointer=saver)
    await graph.ainvoke({}, at(), interrupt_before=["b"])
    state = await graph.aget_state(at())
    await saver.aput_writes(state.config, [("foo", "done")], state.tasks[0].id)
    waiting = await graph.aget_state(at())
    ended = await graph.ainvoke(None, at())

    assert (waiting.next, waiting.values["foo"]) == (("b",), "done")
    assert (ended["foo"], log) == ("done", ["a"])
    assert (await graph.aget_state(at())).next == ()
