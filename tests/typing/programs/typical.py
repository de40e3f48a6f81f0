"""A typical program: each point at which a type is expected has it, and none of them is Any."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict, assert_type

from actorgraph import (
    END,
    START,
    Command,
    CompiledStateGraph,
    ExecutionInfo,
    Interrupt,
    MemorySaver,
    RunControl,
    Runtime,
    Send,
    StateGraph,
    interrupt,
)
from actorgraph.streams import ChunkStream
from actorgraph.types import (
    CheckpointPayload,
    GraphOutput,
    StateSnapshot,
    TaskPayload,
    TaskResultPayload,
    UpdatesStreamPart,
    ValuesStreamPart,
)


class Question(TypedDict):
    question: str


class Answer(TypedDict):
    answer: str


class State(TypedDict):
    question: str
    answer: NotRequired[str]
    log: NotRequired[Annotated[list[str], operator.add]]


class Fact(TypedDict):
    fact: str


class Verdict(TypedDict):
    approved: bool


@dataclass
class Settings:
    model: str


def draft(state: State, runtime: Runtime[Settings]) -> dict[str, Any]:
    assert_type(state["question"], str)
    assert_type(runtime.context, Settings)
    assert_type(runtime.execution_info, ExecutionInfo)
    assert_type(runtime.execution_info.idempotency_key, str)
    assert_type(runtime.control, RunControl)
    return {"answer": f"{runtime.context.model}: {state['question']}"}


async def review(state: State) -> Command[Literal["draft", "publish"]]:
    verdict = interrupt(state.get("answer"), response_schema=Verdict)
    assert_type(verdict, Verdict)
    goto: Literal["draft", "publish"] = "publish" if verdict["approved"] else "draft"
    return Command(update={"log": ["reviewed"]}, goto=goto)


def check(fact: Fact) -> dict[str, Any]:
    return {"log": [fact["fact"]]}


def publish(state: State) -> State:
    return {"question": state["question"], "log": ["published"]}


def facts(state: State) -> list[Send] | Literal["review"]:
    return [Send("check", {"fact": state["question"]})] if "answer" in state else "review"


builder = StateGraph(State, Settings, input_schema=Question, output_schema=Answer)
assert_type(builder, StateGraph[State, Settings, Question, Answer])
builder.add_node("draft", draft).add_node(review, destinations=["draft", "publish"])
builder.add_node("check", check, input_schema=Fact, defer=True).add_node("publish", publish)
builder.add_node("shout", lambda state: {"answer": state["question"].upper()})
builder.add_edge(START, "draft").add_edge("publish", END)
builder.add_conditional_edges("draft", facts, ["check", "review"])
builder.add_conditional_edges(
    "check", lambda state: len(state["question"]) > 3, {True: END, False: END}
)
graph = builder.compile(checkpointer=MemorySaver(), name="questions", interrupt_before=["publish"])
assert_type(graph, CompiledStateGraph[State, Settings, Question, Answer])
thread = {"configurable": {"thread_id": "1"}}
settings = Settings("small")


def blocking() -> None:
    result = graph.invoke({"question": "why?"}, thread, context=settings, durability="sync")
    assert_type(result, Answer)
    assert_type(result["answer"], str)
    output = graph.invoke(Command(resume={"approved": True}), thread, version="v2")
    assert_type(output, GraphOutput[Answer])
    assert_type(output.value, Answer)
    assert_type(output.interrupts, tuple[Interrupt, ...])
    assert_type(graph.invoke(None, thread, stream_mode="updates"), list[Any])
    assert_type(graph.batch([{"question": "a"}, {"question": "b"}]), list[Answer])
    assert_type(graph.batch([{"question": "a"}], return_exceptions=True), list[Answer | Exception])
    assert_type(graph.retry(thread), Answer)
    assert_type(graph.resume(thread, Command(resume="x"), durability="async"), Answer)


def states() -> None:
    snapshot = graph.get_state(thread)
    assert_type(snapshot, StateSnapshot[State])
    assert_type(snapshot.values, State)
    assert_type(snapshot.values["question"], str)
    assert_type(snapshot.next, tuple[str, ...])
    assert_type(graph.get_state("1"), StateSnapshot[State] | None)
    for old in graph.get_state_history(thread, limit=3):
        assert_type(old.values, State)
    assert_type(graph.update_state(thread, {"log": ["x"]}, as_node="draft"), dict[str, Any])


def chunks() -> None:
    given: Question = {"question": "why?"}
    assert_type(graph.stream(given), Iterator[dict[str, Any]])
    assert_type(graph.stream(given, stream_mode="values"), Iterator[State])
    assert_type(graph.stream(given, thread, stream_mode="updates"), Iterator[dict[str, Any]])
    for mode, _ in graph.stream(given, stream_mode=["updates", "custom"], buffer=3):
        print(mode == "updates")
    for part in graph.stream(given, stream_mode=["updates", "values"], version="v2"):
        if part["type"] == "values":
            assert_type(part, ValuesStreamPart[State])
            assert_type(part["data"], State)


async def waiting() -> None:
    assert_type(await graph.ainvoke({"question": "why?"}, context=settings), Answer)
    given: Question = {"question": "why?"}
    stream = graph.astream(given, stream_mode="values", context=settings)
    assert_type(stream, ChunkStream[State])
    async for chunk in stream:
        assert_type(chunk["question"], str)
    async for task in graph.astream(given, stream_mode="tasks"):
        assert_type(task, TaskPayload | TaskResultPayload)
    async for point in graph.astream(given, stream_mode="checkpoints"):
        assert_type(point, CheckpointPayload[State])
        assert_type(point["values"], State)
    async for piece in graph.astream(given, stream_mode="messages"):
        assert_type(piece, tuple[Any, dict[str, Any]])
    async for part in graph.astream(given, version="v2"):
        assert_type(part, UpdatesStreamPart)
    async for place, _ in graph.astream(given, subgraphs=True):
        assert_type(place, tuple[str, ...])
    async for old in graph.aget_state_history(thread):
        assert_type(old, StateSnapshot[State])
    assert_type((await graph.aget_state(thread)).values, State)
    assert_type(await graph.abatch([given]), list[Answer])
