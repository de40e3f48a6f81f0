"""Start runs and apply updates: convert the requests of clients to what a system and graph take."""

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec

from actorgraph.errors import ActorGraphError
from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import log_event as event
from actorgraph.internals import shielded
from actorgraph.systems import Run
from actorgraph.types import Command, Send, StateUpdate
from actorgraph.web.endpoints.assistant_lookup import assistant_of
from actorgraph.web.endpoints.endpoint import ApiCall, graph_of_thread
from actorgraph.web.endpoints.request_threads import check_kept, thread_of_run
from actorgraph.web.endpoints.thread_state import check_thread_id, checkpoint_config, config_of
from actorgraph.web.http import bodies
from actorgraph.web.http.event_translator import EVENTS, graph_modes
from actorgraph.web.http.identity import identity_of, name_of
from actorgraph.web.http.problems import HttpProblem, Unprocessable
from actorgraph.web.registries.assistant_registry import StoredAssistant
from actorgraph.web.registries.stored_bodies import body_of_request
from actorgraph.web.registries.thread_registry import (
    Labelled,
    StoredThread,
    at_once,
    thread_metadata_of,
)


async def write_supersteps(
    call: ApiCall, thread: StoredThread, supersteps: Sequence[bodies.Superstep]
) -> None:
    """Create the state of a new thread: one checkpoint per superstep, all of them or none.

    Raises:
        NotFound: the thread's graph is unknown.
        Unprocessable: an update has values and a command, or the graph can't apply it.
    """
    graph = graph_of_thread(call, thread)
    steps = [[_update(one) for one in step.updates] for step in supersteps]
    with graph_errors_as_problems():
        await graph.abulk_update_state(config_of(thread.thread_id, {}), steps)


@contextmanager
def graph_errors_as_problems() -> Generator[None]:
    """Turn exceptions of the graph's code about a client's values into a 422.

    Raises:
        Unprocessable: a reducer, or other code of the graph that reads the values, failed.
    """
    try:
        yield
    except (ActorGraphError, HttpProblem, OSError):
        raise
    except Exception as error:
        event("warning", "web.update_failed", error=repr(error))
        text = f"the graph refused the values: {type(error).__name__}: {error}"
        raise Unprocessable(text) from error


def _update(said: bodies.SuperstepUpdate) -> StateUpdate:
    if said.command is None:
        return StateUpdate(said.values, said.as_node)
    if said.values is not None:
        raise Unprocessable("values and command can't be combined; send one of them")
    return StateUpdate(command_of(said.command), said.as_node)


def command_of(command: bodies.CommandBody) -> Command[Any]:
    """Convert a client's command."""
    said: dict[str, Any] = {}
    if command.answers is not None and command.resumes:
        raise Unprocessable("answers and resume can't be combined; send one of them")
    if command.resumes:
        said["resume"] = command.resume
    if command.answers is not None:
        said["resume"] = command.answers
    if command.update is not None:
        said["update"] = command.update
    if command.goto is not None:
        goto = command.goto if isinstance(command.goto, list) else [command.goto]
        said["goto"] = [g if isinstance(g, str) else Send(g.node, g.input) for g in goto]
    return Command(**said)


KEPT = "actorgraph.web"
"""The key in a run's metadata for the request's stream modes and strategy."""

_RESERVED = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")


async def start_run(call: ApiCall, began: Callable[[Run], None] | None = None) -> Run:
    """Start the run of a request, on the path's thread or on a new one.

    An invalid request is refused before anything is written.

    Args:
        began: called with the run as soon as it is accepted, before anything else is awaited.
    """
    body: bodies.RunBody = call.body
    assistant = await assistant_of(call, body.assistant_id)
    name = assistant.now.graph_id
    graph = call.server.graphs[name]
    body = body_of_request(graph, assistant, body)
    known = identity_of(call.principal, assistant.assistant_id, name)
    given, options = run_input(body), run_options(body, assistant, graph, known)
    thread_id = call.path.get("thread_id") or str(uuid4())
    start = partial(call.server.system.start, name, thread_id, given, **options)
    if body.command is not None and (answers := body.command.answers) is not None:
        rest = dataclasses.replace(given, resume=None)  # answers by id are checked first
        resume = call.server.system.resume
        start = partial(resume, name, thread_id, rest, answers=answers, **options)
    started: list[Run] = []

    def note(run: Run) -> None:
        started.append(run)
        if began is not None:
            began(run)

    try:
        if body.webhook is not None:
            call.server.webhooks.check(body.webhook, name_of(call.principal))
        thread, labelled = await _thread(call, thread_id, assistant)
        work = partial(_start, call, thread, start, options["metadata"], note)
        await shielded(work)  # not interruptible: a started run must be known here
        (run,) = started
        await check_kept(call.server.threads, call.server.saver, thread, run, labelled)
    except BaseException:
        await shielded(lambda: _clean_up(call, thread_id, started))
        raise
    return run


async def _start(
    call: ApiCall,
    thread: StoredThread,
    start: Callable[[], Awaitable[Run]],
    metadata: dict[str, Any],
    note: Callable[[Run], None],
) -> None:
    """Start a run with its webhook, and note it.

    Args:
        metadata: the run's; gets the id of a webhook.
    """
    if "webhook" in metadata[KEPT]:
        user = name_of(call.principal)
        async with call.server.webhooks.armed(thread.thread_id, metadata, user=user) as armed:
            run = await start()
            armed(run)
            note(run)
    else:
        run = await start()
        note(run)
    if thread.temporary:
        call.server.temporary.remove_after(run)


async def _clean_up(call: ApiCall, thread_id: str, started: Sequence[Run]) -> None:
    """Undo a start that failed, or whose client disconnected meanwhile."""
    for run in started:
        if call.body.on_disconnect == "cancel":
            await run.cancel("the client has gone", wait=False)
    if not started and "thread_id" not in call.path:
        await call.server.threads.forget(thread_id)


async def check_run(call: ApiCall, body: bodies.RunBody, webhooks: int = 1) -> None:
    """Check a run of a batch before any of them is started.

    Args:
        webhooks: how many the runs of the batch have.
    Raises:
        NotFound: the graph is unknown.
        Unprocessable: input or options are invalid.
    """
    assistant = await assistant_of(call, body.assistant_id)
    run_input(body)
    graph = call.server.graphs[assistant.now.graph_id]
    run_options(body_of_request(graph, assistant, body), assistant, graph, {})
    if body.webhook is not None:
        call.server.webhooks.check(body.webhook, name_of(call.principal), webhooks)


async def _thread(
    call: ApiCall, thread_id: str, assistant: StoredAssistant
) -> tuple[StoredThread, Labelled]:
    """Return the thread for a run, as `thread_of_run`: the path's, or a new one."""
    threads, wanted = call.server.threads, call.wanted
    labels = {**thread_metadata_of(assistant.now.graph_id), "assistant_id": assistant.assistant_id}
    if "thread_id" in call.path:
        if call.thread is None:
            check_thread_id(thread_id)
        return await thread_of_run(threads, call.thread, thread_id, labels, wanted)
    goes = call.body.on_completion == "delete"
    made = await threads.make(thread_id, {**labels, **wanted}, temporary=goes, new=True)
    return made[1], at_once


def run_options(
    body: bodies.RunBody,
    assistant: StoredAssistant,
    graph: CompiledStateGraph,
    known: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the options of `ActorSystem.start` for a client's run, with its `if_busy`.

    Args:
        known: what the server says about the run, as `identity_of` returns it.
    """
    modes = modes_of(body.stream_mode)
    kept: dict[str, Any] = {"if_busy": body.multitask_strategy, "stream_mode": modes}
    kept["subgraphs"] = body.stream_subgraphs
    if not assistant.system:
        kept["assistant"] = assistant.assistant_id
    if body.webhook is not None:
        kept["webhook"] = body.webhook
    options: dict[str, Any] = {
        "if_busy": body.multitask_strategy,
        "durability": body.durability,
        "config": _config(body, known),
        "context": _context(body, graph, known),
        "metadata": {**(body.metadata or {}), KEPT: kept},
        "stream_mode": graph_modes(modes),
        "subgraphs": body.stream_subgraphs or EVENTS in modes,
        # Not False: a system that runs nothing itself has to store the events of its runs.
        "resumable": body.stream_resumable or None,
        "interrupt_before": body.interrupt_before,
        "interrupt_after": body.interrupt_after,
        "strict_resume": body.strict_resume,
        "delay_s": body.after_seconds or None,
    }
    return {key: value for key, value in options.items() if value is not None}


def run_input(body: bodies.RunBody) -> Any:
    """Return a client's input or command.

    Raises:
        Unprocessable: it has both.
    """
    command = body.command
    if command is None:
        return body.input
    if body.input is not None:
        raise Unprocessable("input and command can't be combined; send one of them")
    return command_of(command)


_NO_CONFIG = bodies.ConfigBody()


def _config(body: bodies.RunBody, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's config, without keys that could address another thread.

    The server's own names are among its `configurable`.
    """
    said = body.config or _NO_CONFIG
    place = {k: v for k, v in (said.configurable or {}).items() if k not in _RESERVED}
    if body.checkpoint is not None:
        place |= checkpoint_config(body.checkpoint)
    if body.checkpoint_id is not None:
        place["checkpoint_id"] = body.checkpoint_id
    place |= known
    config: dict[str, Any] = {"configurable": place, "metadata": said.metadata, "tags": said.tags}
    if said.recursion_limit is not None:
        config["recursion_limit"] = said.recursion_limit
    return {key: value for key, value in config.items() if value}


def _context(
    body: bodies.RunBody, graph: CompiledStateGraph, known: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the run's context: the client's, else what of `configurable` the graph declares.

    Names of the server that the graph declares are filled in both cases.
    """
    if graph.context_schema is None:
        return body.context
    declared = (graph.get_context_jsonschema() or {}).get("properties", {})
    given: Mapping[str, Any] = {} if body.config is None else body.config.configurable or {}
    said = body.context if body.context is not None else _of(given, declared)
    own = _of(known, declared)
    return {**said, **own} if said or own else body.context


def _of(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in names}


def modes_of(modes: str | Sequence[str]) -> list[str]:
    """Return a client's stream modes as a list."""
    return [modes] if isinstance(modes, str) else list(modes)


def modes_in(texts: Sequence[str]) -> list[str]:
    """Return the stream modes of a query: in each text one, several with commas, or a JSON list.

    Raises:
        Unprocessable: a text begins as a JSON list and is none of texts.
    """
    found: list[str] = []
    for text in texts:
        if not text.startswith("["):
            found += [mode for mode in text.split(",") if mode]
            continue
        try:
            found += msgspec.json.decode(text, type=list[str])
        except msgspec.MsgspecError as error:
            raise Unprocessable(f"stream_mode={text!r} is not a list of modes: {error}") from error
    return found
