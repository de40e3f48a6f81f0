"""`Pregel` and `NodeBuilder`: graphs declared by their channels."""

import operator

import pytest

from actorgraph import (
    ChannelWriteEntry,
    Command,
    EmptyInputError,
    GraphOutput,
    GraphRecursionError,
    InMemorySaver,
    InvalidUpdateError,
    NodeBuilder,
    Pregel,
    RetryPolicy,
    StateGraph,
    UnknownChannelWarning,
    interrupt,
)
from actorgraph.channels import BinaryOperatorAggregate, EphemeralValue, LastValue, Topic
from actorgraph.errors import GraphBuildError
from tests.support.graphs import AB, at, history


def doubled(text):
    return text + text


async def adoubled(text):
    return text + text


def doubling(**options):
    """`a` is doubled into `b`."""
    node = options.pop("node", None) or NodeBuilder().subscribe_only("a").do(doubled).write_to("b")
    declared = {
        "nodes": {"double": node},
        "channels": {"a": EphemeralValue(str), "b": EphemeralValue(str)},
        "input_channels": "a",
        "output_channels": "b",
    }
    return Pregel(**{**declared, **options})


class TestRuns:
    @pytest.mark.langgraph("F-A18")
    @pytest.mark.parametrize("function", [doubled, adoubled])
    async def test_a_name_alone_means_a_bare_value(self, function):
        """
        With one input and one output name a run takes and returns bare values.
        """
        node = NodeBuilder().subscribe_only("a").do(function).write_to("b")

        assert await doubling(node=node).ainvoke("x") == "xx"

    @pytest.mark.langgraph("F-A18")
    async def test_lists_of_names_mean_dicts(self):
        """
        An input dict is written to the channels that it names; a warning names unknown ones.
        """
        graph = doubling(input_channels=["a"], output_channels=["b"])

        with pytest.warns(UnknownChannelWarning, match="the input has 'unknown'"):
            assert await graph.ainvoke({"a": "x", "unknown": 1}) == {"b": "xx"}
        with pytest.raises(EmptyInputError, match=r"\['a'\]"):
            await graph.ainvoke({"unknown": 1})
        with pytest.raises(InvalidUpdateError):
            await graph.ainvoke("x")

    @pytest.mark.langgraph("F-A18")
    async def test_subscribers_run_after_what_they_subscribe_to(self):
        """
        The writes of one superstep make their subscribers due in the next; a Topic collects.
        """
        graph = doubling(
            nodes={
                "one": NodeBuilder().subscribe_only("a").do(doubled).write_to("b", "c"),
                "two": NodeBuilder().subscribe_only("b").do(doubled).write_to("c"),
            },
            channels={
                "a": EphemeralValue(str),
                "b": EphemeralValue(str),
                "c": Topic(str, accumulate=True),
            },
            output_channels=["c"],
        )

        assert await graph.ainvoke("x") == {"c": ["xx", "xxxx"]}

    @pytest.mark.promise("S060")
    @pytest.mark.langgraph("F-A18")
    async def test_a_node_may_feed_itself(self):
        """
        It runs again for as long as it writes to the channel that it subscribes to, and not when
        its thread is looked at or gone on with later.
        """

        def grow(text):
            return text + text if len(text) < 10 else None

        node = NodeBuilder().subscribe_only("a").do(grow)
        stops = node.write_to(ChannelWriteEntry("a", skip_none=True))
        grown = {"output_channels": "a", "channels": {"a": LastValue(str)}}
        graph = doubling(node=stops, **grown, checkpointer=InMemorySaver())
        assert await graph.ainvoke("a", at()) == "a" * 16
        assert (await graph.aget_state(at())).next == ()
        assert await graph.ainvoke(None, at()) == "a" * 16
        assert len(await history(graph, at())) == 6

        forever = NodeBuilder().subscribe_only("a").do(doubled).write_to("a")
        graph = doubling(node=forever, **grown)
        with pytest.raises(GraphRecursionError):
            await graph.ainvoke("a", {"recursion_limit": 3})

    @pytest.mark.langgraph("F-A18", "F-A19")
    async def test_it_is_a_node_of_another_graph(self):
        """
        Like any compiled graph it can run in a node.
        """
        inner = doubling(
            node=NodeBuilder().subscribe_only("foo").do(doubled).write_to("bar"),
            channels={"foo": EphemeralValue(str), "bar": Topic(str)},
            input_channels=["foo"],
            output_channels=["bar"],
        )
        graph = StateGraph(AB).add_node("inner", inner).add_edge("__start__", "inner").compile()

        assert await graph.ainvoke({"foo": "x"}) == {"foo": "x", "bar": ["xx"]}


class TestNodeBuilder:
    @pytest.mark.langgraph("F-A18")
    async def test_several_subscriptions_give_a_dict(self):
        """
        A node that subscribes to several channels, or reads others too, gets those that have a
        value.
        """
        seen: list = []
        node = (
            NodeBuilder().subscribe_to("a", "b").read_from("c").do(seen.append).write_to(d="done")
        )
        silent = NodeBuilder().subscribe_to("a", read=False).do(seen.append)
        channels = {name: LastValue(str) for name in "abcd"}
        for one in (node, silent):
            graph = doubling(node=one, channels=channels, input_channels=["a", "c"])
            await graph.ainvoke({"a": "1", "c": "2"})

        assert seen == [{"a": "1", "c": "2"}, {}]

    @pytest.mark.langgraph("F-A18")
    async def test_writes_are_mapped_fixed_or_passed_through(self):
        """
        `write_to(b, c=function, d="fixed")`: one write for each, None included.
        """
        node = NodeBuilder().subscribe_only("a").do(doubled).write_to("b", c=str.upper, d="fixed")
        graph = doubling(
            node=node,
            channels={name: LastValue(str) for name in "abcd"},
            output_channels=["b", "c", "d"],
        )

        assert await graph.ainvoke("x") == {"b": "xx", "c": "XX", "d": "fixed"}

    @pytest.mark.langgraph("F-A18", "F-A6")
    async def test_steps_follow_one_another(self):
        """
        Of several `do` each gets what the one before returned; each may be sync or async, and
        may ask for the runtime.
        """

        async def marked(text, runtime):
            return f"{text}-{runtime.context}"

        node = NodeBuilder().subscribe_only("a").do(doubled).do(marked).do(adoubled).write_to("b")

        assert await doubling(node=node).ainvoke("x", context="c") == "xx-cxx-c"

    @pytest.mark.langgraph("F-A18")
    async def test_without_a_step_values_pass_through(self):
        """
        A node without `do` copies its channel.
        """
        assert await doubling(node=NodeBuilder().subscribe_only("a").write_to("b")).ainvoke(1) == 1

    @pytest.mark.langgraph("F-A18", "F-D5")
    async def test_metadata_reaches_the_tasks_stream(self):
        """
        Tags and metadata of `meta()` are in the node's chunks.
        """
        node = NodeBuilder().subscribe_only("a").meta("tag", k="v").write_to("b")
        chunks = await doubling(node=node).ainvoke("x", stream_mode="tasks")

        assert chunks[0]["metadata"] == {"k": "v", "tags": ["tag"]}
        assert (chunks[0]["input"], chunks[1]["result"]) == ("x", {"b": "x"})

    @pytest.mark.langgraph("F-A18", "F-C9")
    async def test_a_failing_step_is_tried_again(self):
        """
        Retry policies of the node, or those of the graph, hold as in a StateGraph.
        """
        calls: list[str] = []

        def flaky(text):
            calls.append(text)
            if len(calls) < 3:
                raise ConnectionError
            return text

        policy = RetryPolicy(initial_interval=0, jitter=False)
        own = NodeBuilder().subscribe_only("a").do(flaky).write_to("b").add_retry_policies(policy)
        assert await doubling(node=own).ainvoke("x") == "x"
        calls.clear()
        plain = NodeBuilder().subscribe_only("a").do(flaky).write_to("b")
        assert await doubling(node=plain, retry_policy=policy).ainvoke("y") == "y"

    def test_a_sync_step_can_not_have_a_timeout(self):
        """
        Limits are checked as `add_node` checks them.
        """
        node = NodeBuilder().subscribe_only("a").do(doubled).write_to("b").set_timeout(1)
        with pytest.raises(GraphBuildError, match=r"'double'.*timeout"):
            doubling(node=node)
        assert NodeBuilder().subscribe_only("a").do(adoubled).set_timeout(1).build().timeout

    @pytest.mark.langgraph("F-A18")
    def test_mixed_subscriptions_are_refused(self):
        """
        A node gets one bare value or a dict, never both.
        """
        with pytest.raises(GraphBuildError, match="Cannot subscribe to single channels"):
            NodeBuilder().subscribe_to("a").subscribe_only("b")
        with pytest.raises(GraphBuildError, match="Cannot subscribe to channels"):
            NodeBuilder().subscribe_only("a").subscribe_to("b")
        with pytest.raises(GraphBuildError, match="Cannot read additional channels"):
            NodeBuilder().subscribe_only("a").read_from("b")
        with pytest.raises(GraphBuildError, match="do"):
            NodeBuilder().do(5)


class TestChecks:
    @pytest.mark.langgraph("F-A18")
    @pytest.mark.parametrize(
        ("options", "culprit"),
        [
            ({"node": NodeBuilder().subscribe_only("x")}, "reads channel 'x'"),
            ({"node": NodeBuilder().subscribe_only("a").write_to("x")}, "writes channel 'x'"),
            ({"node": NodeBuilder().do(doubled)}, "subscribes to no channel"),
            ({"input_channels": "x"}, "Input channel 'x'"),
            ({"input_channels": "b"}, "Input channel b is not subscribed"),
            ({"output_channels": ["x"]}, "Output channel 'x'"),
            ({"stream_channels": ["x"]}, "Stream channel 'x'"),
            ({"interrupt_before_nodes": ["x"]}, "Interrupt node `x`"),
            ({"channels": {"__root__": LastValue(int)}}, "'__root__' is reserved"),
            ({"nodes": {"double": doubled}}, "node 'double'"),
            ({"checkpointer": object()}, "Invalid checkpointer"),
        ],
    )
    def test_a_graph_that_can_not_run_is_refused(self, options, culprit):
        """
        Each error names what is wrong when the graph is made, not when it runs.
        """
        with pytest.raises(GraphBuildError) as refused:
            doubling(**options)

        assert culprit in str(refused.value)


class TestThreads:
    @pytest.mark.langgraph("F-A18")
    async def test_the_input_is_the_first_checkpoint(self):
        """
        It has no START node: the input checkpoint holds the input's channels.
        """
        graph = doubling(checkpointer=InMemorySaver())
        await graph.ainvoke("x", at())
        found = await history(graph, at())

        assert [(s.metadata["step"], s.values, s.next) for s in found] == [
            (0, {"b": "xx"}, ()),
            (-1, {"a": "x"}, ("double",)),
        ]

    @pytest.mark.langgraph("F-A18")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_it_pauses_and_goes_on(self, durability):
        """
        Questions and answers work as in a StateGraph, in every durability.
        """
        node = NodeBuilder().subscribe_only("a").do(lambda a: f"{a}{interrupt('?')}").write_to("b")
        graph = doubling(node=node, checkpointer=InMemorySaver())
        paused = await graph.ainvoke("x", at(), durability=durability)
        output = await graph.ainvoke(Command(resume="!"), at(), version="v2", durability=durability)

        assert paused["__interrupt__"][0].value == "?"
        assert output == GraphOutput("x!")

    @pytest.mark.langgraph("F-A18")
    async def test_a_second_input_runs_it_again(self):
        """
        Accumulating channels go on from the thread's state.
        """
        graph = doubling(
            channels={"a": EphemeralValue(str), "b": BinaryOperatorAggregate(str, operator.add)},
            checkpointer=InMemorySaver(),
        )
        await graph.ainvoke("x", at())

        assert await graph.ainvoke("y", at()) == "xxyy"

    @pytest.mark.langgraph("F-A18", "L74")
    async def test_an_update_is_written_as_the_node_writes(self):
        """
        `aupdate_state` takes what the node's function would have returned.
        """
        graph = doubling(checkpointer=InMemorySaver())
        await graph.ainvoke("x", at())
        await graph.aupdate_state(at(), "new", as_node="double")

        assert (await graph.aget_state(at())).values["b"] == "new"

    @pytest.mark.langgraph("F-A18", "F-C7")
    async def test_a_command_goes_to_a_node(self):
        """
        `goto` makes a node due that no channel has triggered, and `update` names channels.
        """
        channels = {"a": LastValue(str), "b": LastValue(str)}
        graph = doubling(checkpointer=InMemorySaver(), channels=channels)
        await graph.ainvoke("x", at())

        assert await graph.ainvoke(Command(goto="double"), at()) == "xx"
        assert await graph.ainvoke(Command(update={"a": "y"}), at()) == "yy"


class TestStreams:
    @pytest.mark.langgraph("F-A18")
    async def test_values_come_by_default(self):
        """
        `astream` yields the values after each superstep, unless it is asked for something else.
        """

        async def read(graph, **options):
            return [chunk async for chunk in graph.astream("x", **options)]

        graph = doubling()
        assert await read(graph) == [{"b": "xx"}]
        assert await read(graph, stream_mode="updates") == [{"double": {"b": "xx"}}]
        assert await read(doubling(stream_mode="updates")) == [{"double": {"b": "xx"}}]
        assert await read(doubling(stream_channels="b")) == ["xx"]
        assert await read(doubling(stream_channels=["a", "b"]), output_keys="b") == ["xx"]

    @pytest.mark.langgraph("F-A18", "F-C23")
    async def test_a_list_of_chunks_shows_the_output_only(self):
        """
        `ainvoke` with stream modes shows the output channels, bare where there is one name.
        """
        chunks = await doubling().ainvoke("x", stream_mode=["values", "updates"])

        assert sorted(chunks) == [("updates", {"double": "xx"}), ("values", "xx")]


class TestDrawing:
    @pytest.mark.langgraph("F-A18", "F-L1")
    def test_edges_follow_the_channels(self):
        """
        Inputs lead to their subscribers, writers to those of what they write, outputs to the end.
        """
        nodes = {
            "one": NodeBuilder().subscribe_only("a").write_to("b"),
            "two": NodeBuilder().subscribe_only("b").write_to("c"),
        }
        channels = {name: LastValue(str) for name in "abc"}
        shape = doubling(nodes=nodes, channels=channels, output_channels="c").get_graph()

        assert list(shape.nodes) == ["__start__", "one", "two", "__end__"]
        assert [(e.source, e.target) for e in shape.edges] == [
            ("__start__", "one"),
            ("one", "two"),
            ("two", "__end__"),
        ]
