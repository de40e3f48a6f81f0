"""Listeners for stored types that are refused."""

import logging
import threading
from collections.abc import Callable
from typing import TypedDict

_LOG = logging.getLogger("actorgraph.codec")


class SerdeEvent(TypedDict):
    """A stored value was refused because of its type.

    Attributes:
        kind: "msgpack_blocked".
        module: of the type, as stored.
        name: of the type, as stored.
    """

    kind: str
    module: str
    name: str


Listener = Callable[[SerdeEvent], None]

_LISTENERS: list[Listener] = []
_LOCK = threading.Lock()


def register_serde_event_listener(listener: Listener) -> Callable[[], None]:
    """Call `listener` for each stored type that is refused, in the thread that decodes.

    Exceptions of the listener are logged, not raised.

    Returns: a function that removes the listener; calling it again does nothing.
    """
    with _LOCK:
        _LISTENERS.append(listener)

    def unregister() -> None:
        with _LOCK:
            for place, known in enumerate(_LISTENERS):
                if known is listener:
                    del _LISTENERS[place]
                    break

    return unregister


def notify_blocked(type_name: str) -> None:
    """Call the listeners for a refused type, "module:Name"."""
    with _LOCK:
        listeners = tuple(_LISTENERS)
    module, _, name = type_name.partition(":")
    for listener in listeners:
        try:
            listener({"kind": "msgpack_blocked", "module": module, "name": name})
        except Exception:  # noqa: BLE001 - a user's function may raise anything
            _LOG.warning("a listener for refused types failed", exc_info=True)
