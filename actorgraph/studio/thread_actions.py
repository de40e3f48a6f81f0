"""Actions on threads: start, answer, edit and fork, replay, retry, cancel, rename, copy, delete."""

from collections.abc import Mapping
from typing import Any

import anyio
import uuid_utils
from starlette.responses import Response

from actorgraph.errors import ActorGraphError
from actorgraph.internals import assistant_id
from actorgraph.studio.input_forms import message_key, user_message
from actorgraph.studio.page_calls import Handler, StudioCall
from actorgraph.studio.question_forms import (
    RAW,
    FormError,
    GivenTexts,
    answer_of,
    form_of,
    json_or_text,
)
from actorgraph.studio.review_forms import decisions_of
from actorgraph.studio.shown import part
from actorgraph.studio.studio_reader import ThreadEntry
from actorgraph.studio.thread_pages import TITLE, admitted, thread
from actorgraph.studio.thread_views import Question, questions_of
from actorgraph.web.endpoints.run_start import graph_errors_as_problems
from actorgraph.web.http.identity import identity_of
from actorgraph.web.http.problems import HttpProblem, NotFound, response_to

MODES = ("updates", "tasks", "custom", "messages")
"""The stream modes of runs that the studio starts: not "values", a whole state for each step."""

CANCEL_S = 3
"""Seconds that the answer waits for cancelled runs to end."""
PROBLEM_MAX = 4_000
"""Characters of an error on a page."""


async def start(call: StudioCall) -> Response:
    """Start a run on a new or known thread."""
    call.must_write()
    graph = call.form.get("graph", "")
    thread_id = call.form.get("thread_id", "").strip() or str(uuid_utils.uuid7())
    if graph not in call.source.graphs:
        raise NotFound(f"graph {graph!r} is not one of this system")
    wanted = await may_start(call, thread_id)
    given = json_or_text(call.form.get("input", ""))
    await call.source.register(thread_id, graph, wanted)
    await start_run(call, graph, thread_id, given, if_busy="enqueue")
    return call.back(f"/threads/{part(thread_id)}")


async def may_start(call: StudioCall, thread_id: str) -> Mapping[str, Any]:
    """Authorize a run on a known or new thread; returns what its metadata must contain.

    Raises:
        HttpProblem: the thread belongs to another principal, or its id is denied.
    """
    known = await call.source.thread(thread_id)
    if known is not None:
        return await call.may("studio.act", thread_id, known.metadata)
    wanted = await call.may("studio.act")
    own = await call.access.ask(call.principal, "studio.act", thread_id, wanted)
    return {**wanted, **own}


async def answer_question(call: StudioCall) -> Response:
    """Answer one question of a thread."""
    entry = await _admitted(call)
    head = await call.source.head(entry)
    asked = [one for one in questions_of(head) if one.id in call.many.get("interrupt", [])[:1]]
    if not asked:
        return await _back(call, entry, "this question is not open any more")
    try:
        answer = _answer(call, asked[0])
    except FormError as error:
        call.errors = error.errors
        return await _back(call, entry, "The answer doesn't fit: see its form")
    return await _run(call, entry, None, answers={asked[0].id: answer})


def _answer(call: StudioCall, asked: Question) -> Any:
    """Read the answer to a question from the form of the body.

    Raises:
        FormError: it doesn't fit.
    """
    raw = call.form.get(RAW, "").strip()
    if not asked.reviews or raw:
        return answer_of(form_of(asked.form.schema, GivenTexts(call.form)), raw)
    return decisions_of(asked.asked, GivenTexts(call.form))


async def send(call: StudioCall) -> Response:
    """Add a person's message to a thread, and run it."""
    entry = await _admitted(call)
    key = message_key(call.source.graph_of(entry))
    text = call.form.get("message", "")
    if not key:
        return await _back(call, entry, "the input of this graph has no messages")
    if not text.strip():
        return await _back(call, entry, "the message is empty")
    return await _run(call, entry, {key: [user_message(text)]}, if_busy="enqueue")


async def edit(call: StudioCall) -> Response:
    """Write values at a checkpoint; a branch if it is not the newest."""
    entry = await _admitted(call)
    values = json_or_text(call.form.get("values", ""))
    if not isinstance(values, dict):
        return await _back(call, entry, "the values must be a JSON object")
    graph = call.source.graph_of(entry)
    place = _place(entry, call.form.get("checkpoint", ""))
    try:
        with graph_errors_as_problems():
            made = await graph.aupdate_state(place, values, call.form.get("as_node") or None)
    except (ActorGraphError, HttpProblem) as error:
        return await _back(call, entry, str(error), status_of_error(error))
    if call.form.get("then") == "run":
        return await _run(call, entry, None, made["configurable"]["checkpoint_id"])
    return await _back(call, entry)


async def replay(call: StudioCall) -> Response:
    """Run again from a checkpoint, on a branch; or replay the recorded results, calling no node."""
    entry = await _admitted(call)
    options: dict[str, Any] = {}
    if call.form.get("mode") == "recorded":
        options["replay"] = "recorded"
    return await _run(call, entry, None, call.form.get("checkpoint", ""), **options)


async def retry(call: StudioCall) -> Response:
    """Run the unfinished tasks of a failed thread again."""
    entry = await _admitted(call)
    await free_stuck(call, entry)
    return await _run(call, entry, None)


async def free_stuck(call: StudioCall, entry: ThreadEntry) -> None:
    """Let all tasks of a thread run again, on a copy, if their writes couldn't be folded.

    Raises:
        NotFound: its graph isn't known.
    """
    graph = call.source.graph_of(entry)
    if (await call.source.head(entry)).is_stuck:
        await graph.aupdate_state(_place(entry, ""), None, "__copy__")


async def cancel(call: StudioCall) -> Response:
    """Cancel the open runs of a thread, without those that wait for their times."""
    entry = await _admitted(call)
    runs = await call.must_write().runs(thread_id=entry.thread_id, statuses=("pending", "running"))
    found = [run for run in runs if not run.waits_for_time]
    if runs and not found:
        waits = (
            "1 run waits for its time" if len(runs) == 1 else f"{len(runs)} runs wait for theirs"
        )
        return await _back(call, entry, f"{waits}; the page of runs cancels single ones")
    with anyio.move_on_after(CANCEL_S):  # a node may take long to end; the page shows it then
        for run in found:
            await run.cancel("cancelled in the studio", wait=False)
        for run in found:
            await run.wait()
    return await _back(call, entry)


async def rename(call: StudioCall) -> Response:
    """Give a thread a name."""
    entry = await _admitted(call)
    given = {TITLE: call.form.get("title", "").strip()}
    await call.may("studio.act", entry.thread_id, {**entry.metadata, **given})
    await call.source.merge_metadata(entry, given)
    return await _back(call, entry)


async def copy(call: StudioCall) -> Response:
    """Copy a thread with all of its checkpoints."""
    entry = await _admitted(call)
    made = str(uuid_utils.uuid7())
    await call.source.saver.acopy_thread(entry.thread_id, made)
    await call.source.register(made, entry.graph, entry.metadata)
    return call.back(f"/threads/{part(made)}")


async def delete(call: StudioCall) -> Response:
    """Delete a thread, after cancelling its runs."""
    entry = await _admitted(call, "studio.delete")
    await call.source.delete(entry)
    return call.back("/threads")


async def _admitted(call: StudioCall, action: str = "studio.act") -> ThreadEntry:
    call.must_write()
    return await admitted(call, action)


async def _run(
    call: StudioCall, entry: ThreadEntry, given: Any, checkpoint: str = "", **options: Any
) -> Response:
    call.source.graph_of(entry)
    config = {"configurable": {"checkpoint_id": checkpoint}} if checkpoint else None
    try:
        await start_run(call, entry.graph, entry.thread_id, given, config=config, **options)
    except (ActorGraphError, HttpProblem) as error:
        return await _back(call, entry, str(error), status_of_error(error))
    return await _back(call, entry)


async def start_run(
    call: StudioCall, graph: str, thread_id: str, given: Any, **options: Any
) -> None:
    """Start a run with the events that pages show; they are stored if the saver keeps runs."""
    keeps = getattr(call.source.saver, "keeps_runs", False)
    system = call.must_write()
    begin = system.resume if "answers" in options else system.start
    config: dict[str, Any] = options.pop("config", None) or {}
    known = identity_of(call.principal, assistant_id(graph), graph)
    options["config"] = {**config, "configurable": {**config.get("configurable", {}), **known}}
    await begin(graph, thread_id, given, stream_mode=MODES, resumable=keeps, **options)


def _place(entry: ThreadEntry, checkpoint: str) -> dict[str, Any]:
    place = {"thread_id": entry.thread_id, "checkpoint_ns": ""}
    return {"configurable": place | ({"checkpoint_id": checkpoint} if checkpoint else {})}


async def _back(
    call: StudioCall, entry: ThreadEntry, problem: str = "", status: int = 422
) -> Response:
    """Go back to a thread's page; a problem is shown there, beside the texts that were sent."""
    address = f"/threads/{part(entry.thread_id)}"
    if problem:
        return await thread(call.refused(problem[:PROBLEM_MAX], address, status))
    return call.back(address)


def status_of_error(error: ActorGraphError | HttpProblem) -> int:
    """Return the HTTP status of an error."""
    return error.status if isinstance(error, HttpProblem) else response_to(error).status_code


_T = "/threads/{thread_id}"
PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/threads", start),
    ("POST", _T + "/answer", answer_question),
    ("POST", _T + "/send", send),
    ("POST", _T + "/edit", edit),
    ("POST", _T + "/replay", replay),
    ("POST", _T + "/retry", retry),
    ("POST", _T + "/cancel", cancel),
    ("POST", _T + "/rename", rename),
    ("POST", _T + "/copy", copy),
    ("POST", _T + "/delete", delete),
)
