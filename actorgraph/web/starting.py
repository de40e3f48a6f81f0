"""Starting a run: what a request says, as what a system takes."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from actorgraph.api.runs import Run
from actorgraph.loops import shielded
from actorgraph.web import bodies
from actorgraph.web.endpoint import Call
from actorgraph.web.finding import about
from actorgraph.web.graphs import graph_of
from actorgraph.web.problems import NotFound, Unprocessable
from actorgraph.web.registry import GRAPH, Stored
from actorgraph.web.standing import check, placed
from actorgraph.web.supersteps import command_of
from actorgraph.web.wire import graph_modes

KEPT = "actorgraph.web"
"""Of a run's metadata: how it was asked for."""

_RESERVED = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")


async def begin(call: Call) -> Run:
    """Start the run of a request, on the thread of its path or on one of its own.

    What can't be started is refused before anything is written.
    """
    body: bodies.RunBody = call.body
    name, _ = graph_of(call, body.assistant_id)
    given, options = _input(body), _options(body)
    alone = "thread_id" not in call.path  # its thread is nobody's yet
    thread_id = str(uuid4()) if alone else call.thread_id
    started: list[Run] = []

    async def start(thread: Stored) -> None:
        run = await call.serving.system.start(name, thread_id, given, **options)
        started.append(run)
        if thread.temporary:
            call.serving.temporary.removes(run)

    try:
        thread = await _thread(call, thread_id, name)
        await shielded(lambda: start(thread))  # a run that was taken is known, whoever leaves
        (run,) = started
        if not thread.temporary:
            await _check_thread(call, thread, run)
    except BaseException:
        await shielded(lambda: _given_up(call, thread_id, started))
        raise
    return run


async def _check_thread(call: Call, thread: Stored, run: Run) -> None:
    """End a run whose thread was removed while it was started.

    Raises:
        NotFound: it was.
    """
    threads = call.serving.threads
    if await threads.is_still(thread):
        return
    await run.cancel("its thread was removed")
    if await threads.registered(thread.thread_id) is None:
        await call.serving.saver.adelete_thread(thread.thread_id)
    raise NotFound.thread(thread.thread_id)


async def _given_up(call: Call, thread_id: str, started: Sequence[Run]) -> None:
    """Leave nothing of a run that could not be started, or whose client has left meanwhile."""
    for run in started:
        if call.body.on_disconnect == "cancel":
            await run.cancel("the client has gone", wait=False)
    if not started and "thread_id" not in call.path:
        await call.serving.threads.forget(thread_id)


def checked(call: Call, body: bodies.RunBody) -> None:
    """Refuse a run that can't be started, before others are."""
    graph_of(call, body.assistant_id)
    _input(body)
    _options(body)


async def _thread(call: Call, thread_id: str, graph: str) -> Stored:
    """The thread that a run is for: that of the path, or a new one of its own."""
    body: bodies.RunBody = call.body
    threads = call.serving.threads
    known = about(graph)
    if "thread_id" not in call.path:
        goes = body.on_completion == "delete"
        return (await threads.make(thread_id, {**known, **call.wanted}, temporary=goes))[1]
    if call.thread is None:
        check(call.thread_id)
        _, made = await threads.make(
            call.thread_id, {**known, **call.wanted}, if_exists="do_nothing"
        )
        made.must_hold(call.wanted)  # somebody may have been faster
        return made
    if call.thread.metadata.get(GRAPH) != graph:  # as reads take that of the newest run
        return await threads.merge(call.thread, known)
    if not call.thread.registered:
        return await threads.merge(call.thread, {})
    return call.thread


def _options(body: bodies.RunBody) -> dict[str, Any]:
    modes = modes_of(body.stream_mode)
    kept: dict[str, Any] = {"if_busy": body.multitask_strategy, "stream_mode": modes}
    kept["subgraphs"] = body.stream_subgraphs
    if body.webhook is not None:
        raise Unprocessable("webhooks are not served; join the run, or stream it")
    options: dict[str, Any] = {
        "if_busy": body.multitask_strategy,
        "durability": body.durability,
        "config": _config(body),
        "context": body.context,
        "metadata": {**(body.metadata or {}), KEPT: kept},
        "stream_mode": graph_modes(modes),
        "subgraphs": body.stream_subgraphs,
        "resumable": body.stream_resumable,
        "interrupt_before": body.interrupt_before,
        "interrupt_after": body.interrupt_after,
        "strict_resume": body.strict_resume,
    }
    return {key: value for key, value in options.items() if value is not None}


def _input(body: bodies.RunBody) -> Any:
    command = body.command
    if command is None:
        return body.input
    if body.input is not None:
        raise Unprocessable("a run has an input or a command, not both")
    return command_of(command)


def _config(body: bodies.RunBody) -> dict[str, Any]:
    """The client's part of the config; where the run goes is the path's affair."""
    said = body.config or bodies.ConfigBody()
    place = {k: v for k, v in (said.configurable or {}).items() if k not in _RESERVED}
    place |= placed(body.checkpoint)
    if body.checkpoint_id is not None:
        place["checkpoint_id"] = body.checkpoint_id
    config: dict[str, Any] = {"configurable": place, "metadata": said.metadata, "tags": said.tags}
    if said.recursion_limit is not None:
        config["recursion_limit"] = said.recursion_limit
    return {key: value for key, value in config.items() if value}


def modes_of(modes: str | Sequence[str]) -> list[str]:
    """A client's modes as a list."""
    return [modes] if isinstance(modes, str) else list(modes)
