"""Programs that both checkers refuse, at the marked lines and at no other."""

from typing import Any, TypedDict

from actorgraph import ActorSystem, Command, StateGraph, interrupt
from tests.typing.programs.steps import counted, double, doubled, greeted
from tests.typing.programs.typical import State, builder, graph, settings, thread

graph.invoke({"qestion": "why?"})  # refused: misspelt input key
graph.invoke({"question": 3})  # refused: type of an input key
graph.invoke({"question": "why?", "answer": "x"})  # refused: no key of the input schema
graph.invoke({"question": "why?"}, context="small")  # refused: type of the context
graph.invoke({"question": "why?"}, durabilty="sync")  # refused: misspelt option
graph.invoke({"question": "why?"}, durability="synk")  # refused: unknown durability
graph.invoke({"question": "why?"}, interrupt_before=3)  # refused: type of an option
graph.invoke({"question": "why?"}, version="v3")  # refused: unknown version
graph.invoke({"question": "why?"}, stream_mode="vals")  # refused: unknown stream mode
graph.stream({"question": "why?"}, stream_mode="vals")  # refused: unknown stream mode
graph.stream({"question": "why?"}, buffer="big")  # refused: type of a reading option
graph.stream({"question": "why?"}, when_full="wait")  # refused: unknown policy
graph.invoke({"question": "why?"})["question"]  # refused: no key of the output schema
number: int = graph.invoke({"question": "why?"})["answer"]  # refused: result as another type
for chunk in graph.stream({"question": "why?"}, stream_mode="values"):
    print(chunk["qestion"])  # refused: no key of the state
    print(chunk["question"] + 1)  # refused: a text is no number
graph.get_state(thread).values["qestion"]  # refused: no key of the state
graph.get_state(thread, subgraph=True)  # refused: misspelt option
print(graph.get_state("1").values)  # refused: an unknown thread has no snapshot
graph.get_state_history(thread, limit="3")  # refused: type of an option
graph.update_state(thread, {"answer": "x"}, as_nod="draft")  # refused: misspelt option
graph.fork_state(thread, "2", check=3)  # refused: misspelt option
graph.resume(thread, {"resume": 1})  # refused: a dict is no Command
graph.with_durability("never")  # refused: unknown durability
graph.batch({"question": "why?"})  # refused: one input instead of a list


class Other(TypedDict):
    key: int


def other(state: Other) -> dict[str, Any]:
    return {"answer": str(state["key"])}


def text(state: str) -> dict[str, Any]:
    return {"answer": state}


def stateless() -> dict[str, Any]:
    return {}


builder.add_node("other", other)  # refused: node of another state
builder.add_node("text", text)  # refused: node of another state
builder.add_node(text)  # refused: node of another state
builder.add_node("none", stateless)  # refused: node without a parameter
builder.add_node("other", other, input_schema=State)  # refused: not the node's input
builder.add_node("other", 3)  # refused: no function
builder.add_node("a", lambda state: {"answer": ""}, retries=3)  # refused: misspelt option
builder.add_conditional_edges("draft", text)  # refused: router of another state
builder.add_edge("draft", 3)  # refused: no name of a node
builder.compile(checkpoint=None)  # refused: misspelt option
StateGraph(State, input_shema=Other)  # refused: misspelt option
Command(goto=3)  # refused: no name of a node
Command[str](update={}, go_to="draft")  # refused: misspelt field
length: int = interrupt("name?", response_schema=str)  # refused: answer as another type


async def asynchronous(system: ActorSystem) -> None:
    await graph.ainvoke({"qestion": "why?"})  # refused: misspelt input key
    await graph.ainvoke({"question": "why?"}, context=3)  # refused: type of the context
    await graph.aresume(thread, contxt=settings)  # refused: misspelt option
    async for state in graph.astream({"question": "why?"}, stream_mode="values"):
        print(state["qestion"])  # refused: no key of the state
    async for _ in graph.astream({"question": "why?"}, versoin="v2"):  # refused: misspelt option
        pass
    double("3")  # refused: type of a task's argument
    double(3, 4)  # refused: too many arguments of a task
    word: str = await double(3)  # refused: result of a task as another type
    print(word)
    await system.start("questions", "1", {}, if_busy="wait")  # refused: unknown policy
    await system.start("questions", "1", {}, priorty=3)  # refused: misspelt option
    await system.resume("questions", "1", 3, stream_mode="vals")  # refused: unknown mode


doubled.invoke("3")  # refused: input of an entrypoint
doubled.invoke(3)["thrice"]  # refused: no key of the result
greeted.invoke("Ada", context="en")  # refused: context of an entrypoint
total: int = counted.invoke(3)  # refused: the value is not what is saved
