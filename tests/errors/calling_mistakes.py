"""Mistakes in calls of a graph: configs, options, event loops, answers; see `mistakes.py`."""

import asyncio
from dataclasses import dataclass

from actorgraph import (
    START,
    ActorSystem,
    Command,
    InMemorySaver,
    Runtime,
    StateGraph,
    get_store,
    interrupt,
    task,
)
from tests.errors.mistakes import State, ask, at, chain, mistake, write

ID = "0190a1b2-0000-7000-8000-000000000000"


@dataclass
class User:
    """The context of some programs."""

    user: str


def needs_user(state: State, runtime: Runtime[User]) -> dict[str, str]:
    """Read the context."""
    return {"text": runtime.context.user}


def with_user() -> StateGraph:
    """Declare a graph whose calls need a context."""
    builder = StateGraph(State, context_schema=User)
    builder.add_node("a", needs_user)
    return builder.add_edge(START, "a")


@mistake(
    "InvalidUpdateError: Expected dict, got 'hi' as an input\n"
    "  Do this: pass a dict of state keys, an object of the state's schema, or a Command"
)
def input_is_text():
    chain(a=write).compile().invoke("hi")


@mistake(
    "EmptyInputError: Received no input\n"
    "  Do this: pass an input the first time; None goes on from a thread's newest checkpoint"
)
def input_is_missing():
    chain(a=write).compile().invoke(None)


@mistake(
    "UnknownChannelWarning: the input has 'txet', which is not a channel of this graph (did "
    "you mean 'text'?)\n"
    "  Do this: give only known keys, or add the key to the state schema; compile(strict=True) "
    "makes this an error"
)
def input_has_an_unknown_key():
    chain(a=write).compile().invoke({"txet": ""})


@mistake(
    "InvalidConfigError: config has no thread_id, which a graph with a checkpointer needs\n"
    '  Do this: pass config={"configurable": {"thread_id": "..."}}'
)
def forgot_the_thread_id():
    chain(a=write).compile(InMemorySaver()).invoke({})


@mistake(
    "InvalidConfigError: invoke() has no argument 'thread_id'\n"
    '  Do this: pass it in the config: {"configurable": {"thread_id": "..."}}'
)
def thread_id_is_an_argument():
    chain(a=write).compile(InMemorySaver()).invoke({}, thread_id="1")


@mistake(
    "InvalidConfigError: thread_id must have 1 to 255 bytes and no control characters, got ''\n"
    "  Do this: use a short printable name, such as a UUID"
)
def thread_id_is_empty():
    chain(a=write).compile(InMemorySaver()).invoke({}, at(""))


@mistake(
    "InvalidConfigError: config must be a dict, got '1'\n"
    '  Do this: pass config={"configurable": {"thread_id": "..."}}'
)
def config_is_text():
    chain(a=write).compile(InMemorySaver()).invoke({}, "1")


@mistake(
    "InvalidConfigError: config has no thread_id, which a graph with a checkpointer needs; it "
    "has 'configurabel'\n"
    '  Do this: pass config={"configurable": {"thread_id": "..."}}'
)
def config_is_misspelt():
    chain(a=write).compile(InMemorySaver()).invoke({}, {"configurabel": {"thread_id": "1"}})


@mistake(
    "InvalidConfigError: config[\"configurable\"] must be a dict, got '1'\n"
    '  Do this: pass config={"configurable": {"thread_id": "..."}}'
)
def configurable_is_text():
    chain(a=write).compile(InMemorySaver()).invoke({}, {"configurable": "1"})


@mistake(
    "InvalidConfigError: recursion_limit must be >= 1, got 0\n"
    "  Do this: use 1 or more, or leave it out"
)
def recursion_limit_is_0():
    chain(a=write).compile().invoke({}, {"recursion_limit": 0})


@mistake(
    "InvalidConfigError: invoke() has no argument 'stream_mod'\n"
    "  Do this: did you mean 'stream_mode'?"
)
def option_is_misspelt():
    chain(a=write).compile().invoke({}, stream_mod="updates")


@mistake(
    "InvalidConfigError: get_state_history() has no argument 'limt'\n"
    "  Do this: did you mean 'limit'?"
)
def option_of_a_read_is_misspelt():
    chain(a=write).compile(InMemorySaver()).get_state_history(at(), limt=1)


@mistake(
    "InvalidConfigError: stream_events() has no argument 'strem_mode'\n"
    "  Do this: did you mean 'stream_mode'?"
)
def option_of_an_event_stream_is_misspelt():
    chain(a=write).compile().stream_events({}, strem_mode="values")


@mistake(
    "InvalidConfigError: unknown durability='fast'\n"
    "  Do this: the choices are 'sync', 'async', 'exit'"
)
def durability_is_unknown():
    chain(a=write).compile(InMemorySaver()).invoke({}, at(), durability="fast")


@mistake("InvalidConfigError: unknown stream_mode='update'\n  Do this: did you mean 'updates'?")
def stream_mode_is_unknown():
    list(chain(a=write).compile().stream({}, stream_mode="update"))


@mistake(
    "RunningLoopError: invoke() would block the running event loop\n"
    "  Do this: use the async version: `await graph.ainvoke(...)`"
)
def invoke_in_a_running_loop():
    async def main():
        return await chain(a=write).compile().invoke({})

    asyncio.run(main())


@mistake(
    "RunningLoopError: stream() would block the running event loop\n"
    "  Do this: use the async version: `async for chunk in graph.astream(...)`"
)
def stream_in_a_running_loop():
    async def main():
        async for _ in chain(a=write).compile().stream({}):
            pass

    asyncio.run(main())


@mistake("TypeError: 'ChunkStream' object is not iterable", of_python=True)
def plain_loop_over_an_async_stream():
    for _ in chain(a=write).compile().astream({}):
        pass


@mistake("TypeError: 'coroutine' object is not subscriptable", of_python=True)
def forgot_await():
    async def main():
        return chain(a=write).compile().ainvoke({})["text"]

    asyncio.run(main())


@mistake(
    "OutsideRunError: interrupt() was called outside of a node\n"
    "  Do this: call it in a node, or in a function that a node calls"
)
def interrupt_outside_of_a_node():
    interrupt("sure?")


@mistake(
    "OutsideRunError: task 'double' was called outside a run\n"
    "  Do this: call it in an entrypoint or a node; `.func` is the plain function"
)
def task_outside_of_a_run():
    @task
    def double(n):
        return 2 * n

    double(1)


@mistake(
    "AttributeError: 'NoneType' object has no attribute 'user'\n"
    "The call passed no context=, so runtime.context is None; graph 'LangGraph' declares "
    "context_schema=User.\n"
    "  Do this: pass context=User(...) to the call"
)
def context_is_missing():
    with_user().compile().invoke({})


@mistake(
    "InvalidContextError: context with ['usr'] can't be converted to User: User.__init__() got "
    "an unexpected keyword argument 'usr'\n"
    "  Do this: pass every field without a default, and values of the declared types"
)
def context_has_a_wrong_field():
    with_user().compile().invoke({}, context={"usr": "ada"})


@mistake(
    "InvalidContextError: context must be a User, as graph 'LangGraph' declares, got str\n"
    "  Do this: pass a User, or a dict of its fields"
)
def context_is_of_another_type():
    with_user().compile().invoke({}, context="ada")


@mistake(
    "AttributeError: 'NoneType' object has no attribute 'put'\n"
    "Graph 'LangGraph' was compiled without a store, so runtime.store is None.\n"
    "  Do this: pass store= to compile(), e.g. InMemoryStore()"
)
def store_is_missing():
    def remember(state):
        get_store().put(("a",), "b", {})

    chain(a=remember).compile().invoke({})


@mistake(
    "DeadlineError: the run of graph 'LangGraph' reached its deadline_s before node 'a'\n"
    "  Do this: pass a longer deadline_s; with a checkpointer it could go on from here"
)
def deadline_is_over():
    chain(a=write).compile().invoke({}, deadline_s=1e-9)


@mistake(
    "NodeCancelledError: node 'a' raised CancelledError, but the run was not cancelled\n"
    "  Do this: don't cancel the current task inside a node; use a task group of its own"
)
def awaits_a_cancelled_future():
    async def node(state):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    asyncio.run(chain(a=node).compile().ainvoke({}))


@mistake(
    "SaverRequiredError: Cannot use Command(resume=...) without a checkpointer: graph "
    "'LangGraph' has none, so no run of it waits for an answer\n"
    "  Do this: compile(checkpointer=...), and resume with the thread_id of the run that asked"
)
def resume_without_a_saver():
    chain(a=ask).compile().invoke(Command(resume="yes"), at())


@mistake(
    "EmptyInputError: Command(resume=...) has nothing to resume: thread '1' has no checkpoint\n"
    "  Do this: use the thread_id and the checkpointer of the run that asked"
)
def resume_of_an_unknown_thread():
    chain(a=ask).compile(InMemorySaver()).invoke(Command(resume="yes"), at())


@mistake(
    "AlreadyResumedError: no question of thread '1' waits for this answer\n"
    "  Do this: read get_state(config).interrupts to see what waits; None goes on without an "
    "answer"
)
def resume_of_a_finished_thread():
    graph = chain(a=write).compile(InMemorySaver())
    graph.invoke({}, at())
    graph.invoke(Command(resume="yes"), at())


@mistake(
    "AlreadyResumedError: no question of thread '1' waits for this answer: no open question "
    "has the id '<id>'; it was answered, or is not of this thread\n"
    "  Do this: answer an open one: Command(resume={'<id>': ...}); they are in "
    "get_state(config).interrupts"
)
def resume_with_a_wrong_id():
    graph = chain(a=ask).compile(InMemorySaver())
    graph.invoke({}, at())
    graph.invoke(Command(resume={"0" * 32: "yes"}), at())


@mistake(
    "UnknownInterruptError: When there are multiple pending interrupts, you must specify the "
    "interrupt id when resuming; thread '1' has 2\n"
    "  Do this: Command(resume={interrupt.id: answer, ...})"
)
def resume_of_two_questions():
    builder = StateGraph(State)
    for name in ("a", "b"):
        builder.add_node(name, ask)
        builder.add_edge(START, name)
    graph = builder.compile(InMemorySaver())
    graph.invoke({}, at())
    graph.invoke(Command(resume="yes"), at())


@mistake(
    "InvalidUpdateError: Expected dict, got 'yes' as an input\n"
    "  Do this: pass a dict of state keys, an object of the state's schema, or a Command"
)
def answer_without_a_command():
    graph = chain(a=ask).compile(InMemorySaver())
    graph.invoke({}, at())
    graph.invoke("yes", at())


@mistake(
    "SaverRequiredError: No checkpointer set: get_state() reads checkpoints, and graph "
    "'LangGraph' was compiled without a checkpointer\n"
    "  Do this: pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')"
)
def state_without_a_saver():
    chain(a=write).compile().get_state(at())


@mistake(
    "SaverRequiredError: No checkpointer set: get_state_history() reads checkpoints, and graph "
    "'LangGraph' was compiled without a checkpointer\n"
    "  Do this: pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')"
)
def history_without_a_saver():
    list(chain(a=write).compile().get_state_history(at()))


@mistake(
    "SaverRequiredError: No checkpointer set: update_state() reads checkpoints, and graph "
    "'LangGraph' was compiled without a checkpointer\n"
    "  Do this: pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')"
)
def update_without_a_saver():
    chain(a=write).compile().update_state(at(), {"text": "x"})


@mistake(
    "MissingNodeError: Node darft does not exist in graph 'LangGraph'\n"
    "  Do this: did you mean 'draft'?"
)
def update_as_an_unknown_node():
    graph = chain(draft=write).compile(InMemorySaver())
    graph.invoke({}, at())
    graph.update_state(at(), {"text": "x"}, as_node="darft")


@mistake(
    "InvalidUpdateError: the update has 'txet', which is not a channel of this graph (did you "
    "mean 'text'?)\n"
    "  Do this: update known keys only; nothing was written"
)
def update_of_an_unknown_key():
    graph = chain(a=write).compile(InMemorySaver())
    graph.invoke({}, at())
    graph.update_state(at(), {"txet": "x"})


@mistake(
    "InvalidUpdateError: Expected dict, got 'x' as an update\n"
    "  Do this: pass a dict of state keys, an object of the state's schema, a Command, or None"
)
def update_with_text():
    graph = chain(a=write).compile(InMemorySaver())
    graph.invoke({}, at())
    graph.update_state(at(), "x")


@mistake(
    "InvalidConfigError: checkpoint_id must be the id of a checkpoint, got 'newest'\n"
    "  Do this: take it from get_state().config or get_state_history()"
)
def checkpoint_id_is_no_id():
    graph = chain(a=write).compile(InMemorySaver())
    graph.get_state({"configurable": {"thread_id": "1", "checkpoint_id": "newest"}})


@mistake(
    "CheckpointNotFoundError: thread '1' has no checkpoint <id>\n"
    "  Do this: take an id from get_state_history()"
)
def checkpoint_is_unknown():
    graph = chain(a=write).compile(InMemorySaver())
    graph.invoke({}, at())
    graph.get_state({"configurable": {"thread_id": "1", "checkpoint_id": ID}})


@mistake(
    "InvalidConfigError: graphs must be a dict of names and compiled graphs, got "
    "<CompiledStateGraph 'LangGraph': 1 node (a)>\n"
    '  Do this: use ActorSystem({"name": graph}, ...)'
)
def system_of_a_graph():
    ActorSystem(chain(a=write).compile())


@mistake(
    "InvalidConfigError: graph 'chat' must be a compiled graph, got "
    "<StateGraph of State: 1 node (a), 2 edges>\n"
    "  Do this: pass the result of compile()"
)
def system_of_a_builder():
    ActorSystem({"chat": chain(a=write)})


@mistake(
    "SystemClosedError: the system is not open; the run was not accepted\n"
    "  Do this: use it inside `async with ActorSystem(...) as system:`; on a server, pass "
    "`lifespan=lambda app: running(system)` to the application"
)
def system_was_not_entered():
    asyncio.run(ActorSystem({"chat": chain(a=write).compile()}).start("chat", "1", {}))


@mistake("InvalidConfigError: the system has no graph 'caht'\n  Do this: did you mean 'chat'?")
def system_has_no_such_graph():
    async def main():
        async with ActorSystem({"chat": chain(a=write).compile()}) as system:
            await system.start("caht", "1", {})

    asyncio.run(main())
