"""push_message: stream a message at once, and write it to the state when the node ends."""

from typing import Any

from actorgraph.errors import InvalidUpdateError, OutsideRunError
from actorgraph.messages.forms import converted
from actorgraph.runtime.context import CURRENT


def push_message(message: Any, *, state_key: str | None = "messages") -> Any:
    """Send a message to the readers of `stream_mode="messages"`, and write it to the state.

    Args:
        message: in any form that `add_messages` takes; it must have an id.
        state_key: the key to write it to when the node ends; None to only stream it.
    Returns: the message.
    Raises:
        InvalidUpdateError: it has no id.
        OutsideRunError: not called in a node.
    """
    try:
        scope = CURRENT.get()
    except LookupError:
        raise OutsideRunError(
            "push_message() was called outside a node",
            do="call it in a node, or in a function that a node calls",
        ) from None
    (made,) = converted([message])
    if made.id is None:
        raise InvalidUpdateError(
            "Message ID is required: push_message() got a message without an id",
            do="give it one, such as str(uuid4())",
        )
    if scope.messages is not None:
        scope.messages.offer_new(made, scope.messages.metadata)
    if state_key is not None:
        scope.pushed.append((state_key, made))
    return made
