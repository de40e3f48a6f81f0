"""Messages of user interfaces, and their reducer: LangGraph's `graph.ui`."""

from typing import Any, Literal, cast
from uuid import uuid4

from typing_extensions import TypedDict

from actorgraph.runtime.task.scope import current


class UIMessage(TypedDict):
    """A component to render: its name and its properties."""

    type: Literal["ui"]
    id: str
    name: str
    props: dict[str, Any]
    metadata: dict[str, Any]


class RemoveUIMessage(TypedDict):
    """The removal of a component."""

    type: Literal["remove-ui"]
    id: str


AnyUIMessage = UIMessage | RemoveUIMessage


def push_ui_message(
    name: str,
    props: dict[str, Any],
    *,
    id: str | None = None,
    metadata: dict[str, Any] | None = None,
    message: Any = None,
    state_key: str | None = "ui",
    merge: bool = False,
) -> UIMessage:
    """Send a component to the readers of `stream_mode="custom"`, and write it to the state.

    Args:
        name: of the component.
        props: its properties.
        id: default: a new one.
        metadata: more of it.
        message: the chat message that it belongs to.
        state_key: the key to write it to; None to only stream it.
        merge: whether its properties are merged over those of an earlier one with this id.
    Returns: the message.
    Raises:
        OutsideRunError: not called in a node.
    """
    scope = current("push_ui_message()")
    config = scope.base_config
    own = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
    made: UIMessage = {
        "type": "ui",
        "id": id or str(uuid4()),
        "name": name,
        "props": props,
        "metadata": {
            "merge": merge,
            "run_id": config.get("run_id"),
            "tags": config.get("tags"),
            "name": config.get("run_name"),
            **(metadata or {}),
            **({"message_id": own} if own else {}),
        },
    }
    scope.write(made)
    if state_key:
        scope.pushed.append((state_key, made))
    return made


def delete_ui_message(id: str, *, state_key: str = "ui") -> RemoveUIMessage:
    """Send the removal of a component, and write it to the state.

    Raises:
        OutsideRunError: not called in a node.
    """
    scope = current("delete_ui_message()")
    made: RemoveUIMessage = {"type": "remove-ui", "id": id}
    scope.write(made)
    scope.pushed.append((state_key, made))
    return made


def ui_message_reducer(
    left: list[AnyUIMessage] | AnyUIMessage, right: list[AnyUIMessage] | AnyUIMessage
) -> list[AnyUIMessage]:
    """Fold components into a list of them, by id.

    Raises:
        ValueError: one that isn't there is to be removed.
    """
    kept = {one["id"]: one for one in _listed(left)}
    removed: set[str] = set()
    for one in _listed(right):
        known = kept.get(one["id"])
        if one["type"] == "remove-ui":
            if known is None:
                raise ValueError(
                    "Attempting to delete an UI message with an ID that doesn't exist "
                    f"({one['id']!r})"
                )
            removed.add(one["id"])
            continue
        removed.discard(one["id"])
        if known is not None and one["metadata"].get("merge"):
            props = {**cast("UIMessage", known)["props"], **one["props"]}
            kept[one["id"]] = cast("UIMessage", {**one, "props": props})
        else:
            kept[one["id"]] = one
    return [one for one in kept.values() if one["id"] not in removed]


def _listed(given: list[AnyUIMessage] | AnyUIMessage) -> list[AnyUIMessage]:
    return given if isinstance(given, list) else [given]
