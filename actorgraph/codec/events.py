"""Telling the program about stored types that it doesn't allow, beside the error that is raised.

For alerts: a name that nobody put on a list is a deployment that forgot a type, or an attack.
"""

import logging
import threading
from collections.abc import Callable
from typing import TypedDict

_LOG = logging.getLogger("actorgraph.codec")


class SerdeEvent(TypedDict):
    """A stored value was refused because of its type.

    `kind` is "msgpack_blocked"; `module` and `name` are those of the type, as stored.
    """

    kind: str
    module: str
    name: str


Listener = Callable[[SerdeEvent], None]

_LISTENERS: list[Listener] = []
_LOCK = threading.Lock()


def register_serde_event_listener(listener: Listener) -> Callable[[], None]:
    """Call `listener` for each stored type that is refused, in the thread that decodes.

    What it raises is logged and goes no further.

    Returns: a function that takes the listener off; calling it again does nothing.
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


def tell_blocked(type_name: str) -> None:
    """Tell the listeners that a type, "module:Name", was refused."""
    with _LOCK:
        listeners = tuple(_LISTENERS)
    module, _, name = type_name.partition(":")
    for listener in listeners:
        try:
            listener({"kind": "msgpack_blocked", "module": module, "name": name})
        except Exception:  # noqa: BLE001 - a user's function may raise anything
            _LOG.warning("a listener for refused types failed", exc_info=True)
