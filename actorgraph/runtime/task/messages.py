"""Messages on their way to the readers of `stream_mode="messages"`.

They come from three sources: code that calls `get_message_writer()`; LangChain's chat models,
through a callback handler; and the messages that a node returns, unless they were in its input
or have been streamed already.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import Context
from typing import Any, cast

from actorgraph.bridging import BRIDGE
from actorgraph.errors import OutsideRunError
from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.plan.state_objects import fields_in
from actorgraph.runtime.task.live import (
    LiveStream,
    MessageTap,
    MessageWriter,
    message_id,
    messages_in,
    user_tags,
)
from actorgraph.runtime.task.scope import CURRENT, TaskScope
from actorgraph.runtime.task.task_places import task_metadata
from actorgraph.values.configs import LIBRARY_KEY
from actorgraph.values.run import Write


def get_message_writer() -> MessageWriter:
    """Get a function that sends pieces of messages to the readers of `stream_mode="messages"`.

    For models that are not LangChain's; LangChain's are streamed without it.

    Raises:
        OutsideRunError: not called in a node.
    """
    try:
        scope = CURRENT.get()
    except LookupError:
        raise OutsideRunError(
            "get_message_writer() was called outside of a node",
            do="call it in a node, or in a function that a node calls",
        ) from None
    return MessageWriter(scope.messages, scope.observer)


def attach_tap(
    live: LiveStream, node: NodePlan, scope: TaskScope, context: Context, given: Any
) -> None:
    """Give a task its message tap, if messages are read.

    Args:
        context: the task's own; LangChain's callbacks are set in it.
        given: the node's input, whose messages readers are assumed to have.
    """
    if "messages" not in live.modes:
        return
    live.seen.update(message_id(m) for m in _messages_of(given) if m.id is not None)
    tags = user_tags([*(scope.config.get("tags") or ()), *node.metadata.get("tags", ())])
    tap = MessageTap(live, scope.task, metadata_of(scope, node, live.step()), tags)
    scope.messages = tap
    if BRIDGE.calls_module in sys.modules:
        BRIDGE.stream_models(tap, scope, context)


def offer_returned_messages(
    scope: TaskScope, node: NodePlan, plan: Plan, writes: Iterable[Write]
) -> None:
    """Send the messages that a node has returned, unless the node is hidden."""
    if scope.messages is not None and not node.hidden:
        broadcast = scope.run_context.broadcast
        # A stored stream is on disk: values of untracked channels must not get there.
        if plan.untracked and broadcast is not None and broadcast.is_stored:
            writes = [write for write in writes if write[0] not in plan.untracked]
        scope.messages.offer_returned(writes)


def metadata_of(scope: TaskScope, node: NodePlan, step: int) -> dict[str, Any]:
    """Describe a message's origin: the caller's metadata, the thread, the task, the node's."""
    metadata: dict[str, Any] = {LIBRARY_KEY: "langgraph", **scope.config["metadata"]}
    metadata.update(task_metadata(scope.task, step))
    metadata.update((k, v) for k, v in node.metadata.items() if k != "tags")
    return metadata


def _messages_of(state: Any) -> Iterator[Any]:
    """The messages of a node's input, one level deep."""
    if isinstance(state, Mapping):
        values: Iterable[Any] = cast("Mapping[str, Any]", state).values()
    elif (known := fields_in(type(state))) is not None:
        values = [getattr(state, name, None) for name in known.names]
    else:
        values = [state]
    for value in values:
        yield from messages_in(value)
