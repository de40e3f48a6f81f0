"""RunProgress: the state of a run as a terminal shows it, folded from the chunks of its stream.

Receives   chunks of the modes in `MODES`, with the time at which each arrived
Offers     nodes with their states, the step, the last lines of messages; lines of plain text
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from actorgraph.cli.drawn import compact
from actorgraph.cli.printed import OpenQuestion
from actorgraph.internals import Namespace, times_in
from actorgraph.types import Interrupt
from actorgraph.web.http.question_words import times_of

MODES = ("checkpoints", "tasks", "messages", "custom", "values")
MESSAGE_MAX = 4_000
"""Characters of a message that are kept, its newest."""
NODES_MAX = 200
"""Nodes that are kept, those of subgraphs included."""

NodeState = Literal["", "queued", "running", "done", "failed", "waiting"]


@dataclass
class NodeView:
    """A node of the run.

    Attributes:
        calls: how often it has ended in this run.
        running: its tasks that have started and not ended.
        began: when the first of them started, in seconds of the clock of `RunProgress.take`.
        took_s: seconds that its tasks have taken, as long as any was running.
        note: its question, its error, or what it wrote last.
    """

    name: str
    state: NodeState = ""
    calls: int = 0
    running: int = 0
    began: float = 0.0
    took_s: float = 0.0
    note: str = ""


@dataclass
class RunProgress:
    """A run as it goes; see the module's docstring.

    Attributes:
        steps: supersteps of the graph itself that this run has finished.
        messages: node -> its message, as far as it has come; until the node ends.
        output: the newest values.
        questions: id -> question that this run has asked.
    """

    nodes: dict[str, NodeView] = field(default_factory=dict[str, NodeView])
    steps: int = 0
    messages: dict[str, str] = field(default_factory=dict[str, str])
    output: Any = None
    questions: dict[str, OpenQuestion] = field(default_factory=dict[str, OpenQuestion])
    _message_ids: dict[str, object] = field(default_factory=dict[str, object])
    _begun: bool = False

    @classmethod
    def of(cls, names: Sequence[str]) -> "RunProgress":
        """Make the view of a run that has not begun."""
        return cls({name: NodeView(name) for name in names})

    def take(self, namespace: Namespace, mode: str, chunk: Any, now: float) -> list[str]:
        """Fold one chunk.

        Returns: lines about it, for outputs other than a terminal.
        """
        match mode:
            case "tasks":
                return list(self._task(namespace, chunk, now))
            case "checkpoints" if not namespace:
                return list(self._checkpoint(chunk))
            case "messages":
                return list(self._piece(namespace, chunk))
            case "custom":
                return [f"custom {compact(_plain(chunk))}"]
            case "values" if not namespace:
                self.output = _without_questions(chunk)
            case _:
                pass
        return []

    def end(self) -> list[str]:
        """Return the lines of the unfinished messages."""
        return [line for author in list(self.messages) for line in self._end_message(author)]

    def _node(self, namespace: Namespace, name: str) -> NodeView | None:
        path = _path(namespace, name)
        if path not in self.nodes and len(self.nodes) >= NODES_MAX:
            return None
        return self.nodes.setdefault(path, NodeView(path))

    def _task(self, namespace: Namespace, chunk: Any, now: float) -> Iterator[str]:
        node = self._node(namespace, chunk["name"])
        if node is None:
            return
        if "triggers" in chunk:
            if not node.running:
                node.began, node.note = now, ""
            node.running += 1
            node.state = "running"
            yield f"{node.name} runs"
            return
        yield from self._end_message(node.name)
        node.running = max(0, node.running - 1)
        node.calls += 1
        if not node.running:
            node.took_s += now - node.began
        yield self._ended(node, chunk, now)

    def _ended(self, node: NodeView, chunk: Any, now: float) -> str:
        took = f"{now - node.began:.2f} s"
        if chunk.get("error") is not None:
            node.state, node.note = "failed", compact(str(chunk["error"]))
            return f"{node.name} failed: {node.note}"
        if chunk.get("interrupts"):
            for asked in chunk["interrupts"]:
                value, schema = _plain(asked["value"]), asked.get("response_schema")
                times = times_of([Interrupt(value, timing=times_in(asked))])
                known = OpenQuestion(asked["id"], node.name, value, schema, times)
                self.questions[asked["id"]] = known
            node.state, node.note = "waiting", compact(_plain(chunk["interrupts"][0]["value"]))
            return f"{node.name} waits: {node.note}"
        node.state = "running" if node.running else "done"
        node.note = compact(_plain(chunk["result"]), 200) if chunk.get("result") else ""
        return f"{node.name} done in {took}" + (f": {node.note}" if node.note else "")

    def _checkpoint(self, chunk: Any) -> Iterator[str]:
        step = (chunk.get("metadata") or {}).get("step", -1)
        # The first one is the input, or where the thread goes on; step 0 has its values.
        begun, self._begun = self._begun, True
        if begun and step > 0:
            self.steps += 1
            yield f"step {step} stored"
        for task in chunk.get("tasks") or ():
            # `__start__` is not shown.
            node = None if task["name"].startswith("__") else self._node((), task["name"])
            if node is not None and not node.running:
                # Some tasks of a resumed thread may have finished in an earlier run.
                node.state, node.note = "done" if "result" in task else "queued", ""

    def _piece(self, namespace: Namespace, chunk: Any) -> Iterator[str]:
        """Add a piece to the message of its node: nodes that run together talk together."""
        message, metadata = chunk
        identity = getattr(message, "id", None)
        author = _path(namespace, str(metadata.get("langgraph_node", "")))
        if self._message_ids.get(author, identity) != identity:
            yield from self._end_message(author)
        self._message_ids[author] = identity
        text = getattr(message, "content", "")
        if isinstance(text, str):
            self.messages[author] = (self.messages.get(author, "") + text)[-MESSAGE_MAX:]

    def _end_message(self, author: str) -> Iterator[str]:
        text = self.messages.pop(author, "")
        self._message_ids.pop(author, None)
        if text:
            yield f"{author} says: {compact(text)}"


def _path(namespace: Namespace, name: str) -> str:
    """Return a node's name, in a subgraph behind the names of the nodes around it."""
    return "/".join([*(part.partition(":")[0] for part in namespace), name])


def _without_questions(chunk: Any) -> Any:
    if isinstance(chunk, dict):
        return {key: value for key, value in chunk.items() if key != "__interrupt__"}
    return chunk


def _plain(value: Any) -> Any:
    from actorgraph.web.http.jsonable import to_plain

    return to_plain(value)
