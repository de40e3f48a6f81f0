"""`actorgraph run` and `resume`: run a graph on a thread, with a live view."""

from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from actorgraph.cli.command_group import (
    RUN,
    AsJson,
    Backend,
    Database,
    GraphName,
    ThreadId,
    group,
)
from actorgraph.cli.exit_codes import UsageError

Context = Annotated[
    str | None, typer.Option("--context", metavar="JSON", help="The run's context: JSON, @file, -.")
]
Config = Annotated[
    str | None, typer.Option("--config", metavar="JSON", help="More of the config: JSON, @file, -.")
]
DurabilityName = Annotated[
    str | None,
    typer.Option("--durability", help="sync, async or exit; default the graph's: sync."),
]


class _Run(NamedTuple):
    """The arguments of a run."""

    graph: str
    thread: str | None
    input: str | None
    db: str | None
    answers: list[str]
    context: str | None
    config: str | None
    durability: str | None
    as_json: bool
    resumes: bool = False


@group.command("run", rich_help_panel=RUN)
def run(
    graph: Annotated[
        str, typer.Argument(metavar="MODULE:GRAPH", help="app:graph, or app.py:graph.")
    ],
    *,
    given: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="JSON", help="The input: JSON, @file, or - for stdin; none goes on."
        ),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="The thread; default a new id.")
    ] = None,
    db: Database = None,
    durability: DurabilityName = None,
    context: Context = None,
    config: Config = None,
    backend: Backend = "asyncio",
    as_json: AsJson = False,
) -> int:
    """Run a graph on a thread, and watch it.

    With a database the thread survives a crash: the same command without --input goes on.

    Example: actorgraph run app.py:graph --input '{"text": "hi"}' --thread t1 --db runs.db
    """
    asked = _Run(graph, thread, given, db, [], context, config, durability, as_json)
    return _start(asked, backend)


@group.command("resume", rich_help_panel=RUN)
def resume(
    thread: ThreadId,
    *,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer", metavar="JSON", help="An answer, or ID=JSON; once for each question."
        ),
    ] = None,
    graph: GraphName = None,
    db: Database = None,
    durability: DurabilityName = None,
    context: Context = None,
    config: Config = None,
    backend: Backend = "asyncio",
    as_json: AsJson = False,
) -> int:
    """Answer a thread's questions, or go on with one that was stopped or has failed.

    Example: actorgraph resume t1 --answer true --graph app.py:graph --db runs.db
    """
    from actorgraph.cli.places import graph_named

    name, answers = graph_named(graph), answer or []
    asked = _Run(
        name, thread, None, db, answers, context, config, durability, as_json, resumes=True
    )
    return _start(asked, backend)


def _start(asked: _Run, backend: str) -> int:
    import anyio

    if backend not in ("asyncio", "trio"):
        raise UsageError(f"unknown --backend {backend!r}", do="use asyncio or trio")
    return anyio.run(partial(_run, asked), backend=backend)


async def _run(asked: _Run) -> int:
    from contextlib import AsyncExitStack

    from actorgraph.cli.json_arguments import object_of
    from actorgraph.cli.places import load_graph, open_thread_place
    from actorgraph.cli.terminal_run import TerminalRequest, run_in_terminal

    graph: Any = load_graph(asked.graph)
    config = object_of(asked.config, "--config")
    configurable = {**config.pop("configurable", {})}
    thread_id = asked.thread or configurable.get("thread_id") or _new_id()
    config["configurable"] = {**configurable, "thread_id": thread_id}
    options: dict[str, Any] = {"durability": asked.durability}
    if asked.context is not None:
        options["context"] = object_of(asked.context, "--context")
    async with AsyncExitStack() as stack:
        stored = bool(asked.db) or hasattr(graph.checkpointer, "alist_threads")
        if stored or asked.resumes:
            graph = await stack.enter_async_context(
                open_thread_place(asked.db, graph, create=not asked.resumes)
            )
        given, config = await _input_of(asked, graph, config, stored=stored or asked.resumes)
        request = TerminalRequest(
            graph, asked.graph, thread_id, given, config, options, asked.db, stored, asked.as_json
        )
        return await run_in_terminal(request)


def _new_id() -> str:
    from uuid_utils import uuid7

    return str(uuid7())


async def _input_of(
    asked: _Run, graph: Any, config: dict[str, Any], *, stored: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the input of a run and the config of its beginning.

    Raises:
        UsageError: the thread can't go on in this way.
    """
    from actorgraph.cli.json_arguments import json_of

    if asked.input is not None:
        return json_of(asked.input, "--input"), config
    thread_id = config["configurable"]["thread_id"]
    head = await graph.aget_state(config) if stored else None
    if head is None or head.created_at is None:
        if asked.resumes:
            raise UsageError(
                f"thread {thread_id!r} has no checkpoint here",
                do="list the threads with `actorgraph threads`, or begin one with `actorgraph run`",
            )
        keys = ", ".join(graph.get_input_jsonschema().get("properties", {})) or "none"
        raise UsageError(
            "a new thread needs an input",
            do=f"""add --input '{{"key": "value"}}'; the keys of this graph: {keys}""",
        )
    return await _going_on(asked, graph, config, head)


async def _going_on(
    asked: _Run, graph: Any, config: dict[str, Any], head: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the input and the config of a run that goes on with a thread.

    Raises:
        UsageError: it has no question, or nothing to run, or needs an answer.
    """
    from actorgraph.cli.json_arguments import answers_of
    from actorgraph.cli.thread_reader import questions_of
    from actorgraph.types import Command

    thread_id = config["configurable"]["thread_id"]
    asks = questions_of(head)
    if asks and not asked.answers:
        shown = "; ".join(f"--answer {one.id}=JSON" for one in asks)
        raise UsageError(
            f"thread {thread_id!r} waits for {len(asks)} answers"
            if len(asks) > 1
            else f"thread {thread_id!r} waits for an answer",
            do=f"read the question with `actorgraph show {thread_id}`, then resume with {shown}",
        )
    if asked.answers and not asks:
        raise UsageError(
            f"thread {thread_id!r} has asked nothing yet"
            if head.next
            else f"thread {thread_id!r} is at its end, and waits for no answer",
            do="resume it without --answer: it goes on, and asks then"
            if head.next
            else f"look at it with `actorgraph show {thread_id}`",
        )
    if asked.answers:
        return Command(resume=answers_of(asked.answers, asks)), config
    if not head.next:
        raise UsageError(
            f"thread {thread_id!r} is at its end: nothing is left to run",
            do="begin another turn with `actorgraph run ... --input JSON`",
        )
    if head.is_stuck:  # all tasks run again, on a copy: nothing else changes the outcome
        config = await graph.aupdate_state(config, None, "__copy__")
    return None, config
