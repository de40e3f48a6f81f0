"""Questions of subgraphs, nested up to four times, after the state of one of them was edited."""

from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import Command, InMemorySaver, interrupt
from tests.support.graphs import at, compiled, history
from tests.support.subgraphs import asked

pytestmark = pytest.mark.each_value


class Marks(TypedDict, total=False):
    """`mark` is of the newest node; `answers` has those of the innermost nodes."""

    mark: str
    answers: Annotated[list[str], lambda old, new: sorted({*(old or []), *new})]


KINDS: dict[str, tuple[Any, Any]] = {
    "per task": (None, None),
    "per thread": (True, True),
    "per thread in per task": (None, True),
    "per task in per thread": (True, None),
}
DEPTHS = [(depth, level) for depth in (1, 2, 3, 4) for level in range(1, depth + 1)]


def nested(
    depth: int, kinds: tuple[Any, Any], saver: Any, seen: list[str], questions: str = "a"
) -> Any:
    """A graph around `depth` others: each has `pre`, what is inside of it, and `post`."""

    def says(name: str) -> Any:
        def node(state: Marks) -> dict[str, str]:
            seen.append(name)
            return {"mark": f"{state['mark']}>{name}"}

        return node

    def asks(name: str) -> Any:
        def node(state: Marks) -> dict[str, list[str]]:
            seen.append(name)
            answer = interrupt(f"{name} {state['mark']}")
            return {"answers": [f"{name}:{answer}"]}

        return node

    def level(number: int) -> Any:
        own = saver if number == 0 else kinds[number % 2]
        inside = {name: asks(name) for name in questions}
        if number < depth:
            inside = {"inner": level(number + 1)}
        nodes = {"pre": says(f"pre{number}"), **inside, "post": says(f"post{number}")}
        edges = [("__start__", "pre"), *(("pre", name) for name in inside), (list(inside), "post")]
        return compiled(nodes, edges, schema=Marks, checkpointer=own)

    return level(0)


async def below(graph: Any, level: int) -> Any:
    """The snapshot of the waiting subgraph at a level, 1 for the root's."""
    state = await graph.aget_state(at(), subgraphs=True)
    for _ in range(level):
        (task,) = state.tasks
        state = task.state
    return state


async def ids(graph: Any) -> dict[str, str]:
    """The first letter of each waiting question -> its id."""
    return {i.value[0]: i.id for i in (await graph.aget_state(at())).interrupts}


def to_the_question(depth: int, level: int) -> list[str]:
    """The nodes that run after an edit at a level as `pre`."""
    return [*(f"pre{number}" for number in range(level + 1, depth + 1)), "a"]


def ends(depth: int) -> list[str]:
    return [f"post{number}" for number in range(depth, -1, -1)]


class TestOneQuestion:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("depth", "level"), DEPTHS)
    async def test_the_first_answer_counts(self, depth, level, kind):
        """
        After an edit at any depth and a run that asks again, one answer ends the thread, and no
        node runs again but the one that asked.
        """
        seen: list[str] = []
        async with InMemorySaver() as saver:
            graph = nested(depth, KINDS[kind], saver, seen)
            await graph.ainvoke({"mark": "in"}, at())
            edited = await below(graph, level)
            await graph.aupdate_state(edited.config, {"mark": "edited"}, as_node="pre")
            seen.clear()

            again = await graph.ainvoke(None, at())
            before, shown = list(seen), (await below(graph, depth)).interrupts
            seen.clear()
            result = await graph.ainvoke(Command(resume="yes"), at())

        assert asked(again)[0].startswith("a edited")
        assert [question.value for question in shown] == asked(again)
        assert before == to_the_question(depth, level)
        assert seen == ["a", *ends(depth)]
        assert result["answers"] == ["a:yes"]
        assert result["mark"].startswith("edited")

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("depth", "level"), DEPTHS)
    @pytest.mark.parametrize("older", [False, True])
    async def test_an_answer_at_once(self, depth, level, kind, older):
        """
        An answer that is given right after an edit, of the newest checkpoint or of an older one,
        counts for the question as it is asked now.
        """
        seen: list[str] = []
        async with InMemorySaver() as saver:
            graph = nested(depth, KINDS[kind], saver, seen)
            await graph.ainvoke({"mark": "in"}, at())
            edited = await below(graph, level)
            if older:
                place = edited.config["configurable"]["checkpoint_ns"]
                states = await history(graph, at(checkpoint_ns=place))
                (edited,) = [state for state in states if state.next == ("pre",)]
            await graph.aupdate_state(edited.config, {"mark": "edited"}, as_node="pre")
            seen.clear()

            result = await graph.ainvoke(Command(resume="yes"), at())

        assert seen == [*to_the_question(depth, level), *ends(depth)]
        assert result["answers"] == ["a:yes"]
        assert result["mark"].startswith("edited")

    @pytest.mark.every_saver
    @pytest.mark.parametrize("kind", KINDS)
    async def test_edits_at_two_levels(self, saver, kind):
        """
        Edits at two levels, each followed by a run, leave one question, which takes one answer.
        """
        seen: list[str] = []
        graph = nested(3, KINDS[kind], saver, seen)
        await graph.ainvoke({"mark": "in"}, at())
        for level in (3, 2):
            edited = await below(graph, level)
            await graph.aupdate_state(edited.config, {"mark": f"e{level}"}, as_node="pre")
            again = await graph.ainvoke(None, at())
        seen.clear()

        result = await graph.ainvoke(Command(resume="yes"), at())

        assert asked(again) == ["a e2>pre3"]
        assert seen == ["a", *ends(3)]
        assert result["answers"] == ["a:yes"]


class TestSeveralQuestions:
    @pytest.mark.every_saver
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("level", [1, 2])
    async def test_an_answer_by_id_is_for_no_other_question(self, saver, level, kind):
        """
        Of two questions, an answer by the id from before an edit is never used for the other one.
        """
        graph = nested(2, KINDS[kind], saver, [], "ab")
        await graph.ainvoke({"mark": "in"}, at())
        edited, known = await below(graph, level), await ids(graph)
        await graph.aupdate_state(edited.config, {"mark": "edited"}, as_node="pre")

        await graph.ainvoke(Command(resume={known["b"]: "B"}), at())
        left = await ids(graph)
        given = {identifier: letter.upper() for letter, identifier in left.items()}
        result = await graph.ainvoke(Command(resume=given), at())

        assert "a" in left
        assert result["answers"] == ["a:A", "b:B"]

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("level", [1, 2])
    async def test_all_answers_by_id(self, level, kind):
        """
        Answers to all questions at once after an edit fail no run: they are used, or asked for
        again where the questions have begun anew.
        """
        async with InMemorySaver() as saver:
            graph = nested(2, KINDS[kind], saver, [], "ab")
            await graph.ainvoke({"mark": "in"}, at())
            edited = await below(graph, level)
            await graph.aupdate_state(edited.config, {"mark": "edited"}, as_node="pre")
            runs = 0
            while known := await ids(graph):
                answers = {identifier: letter.upper() for letter, identifier in known.items()}
                result = await graph.ainvoke(Command(resume=answers), at())
                runs += 1

        assert result["answers"] == ["a:A", "b:B"]
        assert runs == (2 if level == 1 else 1)


class TestErrors:
    async def test_the_error_of_a_later_attempt_is_stored(self):
        """
        A subgraph that fails again, with another error, shows the newer one.
        """
        errors = ["first", "second"]

        def fails(state: Marks) -> None:
            raise ValueError(errors.pop(0))

        async with InMemorySaver() as saver:
            edges = [("__start__", "fails")]
            inner = compiled({"fails": fails}, edges, schema=Marks)
            edges = [("__start__", "inner")]
            graph = compiled({"inner": inner}, edges, schema=Marks, checkpointer=saver)
            with pytest.raises(ValueError, match="first"):
                await graph.ainvoke({"mark": "in"}, at())
            with pytest.raises(ValueError, match="second"):
                await graph.ainvoke(None, at())

            (task,) = (await below(graph, 1)).tasks

        assert "second" in str(task.error)
