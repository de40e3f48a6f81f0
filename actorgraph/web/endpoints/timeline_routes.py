"""The route for the timeline of a thread: its tasks with their attempts and times."""

from msgspec import Struct

from actorgraph.internals import in_turns
from actorgraph.types import TimelineStep, TimelineTask
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint, history_graph
from actorgraph.web.endpoints.thread_state import config_of
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.problems import NotFound


class TimelineQuery(Struct):
    """Page of a timeline, and the namespace of the subgraph whose tasks are listed."""

    limit: bodies.Page = 100
    before: str | None = None
    checkpoint_ns: str = ""


async def timeline(call: ApiCall) -> list[response_types.TimelineStep]:
    """List a thread's supersteps, newest first, with the attempts of their tasks."""
    assert call.thread is not None
    try:
        graph = await history_graph(call, call.thread)
    except NotFound:  # it has had no run yet
        return []
    config = config_of(call.thread_id, {"checkpoint_ns": call.query.checkpoint_ns})
    steps = await graph.aget_timeline(config, before=call.query.before, limit=call.query.limit)
    return await in_turns(steps, _step)


def _step(step: TimelineStep) -> response_types.TimelineStep:
    return response_types.TimelineStep(
        step=step.step,
        checkpoint_id=step.checkpoint_id,
        parent_checkpoint_id=step.parent_id,
        checkpoint_ns=step.namespace,
        source=step.source,
        run_id=step.run_id,
        created=step.created,
        next=list(step.next),
        tasks=[_task(task) for task in step.tasks],
    )


def _task(task: TimelineTask) -> response_types.TimelineTask:
    return response_types.TimelineTask(
        id=task.id,
        name=task.name,
        status=task.status,
        attempts=[response_types.Attempt(*attempt) for attempt in task.attempts],
        error=task.error,
        is_call=task.is_call,
        start=task.start,
        end=task.end,
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/threads/{thread_id}/timeline",
        "threads.read",
        timeline,
        list[response_types.TimelineStep],
        query=TimelineQuery,
        summary="List the tasks of a thread's steps with their times",
    ),
)
