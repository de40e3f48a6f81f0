"""Answers by id: `answers=` of `resume`, of graphs, of systems and over HTTP."""

from dataclasses import dataclass
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import httpx
import pytest
from pydantic import BaseModel

from actorgraph import ActorSystem, Command, StateGraph, interrupt
from actorgraph.errors import AlreadyResumedError, InvalidResumeError, UnknownInterruptError
from actorgraph.types import is_invalid_resume
from actorgraph.web import GraphRoutes
from tests.support.every_saver import saver, store
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at

__all__ = ["saver", "store"]


class Log(TypedDict, total=False):
    log: Annotated[list[str], add]


@dataclass
class Decision:
    approve: bool


def asking(saver: Any, *names: str) -> Any:
    """Nodes side by side that each ask for a Decision."""

    def node(name: str):
        async def ask(state: Log) -> dict[str, Any]:
            answer = interrupt(f"{name}?", response_schema=Decision)
            return {"log": [f"{name}:{answer.approve}"]}

        return ask

    graph = StateGraph(Log)
    for name in names:
        graph.add_node(name, node(name)).add_edge("__start__", name)
    return graph.compile(checkpointer=saver)


async def ids(graph: Any) -> list[str]:
    return [question.id for question in (await graph.aget_state(at())).interrupts]


YES, BAD = {"approve": True}, {"approve": "perhaps"}


class TestGraphs:
    async def test_answers_by_id(self, saver):
        """
        Answers reach their questions, and a Command may go with them.
        """
        graph = asking(saver, "a", "b")
        await graph.ainvoke({"log": []}, at())
        first, second = await ids(graph)

        await graph.aresume("t", answers={first: YES})
        done = await graph.aresume("t", Command(update={"log": ["u"]}), answers={second: YES})

        assert sorted(done["log"]) == ["a:True", "b:True", "u"]

    async def test_wrong_answers_run_nothing(self, saver):
        """
        A wrong id, a bad answer and a second one are refused before anything is written.
        """
        graph = asking(saver, "a")
        await graph.ainvoke({"log": []}, at())
        (question,) = await ids(graph)
        before = (await graph.aget_state(at())).config

        with pytest.raises(UnknownInterruptError):
            await graph.aresume("t", answers={"no": "no"})
        with pytest.raises(InvalidResumeError, match="approve"):
            await graph.aresume("t", answers={question: BAD})
        assert (await graph.aget_state(at())).config == before
        await graph.aresume("t", answers={question: YES})
        with pytest.raises(AlreadyResumedError):
            await graph.aresume("t", answers={question: YES})

    async def test_of_an_older_question(self, saver):
        """
        An answer to a question that a new input has left behind is refused.
        """
        graph = asking(saver, "a")
        await graph.ainvoke({"log": []}, at())
        (old,) = await ids(graph)
        await graph.ainvoke({"log": []}, at())

        with pytest.raises(AlreadyResumedError, match="no open question has the id"):
            await graph.aresume("t", answers={old: YES})

    @pytest.mark.parametrize(
        "change", [lambda i: i[:-1], lambda i: i.upper() + "0", lambda i: i[:20]]
    )
    async def test_a_strict_resume_takes_no_wrong_id_for_an_answer(self, saver, change):
        """
        Under strict_resume a dict with something like an id is not the answer itself.
        """
        graph = asking(saver, "a")
        await graph.ainvoke({"log": []}, at())
        (question,) = await ids(graph)

        wrong = Command(resume={change(question): YES})
        with pytest.raises(UnknownInterruptError):
            await graph.ainvoke(wrong, at(), strict_resume=True)
        done = await graph.ainvoke(Command(resume=YES), at(), strict_resume=True)

        assert done["log"] == ["a:True"]


class TestSystems:
    @pytest.mark.every_saver
    async def test_wrong_answers_are_not_accepted(self, saver):
        """
        A system refuses them when it is asked, and no run is stored.
        """
        graph = asking(saver, "a")
        async with ActorSystem({"g": graph}, saver=saver) as system:
            await (await system.start("g", "t", {"log": []})).result()
            (question,) = await ids(graph)

            for wrong, error in (
                ({}, UnknownInterruptError),
                ({"no": "no"}, UnknownInterruptError),
                ({"0" * 32: YES}, AlreadyResumedError),
                ({question: BAD}, InvalidResumeError),
            ):
                with pytest.raises(error):
                    await system.resume("g", "t", answers=wrong)

            assert len(await system.runs(thread_id="t")) == 1
            done = await (await system.resume("g", "t", answers={question: YES})).result()
            with pytest.raises(AlreadyResumedError):
                await system.resume("g", "t", answers={question: YES})

        assert done["log"] == ["a:True"]

    @pytest.mark.every_saver
    async def test_two_people_answer_at_once(self, saver):
        """
        Of several answers to a question one is accepted, also where runs may queue up.
        """
        graph = asking(saver, "a", "b")
        accepted: list[Any] = []
        refused: list[BaseException] = []
        async with ActorSystem({"g": graph}, saver=saver) as system:
            await (await system.start("g", "t", {"log": []})).result()
            first, second = await ids(graph)

            async def answer(question: str) -> None:
                answers = {question: YES}
                try:
                    run = await system.resume("g", "t", answers=answers, if_busy="enqueue")
                except AlreadyResumedError as error:
                    refused.append(error)
                else:
                    accepted.append(run)

            with anyio.fail_after(PATIENCE_S):
                async with anyio.create_task_group() as group:
                    for _ in range(3):
                        group.start_soon(answer, first)
                        group.start_soon(answer, second)
                for run in accepted:
                    await run.result()
            state = await graph.aget_state(at())

        assert (len(accepted), len(refused)) == (2, 4)
        assert state.values["log"] == ["a:True", "b:True"]


class TestOverHTTP:
    async def test_answers_of_a_client(self, saver):
        """
        `command.answers` is refused with 409 or 422 when the run is requested.
        """
        graph = asking(saver, "a")
        system = ActorSystem({"g": graph}, saver=saver)
        transport = httpx.ASGITransport(GraphRoutes(system))
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:

            async def run(**body: Any) -> httpx.Response:
                said = {"assistant_id": "g", "if_not_exists": "create", **body}
                return await client.post("/threads/t/runs/wait", json=said)

            async def answer(given: Any, **more: Any) -> httpx.Response:
                return await run(command={"answers": given, **more})

            asked = (await run(input={"log": []})).json()
            question = asked["__interrupt__"][0]["id"]
            refused = [
                await answer({}),
                await answer({"no": YES}),
                await answer({"0" * 32: YES}),
                await answer({question: BAD}),
                await answer({question: YES}, resume=YES),
            ]
            done = await answer({question: YES}, update={"log": ["u"]})
            again = await answer({question: YES})

        assert [one.status_code for one in refused] == [409, 409, 409, 422, 422]
        assert (done.status_code, sorted(done.json()["log"])) == (200, ["a:True", "u"])
        assert again.status_code == 409


class Refund(BaseModel):
    amount: int


def asks_for(kind: Any, saver: Any) -> Any:
    """A node that asks for an answer of a type, through a function of its own."""

    def asked() -> Any:
        return interrupt("which?", response_schema=kind)

    async def ask(state: Log) -> dict[str, Any]:
        return {"log": [str(asked())]}

    return StateGraph(Log).add_node("ask", ask).add_edge("__start__", "ask").compile(saver)


PLAIN: dict[str, tuple[Any, Any, Any, str]] = {
    "a dataclass": (Decision, BAD, {"approve": True}, "Decision(approve=True)"),
    "another form": (Decision, "yes", {"approve": False}, "Decision(approve=False)"),
    "a number": (int, "five", 5, "5"),
    "a model, which converts": (Refund, {"amount": "much"}, {"amount": "5"}, "amount=5"),
}


class TestPlainAnswers:
    """Answers without an id, of `resume`, of a Command, and of clients."""

    @pytest.mark.parametrize(("kind", "bad", "good", "seen"), PLAIN.values(), ids=PLAIN)
    async def test_a_wrong_answer_is_not_accepted(
        self, saver: Any, kind: Any, bad: Any, good: Any, seen: str
    ):
        """
        Nothing that the type of the question refuses starts a run; what it converts is an answer.
        """
        async with ActorSystem({"g": asks_for(kind, saver)}, saver=saver) as system:
            await (await system.start("g", "t", {"log": []})).result()

            for wrong in (bad, Command(resume=bad)):
                with pytest.raises(InvalidResumeError) as refused:
                    await system.resume("g", "t", wrong)
                with pytest.raises(InvalidResumeError):
                    await system.start("g", "t", Command(resume=bad))

            assert is_invalid_resume(refused.value)
            assert len(await system.runs(thread_id="t")) == 1
            assert (await (await system.resume("g", "t", good)).result())["log"] == [seen]

    @pytest.mark.every_saver
    async def test_a_second_answer_is_not_accepted(self, saver: Any):
        """
        A thread that asks nothing any more takes no answer, in any process.
        """
        graph = asking(saver, "a")
        async with ActorSystem({"g": graph}, saver=saver) as system:
            await (await system.start("g", "t", {"log": []})).result()
            await (await system.resume("g", "t", YES)).result()

        async with ActorSystem({"g": graph}, saver=saver) as system:
            with pytest.raises(AlreadyResumedError):
                await system.resume("g", "t", YES)

    async def test_several_questions_need_ids(self, saver: Any):
        """
        One answer without an id is refused where two questions wait.
        """
        async with ActorSystem({"g": asking(saver, "a", "b")}, saver=saver) as system:
            await (await system.start("g", "t", {"log": []})).result()

            with pytest.raises(UnknownInterruptError, match="multiple pending interrupts"):
                await system.resume("g", "t", YES)

    async def test_a_schema_that_checks_nothing_refuses_nothing(self, saver: Any):
        """
        A dict as `response_schema` is shown, and the node gets any answer, a dict too.
        """
        shown = {"type": "boolean"}
        async with ActorSystem({"g": asks_for(shown, saver)}, saver=saver) as system:
            for thread, answer in (("t", "perhaps"), ("u", {"a": 1})):
                await (await system.start("g", thread, {"log": []})).result()
                done = await (await system.resume("g", thread, answer)).result()
                assert done["log"] == [str(answer)]

    async def test_an_answer_ahead_of_its_question(self, saver: Any):
        """
        A thread that has paused before the node that will ask takes an answer.
        """
        graph = asks_for(int, saver)
        async with ActorSystem({"g": graph}, saver=saver) as system:
            await (await system.start("g", "t", {"log": []}, interrupt_before=["ask"])).result()

            assert (await (await system.resume("g", "t", 5)).result())["log"] == ["5"]

    async def test_clients_get_409_and_422(self, saver: Any):
        """
        Over HTTP a wrong answer is a 422, and one to no question a 409.
        """
        system = ActorSystem({"g": asking(saver, "a")}, saver=saver)
        transport = httpx.ASGITransport(GraphRoutes(system))
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:

            async def run(**body: Any) -> int:
                said = {"assistant_id": "g", "if_not_exists": "create", **body}
                return (await client.post("/threads/t/runs/wait", json=said)).status_code

            found = [
                await run(input={"log": []}),
                await run(command={"resume": BAD}),
                await run(command={"resume": YES}),
                await run(command={"resume": YES}),
            ]

        assert found == [200, 422, 200, 409]
