"""The events of a run for pages that read its state themselves: what happened, without values.

Of tasks their names and how they end, of other chunks their kind alone; messages in pieces. A
task's input may be a whole state, which such a page would get again with each step, to no use.
"""

from typing import Any

from actorgraph.internals import Namespace
from actorgraph.web.http.event_translator import SAME, EventTranslator

_KINDS = frozenset(SAME)


class SignalTranslator(EventTranslator):
    """Translates the chunks of a run into signals, of the main graph alone.

    A chunk of mode "tasks" becomes `{"id": ..., "name": ..., "state": ...}`, with the state
    "running", "done", "failed", "waiting" (it has a question) or "sleeping" (the clock alone wakes
    it); one of another mode that isn't "messages" becomes `{}`. Messages have the compact form.
    """

    has_values = False

    def __init__(self) -> None:
        super().__init__(None, subgraphs=False, compact=True)

    def events(self, namespace: Namespace, mode: str, chunk: Any) -> list[tuple[str, Any]]:
        """Return the events, `(name, data)`, for a chunk or another event of the run."""
        if mode not in _KINDS:
            return super().events(namespace, mode, chunk)
        if namespace:
            return []
        return [(mode, _signal_of(chunk) if mode == "tasks" else {})]


def _signal_of(task: Any) -> dict[str, Any]:
    """Return what a chunk of mode "tasks" says, without the task's input and result."""
    if task.get("error"):
        state = "failed"
    elif asked := task.get("interrupts"):
        state = "sleeping" if all(question.get("sleeps") for question in asked) else "waiting"
    else:
        state = "done" if "result" in task else "running"
    return {"id": str(task["id"]), "name": str(task["name"]), "state": state}
