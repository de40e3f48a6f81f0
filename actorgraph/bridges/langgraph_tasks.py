"""LangGraph's code in a node: its functions, tools and compiled graphs find a task of their own.

LangGraph's functions (`interrupt`, `get_store`, `push_message` ...) look for the running task in
LangChain's context variable, under reserved keys of `configurable`. A graph of LangGraph's that
finds them runs as a subgraph: it raises its questions, asks for answers by their ids, and stores
its state with its own checkpointer in a namespace of the task.

Used only in programs that have imported LangGraph's runtime.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from functools import partial
from itertools import count
from types import FrameType, SimpleNamespace
from typing import Any, Never, cast, overload

from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config

from actorgraph.bridges.langchain_tasks import manager_of
from actorgraph.bridges.langgraph_values import adapt, langgraph_module
from actorgraph.errors import GraphInterrupt, InvalidUpdateError, OutsideRunError, did_you_mean
from actorgraph.plan.plan import NodePlan
from actorgraph.runtime.task.cache_reads import fields_of, reads_of, runtime_with_notes
from actorgraph.runtime.task.functions import runtime_of
from actorgraph.runtime.task.scope import CURRENT, UNHEARD, TaskScope
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import (
    CALL,
    LANGGRAPH_ANSWERS,
    LANGGRAPH_READ,
    LANGGRAPH_RESUMING,
    LANGGRAPH_RUNTIME,
    LANGGRAPH_SCRATCHPAD,
    LANGGRAPH_SEND,
    LANGGRAPH_STREAM,
    LANGGRAPH_TASK,
    RESUME,
)
from actorgraph.values.ids import interrupt_id


def show_task(scope: TaskScope, context: Context) -> None:
    """Let LangGraph's functions and graphs find a task, and LangChain's calls its config.

    Args:
        context: the task's own.
    """
    config = scope.base_config
    callbacks = config.get("callbacks")
    place = {**(config.get("configurable") or {}), "checkpoint_id": None, **_keys(scope)}

    # LangGraph iterates over it, also without a listener.
    handlers = {"callbacks": manager_of(callbacks) if callbacks else []}
    scope.override({**config, **handlers, "configurable": place})
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))


def _keys(scope: TaskScope) -> dict[str, Any]:
    keys = dict.fromkeys(scope.run_context.state.plan.state_keys)
    protocol = langgraph_module("langgraph.pregel.protocol")  # not loaded without its graphs
    stream = {} if protocol is None else {LANGGRAPH_STREAM: protocol.StreamProtocol(_drop, set())}
    return {
        **stream,
        LANGGRAPH_TASK: scope.task.id,
        LANGGRAPH_SCRATCHPAD: _scratchpad(scope),
        LANGGRAPH_RUNTIME: _runtime(scope),
        LANGGRAPH_SEND: _write,
        LANGGRAPH_READ: partial(_read, None, keys),
        CALL: _refuse_task,
        # The namespace belongs to this task alone: a checkpoint in it is of an earlier attempt.
        LANGGRAPH_RESUMING: True,
        LANGGRAPH_ANSWERS: dict(scope.routed),
    }


def _scratchpad(scope: TaskScope) -> Any:
    """LangGraph's record of a task, which counts the questions and the subgraphs of ours."""
    module = langgraph_module("langgraph._internal._scratchpad")
    # Only its graphs look at the class, and they load it.
    kind: Any = SimpleNamespace if module is None else module.PregelScratchpad
    step = scope.run_context.step()
    return kind(
        step=step,
        stop=step + 1,
        call_counter=count().__next__,
        interrupt_counter=_count_question,
        get_null_resume=_no_answer,
        resume=_Answers(),
        subgraph_counter=count().__next__,
    )


def _runtime(scope: TaskScope) -> Any:
    theirs, ours = langgraph_module("langgraph.runtime"), runtime_of(scope)
    if theirs is None:
        return ours  # has all that its other functions read
    held = fields_of(ours)
    same = ("context", "store", "heartbeat", "previous", "server_info", "control")
    fields = {
        **{name: held[name] for name in same},
        "stream_writer": scope.write,
        "execution_info": _execution_info(theirs, held["execution_info"]),
    }
    return runtime_with_notes(theirs.Runtime, fields, reads_of(scope))


def _execution_info(theirs: Any, info: Any) -> Any:
    return theirs.ExecutionInfo(
        checkpoint_id=info.checkpoint_id,
        checkpoint_ns=info.checkpoint_ns,
        task_id=info.task_id,
        thread_id=info.thread_id,
        run_id=info.run_id,
        node_attempt=info.node_attempt,
        node_first_attempt_time=info.node_first_attempt_time,
    )


def export_tool_runtime(ours: Any) -> Any:
    """Make LangGraph's ToolRuntime of ours, for tools whose arguments pydantic validates."""
    theirs, info = langgraph_module("langgraph.runtime"), ours.execution_info
    kind = langgraph_module("langgraph.prebuilt.tool_node").ToolRuntime
    made = kind(
        state=ours.state,
        context=ours.context,
        config=ours.config,
        stream_writer=ours.stream_writer,
        tool_call_id=ours.tool_call_id,
        store=ours.store,
        tools=ours.tools,
        execution_info=None if info is None else _execution_info(theirs, info),
        server_info=ours.server_info,
    )
    # Its own looks for a writer that only LangGraph's runs install.
    made.emit_output_delta = ours.emit_output_delta
    return made


class _Answers(Sequence[Any]):
    """The answers that the running task has: of a part of a task, those of the part."""

    def __len__(self) -> int:
        return len(CURRENT.get().answers)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return CURRENT.get().answers[index]


def _count_question() -> int:
    """Number a question of LangGraph's `interrupt`, and look for its answer."""
    scope = CURRENT.get()
    index = scope.asked
    # A question without an answer is counted when the exception that holds it arrives.
    if scope.find_answer(index):
        scope.asked += 1
    return index


def _no_answer(consume: bool = False) -> None:
    """Note that LangGraph is about to raise a question: answers have been looked for already."""
    if consume:
        CURRENT.get().raised.append(UNHEARD)


def _write(writes: Sequence[tuple[str, Any]]) -> None:
    """Take writes that LangGraph's functions make beside the node's return value.

    Raises:
        InvalidUpdateError: one goes to an unknown key.
    """
    scope = CURRENT.get()
    known = scope.run_context.state.plan.state_keys
    for key, value in writes:
        if key == RESUME:
            continue  # answers are stored with the task
        if key not in known:
            raise InvalidUpdateError(
                f"node {scope.task.name!r} writes to {key!r}, which is not a key of the state",
                do=did_you_mean(key, known),
            )
        scope.pushed.append((key, adapt(value)))


def _drop(chunk: Any) -> None:
    """Take nothing of a graph's own chunks. With a stream, its writer is that of the task."""
    del chunk


def _read(_: None, keys: Mapping[str, Any], select: str | list[str], fresh: bool = False) -> Any:
    """Read the state as it was when the task began."""
    del keys, fresh
    values = CURRENT.get().run_context.values()
    if isinstance(select, str):
        return values[select]
    return {key: values[key] for key in select if key in values}


def _refuse_task(function: Any, *_: Any, **__: Any) -> Never:
    name = getattr(function, "__name__", repr(function))
    raise OutsideRunError(
        f"task {name!r} of LangGraph's was called in node {CURRENT.get().task.name!r}, whose run "
        "is not LangGraph's",
        do="import task from actorgraph; `python -m actorgraph.cli.codemod` moves the imports",
    )


def with_own_store(node: NodePlan) -> NodePlan:
    """Keep the store of a node that is a graph of LangGraph's, in a run without a store.

    A subgraph of LangGraph's takes the store of the run above it, even if that has none.
    """
    graph: Any = getattr(node.call, "__self__", None)
    pregel = langgraph_module("langgraph.pregel")
    if (
        pregel is None
        or not isinstance(graph, pregel.Pregel)
        or graph.store is None
        or "config" not in node.inject
    ):
        return node
    call = node.call

    def run(given: Any, *, config: dict[str, Any], **extra: Any) -> Any:
        place = config["configurable"]
        runtime = place.get(LANGGRAPH_RUNTIME)
        if runtime is not None and runtime.store is None:
            own = {**place, LANGGRAPH_RUNTIME: runtime.override(store=graph.store)}
            config = {**config, "configurable": own}
        return call(given, config=config, **extra)

    return replace(node, call=run)


def questions_of(error: BaseException, name: str) -> GraphInterrupt | InvalidUpdateError:
    """Translate LangGraph's GraphInterrupt.

    Args:
        name: of the node that raised it.
    Returns: the questions, those of a graph with its ids; or the error of a graph that could not
        be resumed.
    """
    asked: list[Interrupt] = adapt(list(error.args[0]) if error.args else [])
    graph = _graph_that_raised(error)
    if graph is None:
        return GraphInterrupt([replace(question, id="") for question in asked])
    if not asked:
        return InvalidUpdateError(
            f"node {name!r} ran graph {graph.get_name()!r} of LangGraph's, which stopped at a "
            "breakpoint of its own; the run can't resume it from there",
            do="call interrupt() in its node instead, or migrate it with "
            "`python -m actorgraph.cli.codemod` and set the breakpoint there",
        )
    if not graph.checkpointer:
        return InvalidUpdateError(
            f"node {name!r} ran graph {graph.get_name()!r} of LangGraph's, which asks "
            f"{asked[0].value!r} and has no checkpointer: it can't be resumed",
            do="compile it with a checkpointer, or migrate it with "
            "`python -m actorgraph.cli.codemod`",
        )
    return GraphInterrupt(asked)


def refused_question(error: BaseException) -> Interrupt | None:
    """The question whose answer LangGraph's `interrupt` refused; None if that isn't on the way."""
    types = langgraph_module("langgraph.types")
    asking = [f for f in _frames(error) if f.f_code is types.interrupt.__code__]
    if not asking:
        return None
    found = asking[-1].f_locals
    namespace, index, schema = found["conf"]["checkpoint_ns"], found["idx"], found["adapter"]
    if _graph_that_raised(error) is None:
        scope = CURRENT.get(None)
        identifier = interrupt_id(namespace + (scope.key if scope else ""), index)
    else:
        identifier = types._interrupt_id(namespace, index)  # noqa: SLF001 - asked by it
    shown = found["response_schema"] if schema is None else schema.json_schema()
    return Interrupt(found["value"], identifier, shown)


def _graph_that_raised(error: BaseException) -> Any:
    """The outermost graph of LangGraph's whose run an error ended; None for none."""
    kind = getattr(langgraph_module("langgraph.pregel"), "Pregel", None)
    if kind is None:
        return None
    owners = (frame.f_locals.get("self") for frame in _frames(error))
    return next((owner for owner in owners if isinstance(owner, kind)), None)


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Iterate over the frames that an error has passed, from the outermost."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
