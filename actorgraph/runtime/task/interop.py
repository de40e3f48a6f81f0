"""Interoperation with LangChain and LangGraph, in programs that have imported them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from traceback import walk_tb
from typing import Any, cast

from actorgraph.errors import GraphDrained, InvalidUpdateError, OtherLoopError, ParentCommand
from actorgraph.errors.texts import add_note
from actorgraph.errors.tracebacks import PASSED_BY
from actorgraph.loops import on_trio
from actorgraph.plan.plan import NodePlan
from actorgraph.runtime.task.scope import CURRENT, TaskScope
from actorgraph.values.commands import Interrupt, is_invalid_resume, mark_invalid_resume
from actorgraph.values.configs import nested_config
from actorgraph.values.constants import LANGGRAPH_TASK
from actorgraph.values.from_langgraph import from_langgraph, langgraph_module

Inherit = Callable[[TaskScope, Context], None]


def inheritance_of(config: Mapping[str, Any]) -> Inherit | None:
    """A function that passes a task's config to the LangChain and LangGraph calls in it.

    None if neither is imported; or only LangChain is, and the config has no callbacks, tags and
    metadata.
    """
    if "langchain_core" not in sys.modules:
        return None
    if langgraph_module("langgraph.config"):
        from actorgraph.runtime.task.langgraph import show_task

        return show_task
    if not (config.get("callbacks") or config.get("tags") or config.get("metadata")):
        return None
    from actorgraph.runtime.task.langchain import inherit_config

    return inherit_config


def below_chain(config: Mapping[str, Any] | None, scope: TaskScope | None) -> Any:
    """Merge a call's config over that of the LangChain Runnable that makes the call.

    Args:
        scope: the task that makes the call; None outside of a node. In a task only the callbacks
            are taken: its own config has everything else.
    Returns: `config` itself if no Runnable makes the call.
    """
    # getattr: another thread may be importing LangChain, so that the module is incomplete.
    variable = getattr(
        sys.modules.get("langchain_core.runnables.config"), "var_child_runnable_config", None
    )
    above = None if variable is None else variable.get()
    if not above:
        return config
    if scope is None:
        return nested_config(_without_place(above, config), config)
    if (config or {}).get("callbacks") or above.get("callbacks") is scope.config.get("callbacks"):
        return config
    return {**(config or {}), "callbacks": above.get("callbacks")}


_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")


def _without_place(above: Mapping[str, Any], config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Leave out the `configurable` of a chain if it addresses another run than the call does."""
    own, place = (config or {}).get("configurable") or {}, above.get("configurable") or {}
    addressed = any(own.get(key) for key in _PLACE)
    of_langgraph = any(key.startswith("__pregel") for key in place)
    hidden = ("configurable",) if addressed or of_langgraph else ()
    return {key: value for key, value in above.items() if key not in (*hidden, *_RUN_KEYS)}


_RUN_KEYS = ("run_id", "run_name")


def feeds_event_stream(config: Mapping[str, Any]) -> bool:
    """Whether an event stream of LangChain's listens to a call."""
    callbacks = config.get("callbacks")
    if not callbacks or "langchain_core.tracers" not in sys.modules:
        return False
    from actorgraph.runtime.task.langchain import is_event_stream

    return any(map(is_event_stream, getattr(callbacks, "handlers", callbacks)))


def runnable_here(node: NodePlan) -> NodePlan:
    """The node, adapted to the running event loop, and to LangGraph if it is a graph of it."""
    if "langchain_core" not in sys.modules:
        return node
    if on_trio():
        from actorgraph.runtime.task.langchain import for_trio

        node = for_trio(node)
    if langgraph_module("langgraph.pregel") and hasattr(node.call, "__self__"):
        from actorgraph.runtime.task.langgraph import with_own_store

        node = with_own_store(node)
    return node


def translated(error: BaseException, name: str = "") -> BaseException:
    """A node's error, with LangGraph's interrupts and commands, also in groups, made ours.

    On trio, the error of code that needs asyncio becomes one that names the code's library.

    Args:
        name: of the node, for errors; default the running task's.
    """
    if isinstance(error, (TypeError, RuntimeError)) and on_trio() and _asks_for_asyncio(error):
        return _needs_asyncio(error, name)
    theirs = langgraph_module("langgraph.errors")
    if theirs is None:
        return error
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        parts = [translated(part, name) for part in group.exceptions]
        same = all(new is old for new, old in zip(parts, group.exceptions, strict=True))
        return error if same else BaseExceptionGroup(group.message, parts)
    ours = error
    if isinstance(error, theirs.GraphInterrupt):
        from actorgraph.runtime.task.langgraph import questions_of

        ours = questions_of(error, name or CURRENT.get().task.name)
    elif isinstance(error, theirs.ParentCommand):
        ours = ParentCommand(from_langgraph(error.args[0]))
    elif isinstance(error, theirs.GraphDrained):
        reason: str = getattr(error, "reason", "")
        ours = GraphDrained(
            f"a graph of LangGraph's in a node stopped: {reason}",
            do="resume the thread to go on",
            reason=reason,
        )
    elif _refuses_answer(theirs, error) and not is_invalid_resume(error):
        from actorgraph.runtime.task.langgraph import refused_question

        mark_invalid_resume(error, refused_question(error))
    elif isinstance(error, (RuntimeError, KeyError)) and _is_of_langgraph(error):
        add_note(error, _MIXED)
    if ours is not error:
        ours.__cause__ = error
    return ours


_NO_ASYNCIO = (
    "trio.run received unrecognized yield message",  # trio's, about an awaited object
    "no running event loop",
    "no current event loop",
)


def _asks_for_asyncio(error: Exception) -> bool:
    return any(text in str(error) for text in _NO_ASYNCIO)


def _needs_asyncio(error: Exception, name: str) -> OtherLoopError:
    """Return the error of a node on trio that has called code that needs asyncio."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    modules = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    known = [module for module in modules if module and module not in PASSED_BY]
    unknown = (
        "langchain_core or another library" if "langchain_core" in sys.modules else "a library"
    )
    library = known[-1] if known else unknown
    ours = OtherLoopError(
        f"node {name!r} runs on trio and awaits code of {library} that needs asyncio",
        do="make the node a plain function that calls the library's sync method, such as "
        "model.invoke() or model.stream(): it is called in a thread, and its messages are "
        "streamed; or run the graph on asyncio",
    )
    ours.__cause__ = error
    return ours


def check_caller(context: Context, thread_id: str, name: str, asked: Sequence[Interrupt]) -> None:
    """Refuse a pause in a task of LangGraph's: its run would go on without an answer.

    Args:
        context: the caller's.
        thread_id: of the run that pauses; "" if it has none.
        name: of its graph.
        asked: its questions; none at a breakpoint.
    Raises:
        InvalidUpdateError: a node of LangGraph's runs the graph, on no thread of its own.
    """
    if not langgraph_module("langgraph.pregel") or context.get(CURRENT) is not None:
        return
    from langchain_core.runnables.config import var_child_runnable_config

    place = (context.get(var_child_runnable_config) or {}).get("configurable") or {}
    if LANGGRAPH_TASK not in place or thread_id not in ("", str(place.get("thread_id"))):
        return
    what = f"asks {asked[0].value!r}" if asked else "stopped at a breakpoint"
    raise InvalidUpdateError(
        f"graph {name!r} {what} in a node of a graph of LangGraph's, which can't resume it",
        do="move the graph around it to actorgraph (`python -m actorgraph.cli.codemod`), ask with "
        "langgraph.types.interrupt in that node, or run it with a thread_id of its own",
    )


def _refuses_answer(theirs: Any, error: BaseException) -> bool:
    """Whether LangGraph's `interrupt` raised it, about an answer; older versions check none."""
    check = getattr(theirs, "is_invalid_resume", None)
    return check is not None and check(error)


def is_control_flow(error: BaseException | None) -> bool:
    """Whether it is control flow of LangGraph's, which error handling must let through."""
    theirs = langgraph_module("langgraph.errors")
    return theirs is not None and isinstance(error, theirs.GraphBubbleUp)


_MIXED = (
    "A function of LangGraph's was called in a node of actorgraph; it works only in LangGraph's "
    "runs.\n"
    "  Do this: import interrupt, get_config, get_store, get_stream_writer ... from actorgraph; "
    "`python -m actorgraph.cli.codemod` moves the imports"
)


def _is_of_langgraph(error: BaseException) -> bool:
    """Whether LangGraph's code raised it because it was called outside of a LangGraph run."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return module in ("langgraph.config", "langgraph.types", "langgraph.runtime")
