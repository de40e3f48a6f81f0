"""Keyword arguments of calls: those of `ainvoke` besides the run's own, old ones, unknown ones."""

import pytest

from actorgraph import Latest
from actorgraph.errors import InvalidConfigError
from tests.support.graphs import ab, at, count, in_a_row, writer


def nested():
    """A graph with a graph inside."""
    return in_a_row({"sub": in_a_row({"a": writer("a")}), "b": writer("b")})


class TestSubgraphs:
    async def test_the_output_is_the_graphs_own(self):
        """
        With subgraphs=True `ainvoke` returns what it returns without.
        """
        graph = nested()

        with_them = await graph.ainvoke({}, subgraphs=True)

        assert with_them == await graph.ainvoke({})

    async def test_a_list_of_chunks_has_theirs(self):
        """
        With a stream mode the chunks of subgraphs are in the list, each with its namespace.
        """
        graph = nested()

        made = await graph.ainvoke({}, stream_mode="updates", subgraphs=True)

        streamed = [c async for c in graph.astream({}, stream_mode="updates", subgraphs=True)]
        assert [(len(space), chunk) for space, chunk in made] == [
            (len(space), chunk) for space, chunk in streamed
        ]
        assert [len(space) for space, _ in made] == [1, 0, 0]

    async def test_they_are_printed(self, capsys):
        """
        print_mode prints their chunks too, with the namespace.
        """
        await nested().ainvoke({}, print_mode="updates", subgraphs=True)

        assert capsys.readouterr().out.count("[graph=('sub:") == 1


class TestOldDurability:
    @pytest.mark.parametrize(("during", "checkpoints"), [(True, 4), (False, 1), (None, 4)])
    async def test_it_means_a_durability(self, saver, during, checkpoints):
        """
        checkpoint_during=True is "async", False is "exit", and None the default.
        """
        graph = ab(saver)

        await graph.ainvoke({}, at(), checkpoint_during=during)
        async for _ in graph.astream({}, at("s"), checkpoint_during=during):
            pass

        assert await count(graph, at()) == await count(graph, at("s")) == checkpoints

    async def test_both_are_refused(self):
        """
        Next to `durability` it is refused, with the advice to leave it out.
        """
        with pytest.raises(InvalidConfigError, match="both") as refused:
            await ab(None).ainvoke({}, checkpoint_during=True, durability="sync")

        assert "leave checkpoint_during= out" in refused.value.do


class TestUnknownOptions:
    @pytest.mark.parametrize("call", ["ainvoke", "astream"])
    async def test_a_misspelt_one_is_refused(self, call):
        """
        Before anything runs, with the name that was meant.
        """
        log: list[str] = []
        with pytest.raises(InvalidConfigError, match="'durabilty'") as refused:
            await getattr(ab(None, log), call)({}, durabilty="exit")

        assert "did you mean 'durability'?" in refused.value.do
        assert log == []


CALLS = {
    "ainvoke": lambda graph, **options: graph.ainvoke({}, **options),
    "astream": lambda graph, **options: graph.astream({}, **options),
    "abatch": lambda graph, **options: graph.abatch([{}], **options),
    "aresume": lambda graph, **options: graph.aresume("t", **options),
    "aresume_from": lambda graph, **options: graph.aresume_from("t", Latest, **options),
    "aretry": lambda graph, **options: graph.aretry("t", **options),
    "invoke": lambda graph, **options: graph.invoke({}, **options),
    "stream": lambda graph, **options: graph.stream({}, **options),
    "batch": lambda graph, **options: graph.batch([{}], **options),
    "resume": lambda graph, **options: graph.resume("t", **options),
    "resume_from": lambda graph, **options: graph.resume_from("t", Latest, **options),
    "retry": lambda graph, **options: graph.retry("t", **options),
}


class TestMisspeltNames:
    @pytest.mark.parametrize("method", [name for name in CALLS if name[0] == "a"])
    async def test_of_async_methods(self, method):
        """
        The error names the method that was called, and the argument that was meant.
        """
        with pytest.raises(
            InvalidConfigError, match=f"^{method}\\(\\) has no .*durabilty"
        ) as error:
            await CALLS[method](ab(), durabilty="sync")
        assert "durability" in error.value.do

    @pytest.mark.parametrize("method", [name for name in CALLS if name[0] != "a"])
    def test_of_blocking_methods(self, method):
        """
        The error of a blocking method names that method, not the async one behind it.
        """
        with pytest.raises(
            InvalidConfigError, match=f"^{method}\\(\\) has no .*durabilty"
        ) as error:
            CALLS[method](ab(), durabilty="sync")
        assert "durability" in error.value.do
