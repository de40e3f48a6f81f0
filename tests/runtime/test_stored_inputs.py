"""Calls that fail: what the error says about the input, and what the thread has of it.

A program that repeats a call because it got an error must not add its input twice.
"""

from typing import Any

import pytest

from actorgraph import Command, ConflictError, StorageError, ThreadBusyError, interrupt
from actorgraph.errors import (
    AlreadyResumedError,
    CheckpointError,
    EmptyInputError,
    InvalidUpdateError,
    SaverBrokenError,
    StorageBusyError,
    StorageFullError,
)
from actorgraph.superstep.task_failures import GO_ON, may_begin_again
from actorgraph.testing import GatedSaver
from actorgraph.values.commits import Commit, Refused
from tests.support.every_saver import Store
from tests.support.gates import Box, Turnstile, patient_group
from tests.support.graphs import at, in_a_row, writer
from tests.support.systems import place, system_of, turnstile_first

pytestmark = pytest.mark.every_saver

__all__ = ["place"]

DURABILITIES = ["sync", "async", "exit"]


class Refusing(GatedSaver):
    """A saver that refuses one of the saves of a run.

    Attributes:
        number: which of them, counted from 1; 0 for none.
    """

    def __init__(self, inner: Any, number: int, error: Exception) -> None:
        super().__init__(inner, is_open=True)
        self.number, self.error = number, error

    async def commit(self, batch: Any) -> Any:
        """Refuse what is counted down to."""
        outcomes = []
        for request in batch:
            self.number -= isinstance(request, Commit)
            if self.number == 0 and isinstance(request, Commit):
                outcomes.append(Refused(self.error))
            else:
                outcomes += await super().commit([request])
        return outcomes


async def bars(graph: Any) -> list[str]:
    """The inputs that the thread has."""
    state = await graph.aget_state(at())
    return [item for item in state.values.get("bar", []) if item in "xyz"]


async def carried_on(graph: Any, error: CheckpointError, given: Any) -> Any:
    """Act on the error like a careful program: as it says, never otherwise."""
    if error.input_stored is None:
        return None
    again = None if error.input_stored else given
    return await graph.ainvoke(again, at())


REFUSALS = {
    "conflict": lambda: ConflictError("another run", do="repeat the call"),
    "busy": lambda: StorageBusyError("locked", do="wait"),
    "full": lambda: StorageFullError("full", do="free some"),
    "row": lambda: StorageError("a row", do="make it smaller"),
    "broken": lambda: SaverBrokenError("unknown", do="open it again"),
}


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("kind", REFUSALS)
@pytest.mark.parametrize("number", [1, 2])
class TestRefusedSaves:
    @pytest.mark.first_case
    @pytest.mark.one_loop
    async def test_the_error_says_whether_the_input_is_stored(
        self, place: Store, number: int, kind: str, durability: Any
    ):
        """
        True only where it is, False only where it is not; a caller that follows it has it once.
        """
        error = REFUSALS[kind]()
        saver = Refusing(place.saver(), number, error)
        graph = in_a_row({"a": writer("a"), "b": writer("b")}, checkpointer=saver)
        async with saver:
            with pytest.raises(type(error)) as refused:
                await graph.ainvoke({"bar": ["x"]}, at(), durability=durability)
            told = refused.value
            stored = await bars(graph)
            if told.input_stored:
                assert stored == ["x"] or durability == "exit"
                assert GO_ON in told.do
            elif told.input_stored is False:
                assert (stored, number) == ([], 1)
            else:
                assert kind == "broken" or (kind, durability) == ("conflict", "exit")
            result = await carried_on(graph, told, {"bar": ["x"]})

            assert told is not error
            assert error.input_stored is None
            if result is not None:
                assert result["bar"] == ["x", "a", "b"]


async def test_a_run_that_is_overtaken_says_that_its_input_is_stored(place: Store):
    """
    Two processes on one thread: the loser's input is in the state of the winner, and its error
    says so and how to go on.
    """
    slow = Turnstile({"bar": ["a"]})
    async with place.saver() as one:
        two = place.again()
        if two is one:
            pytest.skip("it takes two savers")
        async with two, patient_group() as group:
            first = turnstile_first(slow, checkpointer=one)
            second = in_a_row({"a": writer("a"), "b": writer("b")}, checkpointer=two)
            box = Box()
            group.start_soon(box.fill, first.ainvoke, {"bar": ["x"]}, at())
            await slow.entered.wait()
            await second.ainvoke({"bar": ["y"]}, at())
            slow.out.set()
            await box.done.wait()
            told = box.error

            assert isinstance(told, ConflictError)
            assert told.input_stored is True
            assert (told.do, "ainvoke" in GO_ON or "None" in GO_ON) == (GO_ON, True)
            assert await bars(second) == ["x", "y"]
            await carried_on(second, told, {"bar": ["x"]})
            assert await bars(second) == ["x", "y"]


async def test_errors_of_inner_calls_do_not_describe_the_outer_run(place: Store):
    """
    A conflict of a call inside of a node has stored nothing of that; the run's own input is there.
    """

    async def conflicts(state: Any) -> Any:
        error = ConflictError("inside", do="repeat the call")
        error.input_stored = False
        raise error

    async with place.saver() as saver:
        graph = in_a_row({"a": conflicts}, checkpointer=saver)
        with pytest.raises(ConflictError) as refused:
            await graph.ainvoke({"bar": ["x"]}, at())

        assert refused.value.input_stored is True
        assert await bars(graph) == ["x"]
        assert not may_begin_again(refused.value)


async def test_inputs_stored_by_inner_calls_do_not_count_for_the_outer_run(place: Store):
    """
    The input of a call inside of a node is in its thread; that of the run around it is nowhere.
    """
    async with Refusing(place.saver(), 2, REFUSALS["row"]()) as saver:
        inside = in_a_row({"a": writer("a"), "b": writer("b")}, checkpointer=saver)

        async def calls(state: Any) -> Any:
            with pytest.raises(StorageError) as refused:
                await inside.ainvoke({"bar": ["x"]}, at())
            told.append(refused.value.input_stored)
            raise refused.value

        told: list[bool | None] = []
        with pytest.raises(StorageError) as refused:
            await in_a_row({"a": calls}).ainvoke({"bar": ["y"]})

    assert told == [True]
    assert refused.value.input_stored is None


class OfTheSaver(StorageError):
    """An error of a saver from elsewhere, with a constructor of its own."""

    def __init__(self, code: int, table: str) -> None:
        super().__init__(f"code {code} in {table}", do="ask the operator")
        self.table = table


@pytest.mark.parametrize("number", [1, 2])
async def test_an_error_class_with_any_constructor_is_reported(place: Store, number: int):
    """
    The run ends with the saver's own error, whatever its class takes.
    """
    error = OfTheSaver(7, "runs")
    error.add_note("by the saver")
    async with Refusing(place.saver(), number, error) as saver:
        graph = in_a_row({"a": writer("a"), "b": writer("b")}, checkpointer=saver)
        with pytest.raises(OfTheSaver, match="code 7 in runs") as refused:
            await graph.ainvoke({"bar": ["x"]}, at())

    assert (refused.value.table, refused.value.__notes__[0]) == ("runs", "by the saver")


async def test_a_run_that_shares_an_error_does_not_see_how_another_had_failed(place: Store):
    """
    One error may refuse the saves of many runs; what is added to it for one stays with that one.
    """

    async def fails(state: Any) -> Any:
        raise ValueError("of another tenant")

    error = REFUSALS["row"]()
    error.add_note("by the saver")
    saver = Refusing(place.saver(), 0, error)
    async with saver:
        for thread, node in (("one", fails), ("two", writer("a"))):
            graph = in_a_row({"a": node}, checkpointer=saver)
            saver.number = 2
            with pytest.raises(StorageError) as refused:
                await graph.ainvoke({"bar": []}, at(thread))

    assert error.__notes__ == ["by the saver"]
    assert "of another tenant" not in str(getattr(refused.value, "__notes__", ""))


class TestStarts:
    @pytest.mark.parametrize("if_busy", ["reject", "enqueue", "interrupt", "rollback"])
    async def test_a_start_that_raises_has_stored_nothing(self, place: Store, if_busy: Any):
        """
        Refused for any reason, `start` leaves no row and no input, so that it may be repeated.
        """
        slow = Turnstile({"bar": ["a"]})
        graph = turnstile_first(slow)
        async with (
            system_of(place, graph) as owner,
            system_of(place, graph, max_runs=1, max_queued=0) as full,
        ):
            held = await owner.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            await full.start("g", "u", {"bar": ["x"]})
            with pytest.raises(Exception, match=r"not accepted|has run|has an active run"):
                await full.start("g", "t", {"bar": ["y"]}, if_busy=if_busy)
            rows = await owner.runs(thread_id="t")
            slow.out.set()
            await held.result()
            assert [run.id for run in rows] == [held.id]
            assert (await held.result())["bar"] == ["x", "a", "b"]

    async def test_a_cancelled_run_reports_that_it_never_began(self, place: Store):
        """
        One that waited is cancelled without its input; one that went on has it in its thread.
        """
        slow = Turnstile({"bar": ["a"]})
        graph = turnstile_first(slow)
        async with system_of(place, graph) as owner, system_of(place, graph) as other:
            began = await owner.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            waits = await other.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
            await waits.cancel()
            await began.cancel()
            errors = []
            for run in (began, waits):
                with pytest.raises(Exception, match="was cancelled") as ended:
                    await run.result()
                errors.append(ended.value)
            state = await owner.graphs["g"].aget_state(at("t"))

        assert state.values["bar"] == ["x"]
        assert [error.input_stored for error in errors] == [True, False]

    @pytest.mark.parametrize(
        ("given", "error"),
        [(None, EmptyInputError), ({"bar": 1}, InvalidUpdateError), (["x"], InvalidUpdateError)],
    )
    async def test_an_input_that_is_refused_is_not_stored(self, place: Store, given, error):
        """
        A value that can't be an input never reaches the thread.
        """
        async with place.saver() as saver:
            graph = in_a_row({"a": writer("a")}, checkpointer=saver)
            with pytest.raises((error, TypeError)):
                await graph.ainvoke(given, at())
            assert await bars(graph) == []

    async def test_a_second_answer_is_not_stored(self, place: Store):
        """
        An answer to a question that is not asked any more never reaches the thread.
        """

        async def ask(state: Any) -> Any:
            return {"bar": [interrupt("name?")]}

        async with system_of(place, in_a_row({"a": ask})) as system:
            await (await system.start("g", "t", {"bar": []})).result()
            graph = system.graphs["g"]
            await graph.ainvoke(Command(resume="x"), at("t"))
            with pytest.raises(AlreadyResumedError):
                await graph.ainvoke(Command(resume={"no such": "y"}), at("t"))
            state = await graph.aget_state(at("t"))

        assert state.values["bar"] == ["x"]


def test_only_a_refused_claim_may_be_made_again():
    """
    Not an answer that came second, nor a run that another system has.
    """
    busy = ThreadBusyError("busy", do="wait")
    busy.input_stored = False
    second = AlreadyResumedError("answered", do="read")
    second.input_stored = False

    assert may_begin_again(busy)
    assert not may_begin_again(second)
    assert not may_begin_again(ThreadBusyError("busy", do="wait"))
    assert not may_begin_again(None)
