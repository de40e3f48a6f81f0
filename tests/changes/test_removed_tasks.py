"""Stored calls of tasks that the program has no more, or not yet: the check says the deed."""

import operator
import sys
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, Command, InMemorySaver, Send, StateGraph, entrypoint, interrupt, task
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import GraphBuildError, SchemaMismatchError
from actorgraph.runtime.task.functions import step
from actorgraph.runtime.task.scope import DEFINED_TASKS
from actorgraph.types import Migration
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.graphs import at

DROPPED = Migration(tasks={"pay": None})


class Log(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def program(saver: Any, ran: list[str], *names: str, moves: tuple[Migration, ...] = ()) -> Any:
    """An entrypoint that calls tasks one by one, then asks, then calls `last`.

    The tasks named "quiz" ask too.
    """
    DEFINED_TASKS.clear()  # as in the process of another version

    def made(name: str) -> Any:
        async def runs(_: Any) -> Any:
            answer = interrupt("sure?") if name == "quiz" else name
            ran.append(name)
            return answer

        return task(runs, name=name)

    tasks = [made(name) for name in names]

    async def main(_: Any) -> Any:
        done = [await one(None) for one in tasks]
        return [*done, interrupt("?")]

    return entrypoint(checkpointer=saver, migrations=moves)(main)


async def verdict_of(saver: Any, graph: Any) -> ResumeVerdict:
    (group,) = (await check_threads({"main": graph}, saver)).groups
    return group.verdict


class TestRemovedTasks:
    @pytest.mark.every_saver
    async def test_its_paid_result_is_not_lost(self, saver):
        """
        The run is refused at its caller's end, and goes on once a migration or the task is there.
        """
        ran: list[str] = []
        await program(saver, ran, "load", "pay").ainvoke(1, at())
        gone = program(saver, ran, "load")

        assert await verdict_of(saver, gone) is ResumeVerdict.REFUSED
        for given in (Command(resume="yes"), None):
            with pytest.raises(SchemaMismatchError, match="without a call of task 'pay'") as error:
                await gone.ainvoke(given, at())
            assert "Migration(tasks={'pay': " in error.value.do
        fork = program(saver, ran, "load", "pay")
        assert await verdict_of(saver, fork) is ResumeVerdict.FITS
        assert await fork.ainvoke(None, at()) == ["load", "pay", "yes"]
        assert ran == ["load", "pay"]

    @pytest.mark.every_saver
    async def test_a_migration_drops_it(self, saver):
        """
        Then the check says so, and the calls behind it find their results.
        """
        ran: list[str] = []
        await program(saver, ran, "pay", "load").ainvoke(1, at())
        gone = program(saver, ran, "load", moves=(DROPPED,))

        assert await verdict_of(saver, gone) is ResumeVerdict.MIGRATED
        assert await gone.ainvoke(Command(resume="yes"), at()) == ["load", "yes"]
        assert ran == ["pay", "load"]

    async def test_another_one_in_its_place_runs(self):
        """
        The results behind a dropped one are not taken for those of a task that has replaced it.
        """
        ran: list[str] = []
        saver = InMemorySaver()
        await program(saver, ran, "pay", "load").ainvoke(1, at())
        other = program(saver, ran, "send", "load", moves=(DROPPED,))

        assert await other.ainvoke(Command(resume="yes"), at()) == ["send", "load", "yes"]
        assert ran == ["pay", "load", "send"]

    @pytest.mark.parametrize("moves", [(), (Migration(tasks={"quiz": None}),)])
    async def test_its_open_question(self, moves):
        """
        A task that has ended nothing leaves nothing behind: the check and the run go on, and what
        was stored before it stays.
        """
        ran: list[str] = []
        saver = InMemorySaver()
        await program(saver, ran, "load", "quiz").ainvoke(1, at())
        gone = program(saver, ran, "load", moves=moves)

        assert await verdict_of(saver, gone) is not ResumeVerdict.REFUSED
        assert "__interrupt__" in await gone.ainvoke(None, at()) or moves
        assert ran == ["load"]

    async def test_an_answered_question_behind_a_dropped_task(self):
        """
        A question keeps its id although the call in front of it is gone.
        """
        ran: list[str] = []
        saver = InMemorySaver()
        old = program(saver, ran, "pay", "quiz")
        await old.ainvoke(1, at())
        (asked,) = (await old.aget_state(at())).interrupts
        gone = program(saver, ran, "quiz", moves=(DROPPED,))

        await gone.ainvoke(Command(resume={asked.id: "a"}), at())
        assert await gone.ainvoke(Command(resume="b"), at()) == ["a", "b"]
        assert ran == ["pay", "quiz"]

    async def test_a_caller_that_catches_the_error_is_refused_too(self):
        """
        Neither `except` nor an error handler ends a superstep whose stored calls don't fit.
        """
        saver, ran = InMemorySaver(), list[str]()

        def graph(name: str) -> Any:
            DEFINED_TASKS.clear()
            called = task(lambda: ran.append(name), name=name)
            later = task(lambda: ran.append("later"), name="later")

            async def works(_: Log) -> Log:
                for one in (called, later):
                    try:
                        await one()
                    except SchemaMismatchError:
                        continue
                return {"log": [interrupt("?")]}

            builder = StateGraph(Log).add_node("works", works, error_handler=lambda _: {"log": []})
            return builder.add_edge(START, "works").compile(saver, name="main")

        await graph("pay").ainvoke({"log": []}, at())
        with pytest.raises(SchemaMismatchError, match="'pay'"):
            await graph("other").ainvoke(Command(resume="y"), at())
        assert (await graph("pay").ainvoke(None, at()))["log"] == ["y"]
        assert ran == ["pay", "later"]

    async def test_a_caller_that_has_ended_needs_no_task(self):
        """
        Calls of a node, or of a task, whose own result is stored are not missed.
        """
        saver = InMemorySaver()

        def graph(*names: str) -> Any:
            DEFINED_TASKS.clear()
            calls = [task(lambda: 1, name=name) for name in names]

            async def works(_: Log) -> Log:
                return {"log": [await one() for one in calls] or [0]}

            builder = StateGraph(Log).add_node("works", works).add_edge(START, "works")
            builder.add_node("asks", lambda _: {"log": [interrupt("?")]}).add_edge(START, "asks")
            return builder.compile(saver, name="main")

        await graph("pay").ainvoke({"log": []}, at())
        assert await verdict_of(saver, graph()) is ResumeVerdict.FITS
        assert (await graph().ainvoke(Command(resume="y"), at()))["log"] == ["y", 1]

    @pytest.mark.parametrize("moves", [DROPPED, Migration(tasks={"pay": "load"})])
    async def test_a_migration_of_a_living_task_is_refused(self, moves):
        """
        It is so when the graph is compiled; where the code doesn't show the task, at its call.
        """
        with pytest.raises(GraphBuildError, match="task 'pay', which graph 'main' has"):
            program(InMemorySaver(), [], "load", "pay", moves=(moves,))

        @entrypoint(checkpointer=InMemorySaver(), migrations=[moves])
        async def main(_: Any) -> Any:
            return await task(lambda: 1, name="repay"[2:])()

        with pytest.raises(SchemaMismatchError, match="calls task 'pay', which a migration"):
            await main.ainvoke(1, at())


class TestLateTasks:
    @pytest.fixture
    def module(self, tmp_path, monkeypatch):
        """A module of the program that nothing has imported yet."""
        (tmp_path / "late_payments.py").write_text(
            "from actorgraph import task\n\n@task\nasync def pay(_):\n    return 'paid again'\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        yield
        sys.modules.pop("late_payments", None)

    @pytest.mark.parametrize("form", ["nested", "method", "named", "joined", "imported"])
    async def test_they_are_known_before_they_are_defined(self, form, module):
        """
        The check finds tasks that a function defines or imports when it runs: the run goes on.
        """
        saver, ran = InMemorySaver(), list[str]()
        await program(saver, ran, "pay").ainvoke(1, at())
        DEFINED_TASKS.clear()
        late = late_program(form)
        now = entrypoint(checkpointer=saver)(late)

        assert await verdict_of(saver, now) is ResumeVerdict.FITS
        assert await now.ainvoke(Command(resume="yes"), at()) == ["pay", "yes"]
        assert ran == ["pay"]

    async def test_a_branch_that_is_not_taken(self):
        """
        A caller may leave out the call of a task that the program has, defined or not.
        """
        saver, ran = InMemorySaver(), list[str]()
        await program(saver, ran, "pay").ainvoke(1, at())
        DEFINED_TASKS.clear()

        async def main(given: int) -> Any:
            if given > 1:

                @task
                async def pay() -> int:
                    return 1

                await pay()
            return interrupt("?")

        now = entrypoint(checkpointer=saver)(main)
        assert await verdict_of(saver, now) is ResumeVerdict.FITS
        assert await now.ainvoke(Command(resume="yes"), at()) == "yes"

    async def test_a_plain_function_of_the_name_is_refused(self):
        """
        A function that has lost its decorator is refused like one that is gone.
        """
        saver, ran = InMemorySaver(), list[str]()
        await program(saver, ran, "pay").ainvoke(1, at())
        DEFINED_TASKS.clear()

        async def main(_: Any) -> Any:
            def pay() -> str:
                return "pay"

            @task
            async def other() -> str:
                return pay()

            return [interrupt("?"), other.name]

        now = entrypoint(checkpointer=saver)(main)
        assert await verdict_of(saver, now) is ResumeVerdict.REFUSED
        with pytest.raises(SchemaMismatchError, match="'pay'"):
            await now.ainvoke(Command(resume="yes"), at())


class Payments:
    """An object whose method defines a task."""

    async def pay(self) -> Any:
        """Define and call it."""

        @task
        async def pay() -> str:
            return "paid again"

        return await pay()


def late_program(form: str) -> Any:
    """A body that defines or imports its task when it runs."""
    payments, prefix = Payments(), "pa"

    async def nested() -> Any:
        @task
        async def pay() -> str:
            return "paid again"

        return await pay()

    async def named() -> Any:
        return await task(name="pay")(lambda: "paid again")()

    async def joined() -> Any:
        end = "y"
        return await task(name=f"pa{end}" if prefix else "")(lambda: "paid again")()

    async def imported() -> Any:
        from late_payments import pay  # type: ignore[import-not-found]

        return await pay(None)

    forms = {"nested": nested, "named": named, "joined": joined, "imported": imported}
    called = payments.pay if form == "method" else forms[form]

    async def main(_: Any) -> Any:
        return [await called(), interrupt("?")]

    return main


class TestSteps:
    async def test_steps_of_sends_are_passed_over(self):
        """
        The stored steps of a Send's task are not taken for results of missing tasks.
        """
        saver, ran = InMemorySaver(), list[str]()

        def work(_: Any) -> Log:
            step("charge", lambda: ran.append("charged"))
            return {"log": [interrupt("?")]}

        builder = StateGraph(Log).add_node("work", work)
        builder.add_conditional_edges(START, lambda _: [Send("work", {})], ["work"])
        graph = builder.compile(saver, name="main")
        await graph.ainvoke({"log": []}, at())

        assert await verdict_of(saver, graph) is ResumeVerdict.FITS
        assert (await graph.ainvoke(Command(resume="y"), at()))["log"] == ["y"]
        assert ran == ["charged"]
